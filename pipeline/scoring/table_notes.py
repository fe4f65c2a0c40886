"""Make the lines below a table of scores: which pairs were scored, repeated captions, the best constant."""

from collections.abc import Mapping
from typing import Any

from pipeline.scoring import conditions, repetition
from pipeline.scoring.constant_baseline import BEST, BEST_CHANGED
from pipeline.scoring.metric_names import CORPUS

KEYS = (conditions.KEY, repetition.OVERALL, repetition.CHANGED, BEST, BEST_CHANGED)
"""Keys of metrics.json from which the lines are made."""
WARNING = "warning: "
SHOWN_DIGITS = 12  # of the hash of the references


def of_metrics(metrics: Mapping[str, Any]) -> list[str]:
    """Return all lines for a metrics.json, `metrics`; those whose values are missing are left out."""
    return [*of_scope(metrics), *of_captions(metrics), *of_constants(metrics)]


def of_scope(metrics: Mapping[str, Any]) -> list[str]:
    """Return a list with the line on scored pairs, pairs left out, and references."""
    if not (scored := metrics.get(conditions.KEY)):
        return []
    left_out = f"; left out: {scored['left_out_because']}" if scored["left_out"] else ""
    digits = scored[conditions.HASH][:SHOWN_DIGITS]
    references = f"references: {scored['references']}, sha256 {digits}…"
    return [f"{int(scored['pairs']):,} pairs scored{left_out}; {references}"]


def of_captions(metrics: Mapping[str, Any]) -> list[str]:
    """Return the lines on repeated captions, and a warning if there are too many."""
    repetitions = repetition.read(metrics)
    lines = [each.sentence for each in repetitions]
    if len(lines) == 2:
        lines[1] = f"changed pairs: {lines[1]}"
    return [*lines, *(f"{WARNING}{text}" for text in repetition.warnings(metrics))]


def of_constants(metrics: Mapping[str, Any]) -> list[str]:
    """Return the lines on the best constant captions of the references, with their scores × 100."""
    lines = []
    for key, of in ((BEST, "all pairs"), (BEST_CHANGED, "changed pairs")):
        if constant := metrics.get(key):
            names = [name for name in ("BLEU-1", *CORPUS) if constant.get(name) is not None]
            scores = ", ".join(f"{name} {100 * constant[name]:.1f}" for name in names)
            lines.append(f"best constant caption, {of}: “{constant['caption']}” ({scores})")
    return lines
