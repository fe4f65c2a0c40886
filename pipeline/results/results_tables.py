"""Make the tables of the results pages. A block in a page names the table to insert."""

import math
from collections.abc import Callable, Mapping, Sequence
from operator import methodcaller

from pipeline.config.params import Params
from pipeline.datasets.schema import CHANGE_TYPES
from pipeline.reporting.tables import NONE, Table
from pipeline.results import false_words, seed_spread
from pipeline.results.claims import Finding, Verdict, verdicts
from pipeline.results.metric_agreement import MetricAgreement, metric_agreements
from pipeline.results.record_comparisons import Group
from pipeline.scoring import metric_names
from pipeline.scoring.metric_names import ACCURACY, CIDER, CLAIMED, CORPUS, HEADINGS, TRUE, TRUE_CHANGES
from pipeline.scoring.subsets import QUARTILES
from pipeline.scoring.truth import FAULTS
from pipeline.statistics.bootstrap import MeanSd

Datasets = Mapping[str, Sequence[Group]]
COLUMNS: dict[str, Callable[[Group], MeanSd | None]] = {
    HEADINGS[TRUE_CHANGES]: lambda group: group.score("change", TRUE),
    HEADINGS[metric_names.TRUE_NO_CHANGE]: lambda group: group.score("no_change", TRUE),
    HEADINGS[ACCURACY]: lambda group: group.score("total", ACCURACY),
    f"{CIDER}, changed": lambda group: group.score("change", CIDER),
    **{metric: methodcaller("score", "total", metric) for metric in (CIDER, *CORPUS[:-1])},
    "pointing": Group.pointing,
}


def tables(datasets: Datasets, params: Params) -> dict[str, Table]:
    """Return the tables of all datasets' records: name of a table -> table.

    Examples of names are "cameras", "claims", and "scores X" for a dataset X. A table has no rows if
    there are too few records.
    """
    order = list(params.model)
    ordered = {
        name: sorted(groups, key=lambda group: (order.index(group.model), _sizes(group)))
        for name, groups in datasets.items()
    }
    named_tables = [("cameras", _cameras(ordered))]
    for name, groups in ordered.items():
        named_tables += [(f"{kind} {name}", table) for kind, table in _of_dataset(name, groups).items()]
    all_verdicts = [verdict for groups in datasets.values() for verdict in verdicts(groups)]
    decided = [verdict for verdict in all_verdicts if verdict.decided]
    return dict(named_tables) | {
        "decided claims": _claims("Claims that the records decide", decided),
        "claims": _claims("All claims", all_verdicts),
        "metrics": _metrics(ordered),
        "seeds": _seeds(ordered),
        "captions": _captions(next((groups for groups in ordered.values() if groups), [])),
    }


def printed(score: MeanSd | None) -> str:
    return NONE if score is None else score.printed()


def _of_dataset(name: str, groups: Sequence[Group]) -> dict[str, Table]:
    models = [group for group in groups if not group.changes]
    changed = {group.model for group in groups if group.changes}
    faults = [false_words.row(false_words.of_group(group)) for group in models]
    overlap = f"{name}: true captions of changed pairs by overlap of the views"
    return {
        "scores": _scores(f"{name}: scores", models),
        "true by kind": _parts(
            f"{name}: true captions by kind of change", models, (*CHANGE_TYPES, "no_change"), TRUE
        ),
        "true by overlap": _parts(overlap, models, QUARTILES, TRUE_CHANGES),
        "faults": Table(f"{name}: false parts in captions of changed pairs", false_words.HEADINGS, faults),
        "ablations": _scores(f"{name}: ablations", [group for group in groups if group.model in changed]),
    }


def _cameras(datasets: Datasets) -> Table:
    scores = {
        (name, group.model): group.score("total", TRUE_CHANGES).printed()
        for name, groups in datasets.items()
        for group in groups
        if not group.changes
    }
    rows = [
        [model, *(scores.get((name, model), NONE) for name in datasets)]
        for model in dict.fromkeys(model for _, model in scores)
    ]
    return Table("True captions of changed pairs by camera", ["model", *datasets], rows)


def _sizes(group: Group) -> list[tuple[str, float, str]]:
    """Return a sort key for a group of runs: the settings in which the group differs from params.yaml.

    Groups are sorted by the names of these settings, and then by the values. Numbers are sorted as
    numbers. All other values come after the numbers, and are sorted as text.
    """
    return [
        (key, value, "") if isinstance(value, int | float) else (key, math.inf, str(value))
        for key, value in group.changes.items()
    ]


