"""Draw learning curves: training losses and validation scores of each phase, with a line per run."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from pipeline.reporting import figures
from pipeline.reporting.dataset_results import PhaseName, Results
from pipeline.reporting.figures import QUIET, Panel, Style, styles

MARKED = 20  # lines with at most so many points have markers
TERMS = {  # name of a loss in the papers
    "cap": "caption",
    "cv": "view-invariance",
    "cbr": "backward reasoning",
    "dirl": "channel correlation",
    "ccr": "cross-modal contrast",
    "judge": "distractor judging",
    "maps": "size of the attention maps",
    "entropy": "minus the weights’ entropy",
    "con": "consistency",  # CARD's of common contexts, MEDIC's of experts
    "ind": "context independence",
    "cls": "router of change",
    "type": "router of the kind of change",
    "dis": "disentangling of experts",
    "policy": "policy gradient",
}
MEASURED = {  # columns next to the losses -> title
    "judge_accuracy": "Accuracy of distractor judging, in training",
    "reward": "Mean reward of the sampled captions",
    "sample_entropy": "Entropy of the sampled captions, nats",
    "sample_length": "Words of the sampled captions, with <END>",
    "sample_tells_change": "Share of sampled captions that report a change",
}
# pre-training phases in the order of their panels, and text for titles
PRETRAININGS: tuple[tuple[PhaseName, str], ...] = (("images", "on CUB’s images, "), ("pretrain", ""))
Line = tuple[Style, int, Sequence[float], Sequence[float]]
"""The curve of a run: style, seed, iterations and values."""
TASKS = {"mlm": "masked words", "mvcl": "masked cells", "fda": "negatives", "class_pairs": "pairs of classes"}


@dataclass(frozen=True)
class Measure:
    """Quantity that one panel shows: a column of the training losses or of the validation scores.

    `kind` says which of the two. Values are multiplied by `factor`. `best` is min or max, and computes
    the best value of a run.
    """

    column: str
    title: str
    best: Callable[[Sequence[float]], float] = max
    chance: float | None = None  # score at chance, a dotted line
    kind: Literal["losses", "validation"] = "validation"
    factor: float = 1


CAPTIONING_SCORES = (  # scores of captioning
    Measure("true/changed", "Validation, true captions of changed pairs, percent", factor=100),
    Measure("true", "Validation, true captions of all pairs, percent", factor=100),
    Measure("CIDEr-D", "Validation CIDEr-D × 100", factor=100),
)
PRETRAINING_SCORES = (  # validation scores of a pre-training
    Measure("mlm_accuracy", "masked words named"),
    Measure("mvcl_rank", "rank of the masked cell, 0 the first", min, 1 / 2),
    Measure("fda_accuracy_change", "own caption found, change pairs", chance=1 / 7),
    Measure("fda_accuracy_no_change", "own caption found, no-change pairs", chance=1 / 7),
    Measure("class_accuracy", "class named", chance=1 / 555),
    Measure("same_accuracy", "one class or two", chance=1 / 2),
)


def captioning(results: Results) -> list[Panel]:
    """Return the panels of the captioning phase: one per validation score, and one per loss term."""
    terms = [term for run in results.runs for term in run.phases["train"].losses]
    losses = [
        Measure(term, MEASURED[term], kind="losses")
        if term in MEASURED
        else _loss(term, f"Training loss: {TERMS.get(term, term)}")
        for term in dict.fromkeys(terms)
        if term != "iteration"
    ]
    return _panels(results, "train", [*CAPTIONING_SCORES, *losses])


def pretraining(results: Results) -> list[Panel]:
    """Return panels for each pre-training phase: the training loss of each task, and validation scores."""
    panels: list[Panel] = []
    for phase, title_part in PRETRAININGS:
        tasks = [_loss(term, f"Training loss, {title_part}{name}") for term, name in TASKS.items()]
        checks = [
            replace(measure, title=f"Validation, {title_part}{measure.title}")
            for measure in PRETRAINING_SCORES
        ]
        panels += _panels(results, phase, [*tasks, *checks])
    return panels


def adaptation(results: Results) -> list[Panel]:
    """Return panels of the retrieval phase: training loss and validation R@1."""
    title = f"Validation, R@1: a sentence’s own pair found first of {results.searched}"
    chance = 1 / results.searched if results.searched else None
    loss = _loss("retrieval", "Training loss, retrieval")
    return _panels(results, "adapt", [loss, Measure("R@1", title, chance=chance)])


def _loss(term: str, title: str) -> Measure:
    return Measure(term, title, min, kind="losses")


def _panels(results: Results, phase: PhaseName, measures: Iterable[Measure]) -> list[Panel]:
    measured = [(measure, _lines(results, phase, measure)) for measure in measures]
    return [_panel(results.dataset, measure, lines) for measure, lines in measured if lines]


def _lines(results: Results, phase: PhaseName, measure: Measure) -> list[Line]:
    styles_by_model = styles(run.model for run in results.runs)
    lines: list[Line] = []
    for run in results.runs:
        curve = getattr(run.phases.get(phase), measure.kind, {})
        points = (
            zip(curve["iteration"], curve[measure.column], strict=True) if measure.column in curve else ()
        )
        if finite_points := [(x, measure.factor * y) for x, y in points if not math.isnan(y)]:
            iterations, values = zip(*finite_points, strict=True)
            lines.append((styles_by_model[run.model], run.seed, iterations, values))
    return lines


def _panel(dataset: str, measure: Measure, lines: Sequence[Line]) -> Panel:
    summaries = "; ".join(
        f"{style.model}, seed {seed}: {measure.best.__name__}imum {measure.best(values):.2f}, "
        f"last {values[-1]:.2f}"
        for style, seed, _, values in lines
    )
    chance_text = "" if measure.chance is None else f" Chance: {measure.chance:.3g}."
    description = f"{measure.title} over iterations. {summaries}.{chance_text}"
    svg = figures.svg(lambda axes: _draw(axes, lines, measure.chance), f"{dataset} {measure.title}")
    return Panel(measure.title, description, svg)


def _draw(axes: Axes, lines: Sequence[Line], chance: float | None) -> None:
    if chance is not None:
        axes.axhline(chance, color=QUIET, dashes=(1, 2))
    for style, _, iterations, values in lines:
        marker = "o" if len(iterations) <= MARKED else None
        axes.plot(
            iterations, values, color=style.placeholder, dashes=style.dashes or (None, None), marker=marker
        )
    axes.set_xlabel("iteration")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(6))
