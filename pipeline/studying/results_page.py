"""The page of results: what the recorded cells say, in tables, and of each claim of the papers one line."""

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist, fmean

from pipeline.datasets.schema import CHANGE_TYPES
from pipeline.params import Params
from pipeline.scoring.metric_names import (
    ACCURACY,
    CIDER,
    CLAIMED,
    HEADINGS,
    TRUE,
    TRUE_CHANGES,
    TRUE_NO_CHANGE,
)
from pipeline.scoring.subsets import QUARTILES
from pipeline.statistics import MeanSd
from pipeline.statistics.bootstrap import resampled
from pipeline.studying.claims import LEAST_SEEDS, OPEN, Finding, Verdict, verdicts
from pipeline.studying.record_comparisons import BEGUN, Group, plain
from pipeline.studying.settings_tried import Setting, Spread, tried

STORY = """# Results on the rendered datasets

## What was believed, and what truth showed

This page once held 192 cells: fourteen models and their ablations on three rendered datasets. The best of
them told rightly of 90 test pairs in 100 whether something had changed, and had a CIDEr-D near 100. That
was believed to be captioning. Then their sentences were read, and judged against the scenes that the
pictures were drawn from: of 100 changed pairs SCORER+CBR said the truth about **1**, Subtraction about none
(the references: 100 of 100). The models knew *that* something had changed. What they said of it was made
up.

The cause was the backbone. A ResNet-101 with random weights hardly sees: a linear probe of its cells finds
the shape of a thing in 55.9 % of the cases, where always naming the commonest has 42.5 %;
EfficientNet-Lite0 with ImageNet weights has 93.1 %. No model can say what its features do not hold, and
neither CIDEr-D nor change accuracy noticed: the first rewards the words that captions have in common, the
second asks for one bit.

So truth is measured now and stands first, and all records of the old features are gone. The table is made
anew with features that see.
"""
COMMANDS = """## How it is made

`make study NAME=all-models DATASET=tabletop SEEDS="1 2 3 4 5"` makes the cells (a model, a seed, a
dataset); with `--unrecorded` (`python -m stages.study --name all-models --dataset tabletop --unrecorded`)
it runs those only that have no record. Each leaves a record in results/records, and `python -m
stages.results` makes this page of them; a test holds the page against the records.
"""
NOTHING = "There is no record yet, and so there is no table here.\n"
INTRO = """Numbers are × 100, mean ± sample standard deviation over seeds (their number in brackets). *True
of changes* is the share of test pairs with a change of which the caption is true, judged against the scene:
it names the thing that changed and no other, the kind of change and the new value. *True of no change* is
the share of the others of which the caption says that nothing changed. *Change accuracy* is the share of
test pairs of which the caption tells rightly whether something changed; a model that always says "no
change" has 50.0. *CIDEr-D, changes* is that of the pairs with a change alone; over all pairs CIDEr-D
flatters whoever says "there is no change" ([why](./tabletop.md#reading-its-scores)). Nothing was chosen on
test pairs: the snapshot that is tested is chosen on validation pairs, as `train.select` says
([params.yaml](../params.yaml)), of IDC-PCL's models the last one ([why](./methods.md#idc-pcl)). All cells
of a table have the settings of params.yaml; those of idc_pcl and clip4idc
come after a phase of their own. The three models of CLIP4IDC read frozen features here, not pixels: what
their paper claims is more than these can show.
"""
RESAMPLES, SEED = 2_000, 1
WANTED = 0.02  # of what is true of changes: two points
SIDES, POWER = 0.975, 0.8
FOUND = tuple(heading for metric in CLAIMED for heading in (HEADINGS.get(metric, metric), "", "over seeds"))
TRIED = tuple(heading for metric in CLAIMED for heading in (HEADINGS.get(metric, metric), ""))


