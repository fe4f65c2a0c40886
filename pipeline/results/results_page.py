"""The page of results: what the recorded cells say, in tables, and of each claim one line."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import NormalDist, fmean
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pipeline.config.params import Params
from pipeline.datasets.schema import CHANGE_TYPES
from pipeline.results import false_words, readings
from pipeline.results.claims import LEAST_SEEDS, OPEN, Finding, Verdict, verdicts
from pipeline.results.judges import judges
from pipeline.results.printing import markdown_table
from pipeline.results.record_comparisons import BEGUN, Group, plain
from pipeline.results.settings_tried import Setting, Spread, tried
from pipeline.scoring.metric_names import (
    ACCURACY,
    BLEU_4,
    CIDER,
    CLAIMED,
    HEADINGS,
    METEOR,
    ROUGE_L,
    TRUE,
    TRUE_CHANGES,
    TRUE_NO_CHANGE,
)
from pipeline.scoring.subsets import QUARTILES
from pipeline.statistics.bootstrap import resampled
from pipeline.statistics.comparisons import p_value
from pipeline.statistics.seeds import MeanSd

RESAMPLES, SEED = 2_000, 1
WANTED = 0.02  # of what is true of changes: two points
Z, POWER = NormalDist().inv_cdf(0.975), NormalDist().inv_cdf(0.8)
COLUMNS: dict[str, Callable[[Group], MeanSd | None]] = {
    HEADINGS[TRUE_CHANGES]: lambda group: group.score("change", TRUE),
    HEADINGS[TRUE_NO_CHANGE]: lambda group: group.score("no_change", TRUE),
    HEADINGS[ACCURACY]: lambda group: group.score("total", ACCURACY),
    f"{CIDER}, changes": lambda group: group.score("change", CIDER),
    CIDER: lambda group: group.score("total", CIDER),
    BLEU_4: lambda group: group.score("total", BLEU_4),
    METEOR: lambda group: group.score("total", METEOR),
    ROUGE_L: lambda group: group.score("total", ROUGE_L),
    "pointing": Group.pointing,
}

JUDGED_BY = [
    "metric",
    "dataset",
    "over all cells",
    "over cells that have begun",
    "two of these ranked otherwise",
    "over the changes of a cell",
    "true preferred to false",
]


def page(
    datasets: Sequence[Sequence[Group]],
    figures: Sequence[str],
    params: Params,
    said: Mapping[str, str] | None = None,
    own: bool = False,
) -> str:
    """The whole page, of each dataset's groups; `figures` are lines of Markdown, `said` of readings.read.

    `own`: of a user's own records, not of the published ones.
    """
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    held = [found for groups in datasets for found in verdicts(groups)]
    ordered = [sorted(groups, key=lambda group: list(params.model).index(group.model)) for groups in datasets]
    text = environment.get_template("results_page.j2").render(
        own_records=own,
        figures=figures,
        datasets=[_dataset(groups, list(params.model)) for groups in datasets if groups],
        by_viewpoint=_by_viewpoint([groups for groups in ordered if groups]),
        claims=_claims(held),
        disagreements=_disagreements(held),
        judges=_judges([groups for groups in ordered if groups]),
        readings=[
            (reading.model, reading.text, markdown_table(readings.HEADINGS, reading.captions, right="---"))
            for reading in readings.readings(ordered, said or {})
        ],
        settings=_settings([setting for groups in datasets for setting in tried(groups)]),
        steady=[row for groups in datasets for row in _steadiness(groups)],
    )
    return text.rstrip() + "\n"


def printed(found: MeanSd | None) -> str:
    return "–" if found is None else found.printed()


def _dataset(groups: Sequence[Group], order: Sequence[str]) -> dict[str, Any]:
    """One dataset's tables: of the models, then of what was changed in them."""
    models = sorted((g for g in groups if not g.changes), key=lambda group: order.index(group.model))
    changed = {group.model for group in groups if group.changes}
    ablated = sorted(
        (group for group in groups if group.model in changed),
        key=lambda group: (order.index(group.model), [_size(*one) for one in group.changes.items()]),
    )
    kinds = [*(kind for kind in CHANGE_TYPES if kind in groups[0].pairs["subsets"]), "no_change"]
    return {
        "name": groups[0].dataset,
        "pairs": len(groups[0].pairs["pairs"]),
        "trained": _trained(models or groups),
        "scores": _scores(models),
        "silent": _not_begun(models),
        "true_by_kind": _by(models, kinds, lambda group, subset: group.score(subset, TRUE)),
        "true_by_overlap": _by(models, QUARTILES, lambda group, subset: group.score(subset, TRUE_CHANGES)),
        "faults": markdown_table(
            false_words.HEADINGS, [false_words.row(false_words.of_group(group)) for group in models]
        ),
        "accuracy_by_kind": _by(models, kinds, lambda group, subset: group.score(subset, ACCURACY)),
        "accuracy_by_overlap": _by(models, QUARTILES, Group.balanced),
        "ablations": _scores(ablated) if ablated else "",
        "silent_ablations": _not_begun([group for group in ablated if group.changes]),
    }


