"""Draw CIDEr-D against the weight λ of a loss term, over experiments, as in the papers."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from pipeline.config.params import Params
from pipeline.reporting.curves import TERMS
from pipeline.reporting.dataset_results import Results
from pipeline.reporting.dvc_experiments import LISTS, Experiment, Value
from pipeline.reporting.figures import INK, Panel, Style, panel, styles
from pipeline.scoring.metric_names import CIDER
from pipeline.statistics.seeds import MeanSd, over_seeds

PREFIX = "loss.lambda_"


@dataclass(frozen=True)
class Line:
    """Scores of a model for several weights of a loss term. All other settings are equal."""

    style: Style
    others: str  # other settings that differ between experiments
    points: list[tuple[float, MeanSd]]  # weight, score; weights rise


def panels(results: Results, experiments: Sequence[Experiment], params: Params) -> list[Panel]:
    """Return a panel for each loss weight that has at least two values.

    A panel has a line for each model with this loss.
    """
    keys = dict.fromkeys(key for one in experiments for key in one.params if key.startswith(PREFIX))
    found = [(key, _lines(key, results, experiments, params)) for key in keys]
    return [_panel(key, results.dataset, lines) for key, lines in found if lines]


def _lines(key: str, results: Results, experiments: Sequence[Experiment], params: Params) -> list[Line]:
    term = key.removeprefix(PREFIX)
    having = {cell.model for cell in results.cells if term in cell.phases["captioning"].losses}
    published = params.of(results.dataset).loss
    values: dict[tuple[str, str], dict[float, dict[str, float]]] = {}
    for one in experiments:
        weight = _resolved(key, one.params.get(key), published)
        if weight is None:
            continue
        others = _others(key, one, published)
        for cell, metrics in one.metrics.items():
            dataset, model, seed = cell.split("/")
            if dataset == results.dataset and model in having and CIDER in metrics:
                seeds = values.setdefault((model, others), {}).setdefault(weight, {})
                seeds[seed] = metrics[CIDER]  # a repeated run replaces the earlier one
    own = styles(cell.model for cell in results.cells)
    return [
        Line(own[model], others, [(w, over_seeds([*s.values()])) for w, s in sorted(weights.items())])
        for (model, others), weights in sorted(values.items(), key=lambda item: own[item[0][0]].number)
        if len(weights) > 1
    ]


def _resolved(key: str, value: Value, published: dict[str, float]) -> float | None:
    """Return a loss weight as a number.

    If `value` is None, return the dataset's published weight, which may be None.
    """
    found = published.get(key.removeprefix("loss.")) if value is None else value
    return None if found is None else float(found)  # type: ignore[arg-type]


def _others(key: str, one: Experiment, published: dict[str, float]) -> str:
    rest = {name: value for name, value in sorted(one.params.items()) if name not in (key, *LISTS)}
    for name in rest:
        if name.startswith(PREFIX):
            rest[name] = _resolved(name, rest[name], published)
    return ", ".join(f"{name} = {json.dumps(value)}" for name, value in rest.items())


def _panel(key: str, dataset: str, lines: Sequence[Line]) -> Panel:
    term = key.removeprefix(PREFIX)
    title = f"{CIDER} × 100 against λ of {TERMS.get(term, term)}"
    told = "; ".join(
        f"{line.style.model}{f' ({line.others})' if line.others else ''}: "
        + ", ".join(f"{100 * score.mean:.1f} at {weight:g}" for weight, score in line.points)
        for line in lines
    )
    others = list(dict.fromkeys(line.others for line in lines))
    label = f"{key}  ({others[0]})" if len(others) == 1 and others[0] else key
    return panel(title, f"{title}. {told}.", dataset, lambda axes: _draw(axes, lines, label, len(others) > 1))


def _draw(axes: Axes, lines: Sequence[Line], label: str, noted: bool) -> None:
    """Draw lines on a logarithmic axis of weights, with whiskers of ± one standard deviation over seeds."""
    weights = sorted({weight for line in lines for weight, _ in line.points})
    positive = [weight for weight in weights if weight]
    if weights[0] == 0 and positive:
        axes.set_xscale("symlog", linthresh=positive[0], linscale=0.5)  # 0 has no logarithm
    elif positive:
        axes.set_xscale("log")
    for line in lines:
        x, y = [weight for weight, _ in line.points], [100 * score.mean for _, score in line.points]
        axes.plot(x, y, color=line.style.drawn, dashes=line.style.dashes or (None, None), marker="o")
        for weight, score in line.points:
            if score.sd:
                low, high = 100 * (score.mean - score.sd), 100 * (score.mean + score.sd)
                axes.vlines(weight, low, high, colors=line.style.drawn, linewidth=0.9)
        if noted:
            end = (x[-1], y[-1])
            axes.annotate(
                line.others, end, (-3, 4), textcoords="offset points", ha="right", color=INK, fontsize=7
            )
    axes.set_xticks(weights)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda weight, _: f"{weight:g}"))
    axes.set_xlabel(label)
    axes.yaxis.set_major_locator(MaxNLocator(6))