def page(datasets: Sequence[Sequence[Group]], figures: Sequence[str], params: Params) -> str:
    """The whole page, of each dataset's groups; `figures` are lines of Markdown."""
    parts = [STORY, COMMANDS, *([INTRO, *figures] if any(datasets) else [NOTHING])]
    parts += [part for groups in datasets for part in _dataset(groups, params)]
    parts += _claims([found for groups in datasets for found in verdicts(groups)])
    parts += _settings([setting for groups in datasets for setting in tried(groups)])
    parts += _steadiness(datasets)
    return "\n".join(parts).rstrip() + "\n"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose first column is text."""
    rule = "|".join(["---", *["---:"] * (len(headings) - 1)])
    lines = [" | ".join(row) for row in (headings, *rows)]
    return "\n".join([f"| {lines[0]} |", f"|{rule}|", *(f"| {line} |" for line in lines[1:]), ""])


def printed(found: MeanSd | None) -> str:
    """× 100, with its spread where there is one."""
    if found is None:
        return "–"
    spread = "" if found.sd is None else f" ± {100 * found.sd:.1f}"
    return f"{100 * found.mean:.1f}{spread}"


def _dataset(groups: Sequence[Group], params: Params) -> list[str]:
    """One dataset's tables: of the models, then of what was changed in them."""
    if not groups:
        return []
    order = list(params.model)
    models = sorted((g for g in groups if not g.changes), key=lambda group: order.index(group.model))
    changed = {group.model for group in groups if group.changes}
    ablated = sorted(
        (group for group in groups if group.model in changed),
        key=lambda group: (order.index(group.model), [_size(*one) for one in group.changes.items()]),
    )
    head = f"## {models[0].dataset}\n\n{len(models[0].pairs['pairs'])} test pairs, {_trained(models)}.\n"
    parts = [head, _scores(models), *_not_begun(models)]
    kinds = [kind for kind in CHANGE_TYPES if kind in models[0].pairs["subsets"]]
    parts += [
        "True captions by kind of change, and of pairs without one:\n",
        _by(models, [*kinds, "no_change"], lambda group, subset: group.score(subset, TRUE)),
        "True of changes by overlap of the views, q1 the least:\n",
        _by(models, QUARTILES, lambda group, subset: group.score(subset, TRUE_CHANGES)),
        "Change accuracy by kind of change, and of pairs without one:\n",
        _by(models, [*kinds, "no_change"], lambda group, subset: group.score(subset, ACCURACY)),
        "Change accuracy by overlap of the views, q1 the least; pairs with a change and without weigh the "
        "same,\nhowever many of them a quartile has:\n",
        _by(models, QUARTILES, Group.balanced),
    ]
    if changed:
        own = [group for group in ablated if group.changes]
        parts += [f"### Ablations on {models[0].dataset}\n", _scores(ablated), *_not_begun(own)]
    return parts


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


def _not_begun(groups: Sequence[Group]) -> list[str]:
    """Which models tell nothing yet."""
    silent = [group.name for group in groups if not group.begun]
    if not silent:
        return []
    return [
        f"Not begun within these iterations (a change is said of fewer than one in {round(1 / BEGUN)} pairs "
        f"that have one): {', '.join(silent)}.\n"
    ]


def _scores(groups: Sequence[Group]) -> str:
    columns: dict[str, Callable[[Group], MeanSd | None]] = {
        HEADINGS[TRUE_CHANGES]: lambda group: group.score("change", TRUE),
        HEADINGS[TRUE_NO_CHANGE]: lambda group: group.score("no_change", TRUE),
        HEADINGS[ACCURACY]: lambda group: group.score("total", ACCURACY),
        "CIDEr-D, changes": lambda group: group.score("change", CIDER),
        "CIDEr-D": lambda group: group.score("total", CIDER),
        "BLEU-4": lambda group: group.score("total", "BLEU-4"),
        "METEOR": lambda group: group.score("total", "METEOR"),
        "ROUGE-L": lambda group: group.score("total", "ROUGE-L"),
        "pointing": Group.pointing,
    }
    rows = [
        [f"{group.name} ({len(group.records)})", *(printed(score(group)) for score in columns.values())]
        for group in groups
    ]
    return table(["", *columns], rows)


def _by(groups: Sequence[Group], subsets: Sequence[str], score: Callable[[Group, str], MeanSd]) -> str:
    rows = [[group.name, *(printed(score(group, subset)) for subset in subsets)] for group in groups]
    return table(["", *(subset.replace("_", " ") for subset in subsets)], rows)


def _claims(found: Sequence[Verdict]) -> list[str]:
    """A line for each claim and dataset."""
    rows = [
        [
            f"{own.claim.better} > {own.claim.worse} ({own.claim.source})",
            own.dataset,
            str(own.seeds),
            *(cell for metric in CLAIMED for cell in _found(own.by[metric])),
        ]
        for own in found
    ]
    if not rows:
        return []
    return [
        "## The papers' claims\n",
        "The difference with its 95 % interval over test pairs (paired bootstrap), and what chance over\n"
        "seeds may make of it (half its 95 % interval by Welch's t): of the changes that are told truly, of\n"
        "change accuracy, and of CIDEr-D over all pairs, by which the papers claim. A claim *holds*, or\n"
        "*does not hold*, where three seeds or more of both models are there, the bootstrap is significant\n"
        "after Holm's correction for all claims on the dataset, and the difference exceeds what chance over\n"
        "seeds may make. The rest *cannot be told*; of a model that has *not begun*, nothing is said but\n"
        "that another is better.\n",
        table(["claim", "dataset", "seeds", *FOUND], rows),
    ]