def _by_viewpoint(datasets: Sequence[Sequence[Group]]) -> str:
    """What is true of changes, a line a model: a column a dataset, of two or more."""
    if len(datasets) < 2:
        return ""
    plain = [{group.model: group for group in groups if not group.changes} for groups in datasets]
    rows = [
        [
            model,
            *(
                printed(groups[model].score("total", TRUE_CHANGES) if model in groups else None)
                for groups in plain
            ),
        ]
        for model in dict.fromkeys(model for groups in plain for model in groups)
    ]
    return markdown_table(["", *(groups[0].dataset for groups in datasets)], rows)


def _trained(groups: Sequence[Group]) -> str:
    """How long the models trained: said once where all did alike, else of each."""
    runs: dict[str, list[str]] = {}
    for group in groups:
        train = group.records[0]["train"]
        runs.setdefault(f"{train['iterations']} iterations of {train['batch']} scenes", []).append(group.name)
    if len(runs) == 1:
        return next(iter(runs))
    return "; ".join(f"{run} ({', '.join(names)})" for run, names in runs.items())


def _size(key: str, value: object) -> tuple[str, float, str]:
    """What a change is sorted by: its key, numbers by size, names by the alphabet."""
    return (key, value, "") if isinstance(value, int | float) else (key, math.inf, str(value))


def _not_begun(groups: Sequence[Group]) -> str:
    """Which models tell nothing yet."""
    silent = [group.name for group in groups if not group.begun]
    if not silent:
        return ""
    return (
        f"Not begun within these iterations (a change is said of fewer than one in {round(1 / BEGUN)} pairs "
        f"that have one): {', '.join(silent)}."
    )


def _scores(groups: Sequence[Group]) -> str:
    rows = [
        [f"{group.name} ({len(group.records)})", *(printed(score(group)) for score in COLUMNS.values())]
        for group in groups
    ]
    return markdown_table(["", *COLUMNS], rows)


def _by(groups: Sequence[Group], subsets: Sequence[str], score: Callable[[Group, str], MeanSd]) -> str:
    rows = [[group.name, *(printed(score(group, subset)) for subset in subsets)] for group in groups]
    return markdown_table(["", *(subset.replace("_", " ") for subset in subsets)], rows)


def _claims(found: Sequence[Verdict]) -> str:
    """A line for each claim and dataset."""
    headings = [heading for metric in CLAIMED for heading in (HEADINGS.get(metric, metric), "", "over seeds")]
    rows = [
        [
            f"{verdict.claim.better} > {verdict.claim.worse} ({verdict.claim.source})",
            verdict.dataset,
            str(verdict.seeds),
            *(cell for metric in CLAIMED for cell in _found(verdict.by[metric])),
        ]
        for verdict in found
    ]
    return markdown_table(["claim", "dataset", "seeds", *headings], rows) if rows else ""


