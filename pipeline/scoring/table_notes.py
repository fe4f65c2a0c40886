"""Make the lines below a table of scores: which pairs were scored, repeated captions, the best constant."""

from collections.abc import Mapping
from typing import Any

from pipeline.scoring import conditions, constant_baseline, repetition, routing
from pipeline.scoring.constant_baseline import BEST, BEST_CHANGED, CONSTANT, HUMAN
from pipeline.scoring.metric_names import CORPUS

KEYS = (conditions.KEY, routing.KEY, repetition.OVERALL, repetition.CHANGED, BEST, BEST_CHANGED, HUMAN)
"""Keys of metrics.json from which the lines are made."""
WARNING = "warning: "
WORDS_ONLY = (
    "these metrics compare words: SPICE hardly tells added from gone, and METEOR takes gone and moved for "
    'synonyms; see docs/evaluation.md, "What each metric cannot see"'
)
"""Line for scores without any that judges the truth of captions."""
SHOWN_DIGITS = 12  # of the hash of the references


def of_metrics(metrics: Mapping[str, Any]) -> list[str]:
    return [*of_scope(metrics), *of_captions(metrics), *of_routing(metrics), *of_constants(metrics)]


def of_gate(metrics: Mapping[str, Any]) -> list[str]:
    """Return a list with the warning that true kinds opened the model's gate; [] if they did not."""
    labelled = metrics.get(conditions.KEY, {}).get("gate") is not None
    return [f"{WARNING}{conditions.LABELLED}"] if labelled else []


def of_routing(metrics: Mapping[str, Any]) -> list[str]:
    """Return the lines on a model's routers: how often they are right, and who opened the gate."""
    names = {"change": "about change or no change", "kind": "about the kind of change (changed pairs)"}
    shares = metrics.get(routing.KEY, {})
    right = [f"{100 * shares[name]:.1f} % {text}" for name, text in names.items() if name in shares]
    return [*([f"routers are right: {', '.join(right)}"] if right else []), *of_gate(metrics)]


def of_scope(metrics: Mapping[str, Any]) -> list[str]:
    """Return a list with the line on scored pairs, pairs left out, and references."""
    if not (scored := metrics.get(conditions.KEY)):
        return []
    left_out = f"; left out: {scored['left_out_because']}" if scored["left_out"] else ""
    digits = scored[conditions.HASH][:SHOWN_DIGITS]
    references = f"references: {scored['references']}, sha256 {digits}…"
    return [f"{int(scored['pairs']):,} pairs scored{left_out}; {references}"]


def of_captions(metrics: Mapping[str, Any]) -> list[str]:
    """Return the lines on repeated captions, and warnings: too many, or no better than a constant."""
    repetitions = repetition.read(metrics)
    lines = [each.sentence for each in repetitions]
    if len(lines) == 2:
        lines[1] = f"changed pairs: {lines[1]}"
    return [*lines, *(f"{WARNING}{text}" for text in warnings(metrics))]


def warnings(metrics: Mapping[str, Any]) -> list[str]:
    return [*repetition.warnings(metrics), *constant_baseline.warnings(metrics)]


def of_constants(metrics: Mapping[str, Any]) -> list[str]:
    """Return the lines on the best constant captions of the references, with their scores × 100.

    The line of one annotator has the best constant caption of the same references next to it.
    """
    lines = []
    for key, of in ((BEST, "all pairs"), (BEST_CHANGED, "changed pairs")):
        if constant := metrics.get(key):
            lines.append(f"best constant caption, {of}: {_constant(constant)}")
    if human := metrics.get(HUMAN):
        of = f"one reference against the other references of its pair, {int(human['pairs']):,} pairs"
        lines.append(f"{of}: {_scores(human)}; best constant caption there: {_constant(human[CONSTANT])}")
    return lines


def _constant(constant: Mapping[str, Any]) -> str:
    return f"“{constant['caption']}” ({_scores(constant)})"


def _scores(scores: Mapping[str, Any]) -> str:
    names = [name for name in ("BLEU-1", *CORPUS) if scores.get(name) is not None]
    return ", ".join(f"{name} {100 * scores[name]:.1f}" for name in names)