def _found(own: Finding) -> list[str]:
    """What one metric says, the difference, and what chance over seeds may make of it."""
    sure = own.difference
    interval = f"[{100 * sure.low:+.1f}, {100 * sure.high:+.1f}]"
    chance = "–" if own.margin is None else f"± {100 * own.margin:.1f}"
    return [own.said, f"{100 * sure.difference:+.1f} {interval}", chance]


def _settings(found: Sequence[Setting]) -> list[str]:
    """A line for each setting of which several values were tried."""
    rows = [
        [
            f"{own.key.rsplit('.', 1)[-1]} of {own.values[0].model}",
            own.values[0].dataset,
            f"{len(own.values)} × {own.seeds}",
            *(cell for metric in CLAIMED for cell in _between(own.by[metric], metric)),
        ]
        for own in found
    ]
    if not rows:
        return []
    return [
        "## Which settings matter\n",
        "Of three values or more with three seeds or more each, that of params.yaml (*default*) among them:\n"
        "the least and the greatest mean, and how likely seeds alone would set values so far apart that are\n"
        "all alike (one-way analysis of variance, p multiplied by the number of settings asked). A setting\n"
        "*matters* where p < 0.05; values that have not begun to learn speak of the iterations, and are\n"
        "left out. A single run of each value, as papers print it, always has a best one.\n",
        table(["setting", "dataset", "values × seeds", *TRIED], rows),
    ]


def _between(own: Spread, metric: str) -> list[str]:
    """From which value to which, and whether that is more than chance over seeds."""
    ends = [_end(group, metric) for group in (own.least, own.greatest)]
    p = "p < 0.001" if own.p < 0.001 else f"p = {own.p:.3f}"
    return [" to ".join(ends), f"{'matters' if own.matters else OPEN}, {p}"]


def _end(group: Group, metric: str) -> str:
    """A mean and whose it is."""
    value = ", ".join(map(plain, group.changes.values())) or "default"
    return f"{100 * group.score('total', metric).mean:.1f} ({value})"


def _steadiness(datasets: Sequence[Sequence[Group]]) -> list[str]:
    """Seeds against test pairs as sources of spread, and how many seeds two points of truth want."""
    kept = [[g for g in groups if len(g.records) >= LEAST_SEEDS and g.begun] for groups in datasets]
    said = [_steady(groups) for groups in kept if groups]
    if not said:
        return []
    return [
        "## How steady is it?\n",
        "Of models and ablations of three seeds or more that have begun to learn. Standard deviations are\n"
        "pooled (the root of their mean square); that over test pairs is a single run's, by bootstrap. What\n"
        "seeds show is meant with a power of 0.8 (two-sided, level 0.05, normal approximation).\n",
        *said,
    ]


def _steady(groups: Sequence[Group]) -> str:
    """One dataset's sentences, to be quoted."""
    sd = pooled([group.score("change", TRUE).sd or 0.0 for group in groups])
    over_pairs = 100 * pooled([_over_pairs(run) for group in groups for run in group.each()])
    five, wanted = 100 * shown(sd, 5), seeds_wanted(sd)
    chance = 100 * NormalDist().inv_cdf(SIDES) * math.sqrt(2) * sd
    return (
        f"**{groups[0].dataset}** ({len(groups)} models): what is true of changes varies by\n"
        f"{100 * sd:.1f} points (standard deviation) from seed to seed, and by {over_pairs:.1f} with the\n"
        f"choice of the test pairs. Of two single runs that differ in the seed alone, one in 20 differs by\n"
        f"{chance:.1f} points or more. Five seeds of each of two models show a difference of\n"
        f"{five:.1f} points; one of 2 points wants {wanted} seeds of each.\n"
    )


def pooled(deviations: Sequence[float]) -> float:
    """The root of the mean square: what variances of like weight have in common."""
    return math.sqrt(fmean(own**2 for own in deviations))


def _over_pairs(group: Group) -> float:
    """The standard deviation of what a run says truly of changes, over resamples of the test pairs."""
    (found,) = resampled([group.evidence()], RESAMPLES, SEED)
    return float(found[TRUE_CHANGES].std(ddof=1))


def seeds_wanted(sd: float, difference: float = WANTED) -> int:
    """Seeds of each of two models, by the normal approximation n = 2 (z_0.975 + z_0.8)² sd² / difference²."""
    return max(2, math.ceil((shown(sd, 1) / difference) ** 2))


def shown(sd: float, seeds: int) -> float:
    """The difference that as many seeds of each of two models show: the same formula, turned around."""
    z = NormalDist().inv_cdf(SIDES) + NormalDist().inv_cdf(POWER)
    return z * sd * math.sqrt(2 / seeds)