def _disagreements(found: Sequence[Verdict]) -> str:
    """A sentence for each claim of which truth and CIDEr-D say otherwise."""
    rows = [[verdict.disagreement] for verdict in found if verdict.disagreement]
    return markdown_table(["where truth and CIDEr-D disagree"], rows) if rows else ""


def _judges(datasets: Sequence[Sequence[Group]]) -> str:
    """A line for each dataset and metric: over all its cells, over those that have begun, over pairs."""
    rows = []
    for groups in datasets:
        begun = {judge.metric: judge for judge in judges([group for group in groups if group.begun])}
        for judge in judges(groups):
            told, name = begun.get(judge.metric), HEADINGS.get(judge.metric, judge.metric)
            of_begun = [told.cells.printed, _percent(told.otherwise)] if told else ["–", "–"]
            over_pairs = [judge.pairs.printed if judge.pairs else "–", _percent(judge.prefers)]
            rows.append([name, groups[0].dataset, judge.cells.printed, *of_begun, *over_pairs])
    return markdown_table(JUDGED_BY, rows) if rows else ""


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def _found(finding: Finding) -> list[str]:
    """What one metric says, the difference, and what chance over seeds may make of it."""
    chance = "–" if finding.margin is None else f"± {100 * finding.margin:.1f}"
    return [finding.said, finding.difference.printed, chance]


def _settings(found: Sequence[Setting]) -> str:
    """A line for each setting of which several values were tried."""
    headings = [heading for metric in CLAIMED for heading in (HEADINGS.get(metric, metric), "")]
    rows = [
        [
            f"{setting.key.rsplit('.', 1)[-1]} of {setting.values[0].model}",
            setting.values[0].dataset,
            f"{len(setting.values)} × {setting.seeds}",
            *(cell for metric in CLAIMED for cell in _between(setting.by[metric], metric)),
        ]
        for setting in found
    ]
    return markdown_table(["setting", "dataset", "values × seeds", *headings], rows) if rows else ""


def _between(spread: Spread, metric: str) -> list[str]:
    """From which value to which, and whether that is more than chance over seeds."""
    ends = [_end(group, metric) for group in (spread.least, spread.greatest)]
    return [" to ".join(ends), f"{'matters' if spread.matters else OPEN}, {p_value(spread.p)}"]


def _end(group: Group, metric: str) -> str:
    """A mean and whose it is."""
    value = ", ".join(map(plain, group.changes.values())) or "default"
    return f"{100 * group.score('total', metric).mean:.1f} ({value})"


def _steadiness(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """Seeds against test pairs as sources of spread, and how many seeds two points of truth want."""
    kept = [group for group in groups if len(group.records) >= LEAST_SEEDS and group.begun]
    if not kept:
        return []
    sd = pooled([group.score("change", TRUE).sd or 0.0 for group in kept])
    return [
        {
            "name": kept[0].dataset,
            "models": len(kept),
            "sd": 100 * sd,
            "over_pairs": 100 * pooled([over_pairs(run) for group in kept for run in group.each()]),
            "chance": 100 * Z * math.sqrt(2) * sd,
            "five": 100 * shown(sd, 5),
            "wanted": seeds_wanted(sd),
        }
    ]


def pooled(deviations: Sequence[float]) -> float:
    """The root of the mean square: what variances of like weight have in common."""
    return math.sqrt(fmean(one**2 for one in deviations))


def over_pairs(group: Group) -> float:
    """The standard deviation of what a run says truly of changes, over resamples of the test pairs."""
    (found,) = resampled([group.evidence().of_scenes()], RESAMPLES, SEED)
    return float(found[TRUE_CHANGES].std(ddof=1))


def seeds_wanted(sd: float, difference: float = WANTED) -> int:
    """Seeds of each of two models, by the normal approximation n = 2 (z_0.975 + z_0.8)² sd² / difference²."""
    return max(2, math.ceil((shown(sd, 1) / difference) ** 2))


def shown(sd: float, seeds: int) -> float:
    """The difference that as many seeds of each of two models show: the same formula, turned around."""
    return (Z + POWER) * sd * math.sqrt(2 / seeds)