def _scores(title: str, groups: Sequence[Group]) -> Table:
    rows = [
        [
            group.name if group.above_chance else f"{group.name}, at chance",
            str(len(group.records)),
            "{iterations} × {batch}".format(**group.records[0]["train"]),
            *(printed(column(group)) for column in COLUMNS.values()),
        ]
        for group in groups
    ]
    return Table(title, ["model", "seeds", "iterations × scenes", *COLUMNS], rows)


def _parts(title: str, groups: Sequence[Group], parts: Sequence[str], metric: str) -> Table:
    present_parts = [part for part in parts if groups and part in groups[0].pairs["subsets"]]
    rows = [[group.name, *(printed(group.score(part, metric)) for part in present_parts)] for group in groups]
    headings = [part.removeprefix("viewpoint_iou_").replace("_", " ") for part in present_parts]
    return Table(title, ["model", *headings], rows)


def _claims(title: str, claim_verdicts: Sequence[Verdict]) -> Table:
    headings = [heading for metric in CLAIMED for heading in (HEADINGS.get(metric, metric), "", "over seeds")]
    rows = [
        [
            f"{verdict.claim.better} > {verdict.claim.worse} ({verdict.claim.source})",
            verdict.dataset,
            str(verdict.seeds),
            *(text for metric in CLAIMED for text in _finding_texts(verdict.findings[metric])),
        ]
        for verdict in claim_verdicts
    ]
    return Table(title, ["claim", "dataset", "seeds", *headings], rows, texts=2)


def _finding_texts(finding: Finding) -> list[str]:
    margin = NONE if finding.margin is None else f"± {100 * finding.margin:.1f}"
    return [finding.result, finding.difference.printed, margin]


def _metrics(datasets: Datasets) -> Table:
    """Return a table of how well each metric agrees with the truth of captions.

    Models whose change accuracy is at chance level are left out.
    """
    return agreement_table(
        [
            (name, agreement)
            for name, groups in datasets.items()
            for agreement in metric_agreements([group for group in groups if group.above_chance])
        ]
    )


def agreement_table(agreements: Sequence[tuple[str, MetricAgreement]]) -> Table:
    """Return a table with a row for each (dataset, agreement of a metric with truth) in `agreements`."""
    headings = ["metric", "dataset", "correlation, runs", "pairs of runs ranked wrongly"]
    headings += ["correlation, captions of a run", "true caption preferred"]
    rows = [
        [
            HEADINGS.get(agreement.metric, agreement.metric),
            name,
            agreement.runs.printed,
            _percent(agreement.misranked),
            agreement.pairs.printed if agreement.pairs else NONE,
            _percent(agreement.preference),
        ]
        for name, agreement in agreements
    ]
    return Table("Agreement of each metric with truth", headings, rows, texts=2)


def _percent(share: float | None) -> str:
    return NONE if share is None else f"{100 * share:.0f} %"


def _seeds(datasets: Datasets) -> Table:
    headings = ["dataset", "models", "sd over seeds", "sd over test pairs"]
    headings += ["1 in 20 pairs of runs differs by", "5 seeds show", "seeds for 2 points"]
    rows = [[name, *row] for name, groups in datasets.items() if (row := seed_spread.row(groups))]
    return Table(f"Spread of {HEADINGS[TRUE_CHANGES]} over seeds", headings, rows)


def _captions(groups: Sequence[Group]) -> Table:
    """Return a table of the captions that the records keep as text, for the first seed of each model."""
    models = [group for group in groups if not group.changes]
    references = models[0].pairs["captions"] if models else {}
    rows = [
        [
            reference if group is models[0] else "",
            group.model,
            record["captions"][index],
            _judged(record, int(position)),
        ]
        for index, (position, reference) in enumerate(references.items())
        for group in models
        for record in group.records[:1]
    ]
    headings = ["one of the references", "model", "caption", "judged"]
    return Table("Ten captions of each model", headings, rows, texts=4)


def _judged(record: Mapping[str, Sequence[str]], position: int) -> str:
    letters = record["faults"][position]
    return "false: " + ", ".join(FAULTS[letter] for letter in letters) if letters else "true"
