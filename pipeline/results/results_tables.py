"""Make the tables of the results pages. A block in a page names the table to insert."""

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from pipeline.config.params import Params
from pipeline.datasets.schema import CHANGE_TYPES
from pipeline.judging.verdicts import FAULTS
from pipeline.reporting.score_table import Column, printed
from pipeline.reporting.tables import NONE, Table
from pipeline.results import false_words, seed_spread
from pipeline.results.claims import ClaimVerdict, Finding, verdicts
from pipeline.results.metric_agreement import CIDER_CHANGED, MetricAgreement, metric_agreements
from pipeline.results.record_tables import Records
from pipeline.scoring.metric_names import (
    ACCURACY,
    CIDER,
    CLAIMED,
    CORPUS,
    TOTAL,
    TRUE,
    TRUE_CHANGED,
    TRUE_UNCHANGED,
    heading,
)
from pipeline.scoring.subsets import QUARTILES

Datasets = Mapping[str, Records]
COLUMNS: dict[Column, str] = {
    **{(TOTAL, metric): heading(metric) for metric in (TRUE_CHANGED, TRUE_UNCHANGED, ACCURACY)},
    ("change", CIDER): CIDER_CHANGED,
    **{(TOTAL, metric): heading(metric) for metric in (CIDER, *CORPUS[:-1])},
    ("localisation", "pointing"): "pointing",
}


def tables(datasets: Datasets, params: Params) -> dict[str, Table]:
    """Return all tables of records by name, such as "claims" or "scores X"; no rows for too few records."""
    order = list(params.model)
    groups = {
        name: sorted(
            records.groups if len(records) else (),
            key=lambda group: (order.index(group.runs["model"].iloc[0]), _sizes(group)),
        )
        for name, records in datasets.items()
    }
    named_tables = [("cameras", _cameras(groups))]
    for name, of_dataset in groups.items():
        named_tables += [(f"{kind} {name}", table) for kind, table in _of_dataset(name, of_dataset).items()]
    known = [records for records in datasets.values() if len(records)]
    all_verdicts = [verdict for records in known for verdict in verdicts(records)]
    decided = [verdict for verdict in all_verdicts if verdict.decided]
    return dict(named_tables) | {
        "decided claims": _claims("Claims that the records decide", decided),
        "claims": _claims("All claims", all_verdicts),
        "metrics": _metrics(groups),
        "seeds": _seeds(known),
        "captions": _captions(next((of_dataset for of_dataset in groups.values() if of_dataset), [])),
    }


def _of_dataset(name: str, groups: Sequence[Records]) -> dict[str, Table]:
    models = [group for group in groups if len(group.models)]
    changed = {_model(group) for group in groups if not len(group.models)}
    faults = [false_words.row(false_words.of_group(group)) for group in models]
    overlap = f"{name}: true captions of changed pairs by overlap of the views"
    return {
        "scores": _scores(f"{name}: scores", models),
        "true by kind": _parts(
            f"{name}: true captions by kind of change", models, (*CHANGE_TYPES, "no_change"), TRUE
        ),
        "true by overlap": _parts(overlap, models, QUARTILES, TRUE_CHANGED),
        "faults": Table(f"{name}: false parts in captions of changed pairs", false_words.HEADINGS, faults),
        "ablations": _scores(f"{name}: ablations", [group for group in groups if _model(group) in changed]),
    }


def _cameras(datasets: Mapping[str, Sequence[Records]]) -> Table:
    scores = {
        (name, group.name): _row(group, [(TOTAL, TRUE_CHANGED)])[0]
        for name, groups in datasets.items()
        for group in groups
        if len(group.models)
    }
    rows = [
        [model, *(scores.get((name, model), NONE) for name in datasets)]
        for model in dict.fromkeys(model for _, model in scores)
    ]
    return Table("True captions of changed pairs by camera", ["model", *datasets], rows)


def _model(group: Records) -> str:
    return str(group.runs["model"].iloc[0])


def _row(group: Records, columns: Sequence[Column]) -> list[str]:
    row = pd.Series({column: group.score(column) for column in columns}, dtype=object)
    return [printed(row, column) for column in columns]


def _sizes(group: Records) -> list[tuple[str, float, str]]:
    """Return a key that sorts groups by their changed settings; numbers come before other values."""
    return [
        (key, value, "") if isinstance(value, int | float) else (key, math.inf, str(value))
        for key, value in group.runs["changes"].iloc[0].items()
    ]


def _scores(title: str, groups: Sequence[Records]) -> Table:
    rows = [
        [
            group.name if len(group.above_chance) else f"{group.name}, at chance",
            str(len(group)),
            "{iterations} × {batch}".format(**group.runs["record"].iloc[0]["train"]),
            *_row(group, [*COLUMNS]),
        ]
        for group in groups
    ]
    return Table(title, ["model", "seeds", "iterations × scenes", *COLUMNS.values()], rows)


def _parts(title: str, groups: Sequence[Records], parts: Sequence[str], metric: str) -> Table:
    present_parts = [part for part in parts if groups and part in groups[0].test["subsets"]]
    rows = [[group.name, *_row(group, [(part, metric) for part in present_parts])] for group in groups]
    headings = [part.removeprefix("viewpoint_iou_").replace("_", " ") for part in present_parts]
    return Table(title, ["model", *headings], rows)


def _claims(title: str, claim_verdicts: Sequence[ClaimVerdict]) -> Table:
    headings = [text for metric in CLAIMED for text in (heading(metric), "", "over seeds")]
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


def _metrics(datasets: Mapping[str, Sequence[Records]]) -> Table:
    """Return a table of how well each metric agrees with truth, without models at chance level."""
    return agreement_table(
        [
            (name, agreement)
            for name, groups in datasets.items()
            for agreement in metric_agreements([group for group in groups if len(group.above_chance)])
        ]
    )


def agreement_table(agreements: Sequence[tuple[str, MetricAgreement]]) -> Table:
    """Return a table with a row for each (dataset, agreement of a metric with truth) in `agreements`."""
    headings = ["metric", "dataset", "correlation, runs", "pairs of runs ranked wrongly"]
    headings += ["correlation, captions of a run", "true caption preferred"]
    rows = [
        [
            heading(agreement.metric),
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


def _seeds(datasets: Sequence[Records]) -> Table:
    headings = ["dataset", "models", "sd over seeds", "sd over test pairs"]
    headings += ["1 in 20 pairs of runs differs by", "5 seeds show", "seeds for 2 points"]
    rows = [[records.dataset, *row] for records in datasets if (row := seed_spread.row(records))]
    return Table(f"Spread of {TRUE_CHANGED} over seeds", headings, rows)


def _captions(groups: Sequence[Records]) -> Table:
    """Return a table of the captions that the records keep as text, for the first seed of each model."""
    models = [group for group in groups if len(group.models)]
    references = models[0].test["captions"] if models else {}
    faults = [[*group.pairs["faults"]] for group in models]  # the first seed comes first
    rows = [
        [
            reference if group is models[0] else "",
            group.name,
            group.runs["record"].iloc[0]["captions"][index],
            _judged(letters[int(position)]),
        ]
        for index, (position, reference) in enumerate(references.items())
        for group, letters in zip(models, faults, strict=True)
    ]
    headings = ["one of the references", "model", "caption", "judged"]
    return Table("Ten captions of each model", headings, rows, texts=4)


def _judged(letters: str) -> str:
    return "false: " + ", ".join(FAULTS[letter] for letter in letters) if letters else "true"
