"""Compute the table of a study: mean ± sd over seeds, published scores, paired bootstrap of adjacent rows."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from pipeline.config.params import Params
from pipeline.datasets.manifest import read_pairs
from pipeline.datasets.schema import of_split
from pipeline.io.errors import InputError
from pipeline.reporting import paper_results
from pipeline.reporting.dataset_results import Metrics, read_metrics
from pipeline.reporting.overview_table import TOTAL
from pipeline.reporting.paper_results import Published, PublishedRetrieval
from pipeline.reporting.retrieval_results import FIGURES, WAYS, Figures
from pipeline.results.own_records import recorded
from pipeline.scoring.metric_names import (
    ACCURACY,
    AGREES,
    AGREES_CHANGES,
    PLACES,
    PRINTED,
    TRUE,
    TRUE_CHANGES,
    of_parts,
)
from pipeline.scoring.results import rounded
from pipeline.scoring.subsets import subsets
from pipeline.statistics import pair_scores
from pipeline.statistics.comparisons import compare_all
from pipeline.statistics.pair_scores import Evidence
from pipeline.statistics.seeds import over_seeds
from pipeline.study.overrides import filled
from pipeline.study.study_cells import RETRIEVAL, Cell, Planned, finished
from pipeline.study.study_file import Study

JUDGED = (TRUE, AGREES)
PUBLISHED_WAYS = ("text_to_pair", "pair_to_text")
TOLD = (
    *PLACES,  # over all pairs, truth is given for changed and unchanged pairs separately
    *JUDGED,
    *PRINTED,
    ACCURACY,
)
Record = dict[str, Any]


def record(
    root: Path, name: str, study: Study, dataset: str, planned: Sequence[Planned], params: Params
) -> Record:
    """Return the content of the study's table, from the finished runs; numbers are fractions.

    Raises InputError like `check`, and if runs were scored on different pairs.
    """
    beside = _beside(study, dataset)
    theirs = _theirs(root, study, beside)
    found_by = {row.method: row for row in paper_results.retrieval(beside, root / paper_results.FOLDER)}
    rows = [
        _row(root, study, one, theirs.get(one.row.label, []), found_by.get(one.row.published or ""))
        for one in planned
    ]
    differing = [paper_results.differs(row, params) for figures in theirs.values() for row in figures]
    return {
        "study": name,
        "title": study.title,
        "source": study.source,
        "dataset": dataset,
        "subsets": list(study.subsets),
        "seeds": [cell.seed for cell in planned[0].cells],
        "rows": rows,
        "published": {
            "dataset": beside,
            "differs": list(dict.fromkeys(what for phrases in differing for what in phrases)),
        }
        if theirs
        else None,
        "comparisons": [
            comparison
            for subset in study.subsets
            for comparison in _comparisons(root, subset, dataset, planned)
        ],
    }


def check(root: Path, study: Study, dataset: str) -> None:
    """Raise InputError if a row names a published method that data/published lacks."""
    _theirs(root, study, _beside(study, dataset))


def _beside(study: Study, dataset: str) -> str:
    """Return the dataset of the published scores: `dataset` if the study lists it, else the first listed."""
    return dataset if dataset in study.datasets else study.datasets[0]


def _theirs(root: Path, study: Study, dataset: str) -> dict[str, list[Published]]:
    """Return label of a row -> the published rows to show next to it, for the study's subsets."""
    rows = paper_results.rows(dataset, root / paper_results.FOLDER)
    found: dict[str, list[Published]] = {}
    for row in study.rows:
        printed = [
            one
            for one in rows
            if one.method == row.published and one.conditions is not None and one.subset in study.subsets
        ]
        if row.published and not printed:
            raise InputError(
                f"data/published/{dataset}.yaml has no row of {row.published} on {', '.join(study.subsets)}; "
                f"add it, or correct `published` of the row {row.label!r}"
            )
        if printed:
            found[row.label] = printed
    return found


def _row(
    root: Path,
    study: Study,
    planned: Planned,
    theirs: Sequence[Published],
    found_by: PublishedRetrieval | None,
) -> Record:
    done = [cell for cell in planned.cells if finished(root, cell)]
    undone = [cell for cell in planned.cells if not finished(root, cell)]
    return {
        "label": _label(planned),
        "model": planned.row.model,
        "changes": planned.changes,
        "cells": {str(cell.seed): cell.key for cell in planned.cells},
        "finished": len(done),
        "recorded": [cell.key for cell in undone if recorded(root, cell, planned.changes)],
        "scores": {subset: _spread(root, subset, done) for subset in study.subsets} if done else {},
        "published": {row.subset: row.values for row in theirs},
        "retrieval": _retrieval(root, done),
        "published_retrieval": {way: getattr(found_by, way) for way in PUBLISHED_WAYS} if found_by else {},
    }


def _retrieval(root: Path, cells: Sequence[Cell]) -> Record:
    """Return retrieval scores: direction of search -> R@k, MdR or MnR -> mean, deviation, number of runs.

    The key `chance` has the values at chance level. The result is empty without retrieval.
    """
    files = [root / cell.folder / RETRIEVAL for cell in cells if cell.recipe.entry.retrieves]
    found = [Figures.model_validate_json(path.read_bytes()) for path in files]
    if not found:
        return {}
    return {
        way: {figure: _over_seeds([getattr(each, way)[figure] for each in found]) for figure in FIGURES}
        for way in WAYS
    } | {"chance": {figure: found[0].chance[figure] for figure in FIGURES}}


def _over_seeds(values: Sequence[float]) -> Record:
    spread: Record = rounded(asdict(over_seeds(values)))
    return spread


def _label(planned: Planned) -> str:
    """Return the row's label, followed by the values that result from the row's `times` (factors), if any."""
    keys = [filled(key, planned.row, planned.cells[0].dataset) for key in planned.row.times]
    values = [planned.changes[key] for key in keys if key in planned.changes]
    return " = ".join([planned.row.label, *(f"{value:g}" for value in values)])


def _spread(root: Path, subset: str, cells: Sequence[Cell]) -> dict[str, Record]:
    """Return metric -> mean, sample deviation over seeds, number of runs.

    Metrics that a run lacks are left out.
    """
    found = [read_metrics(root / cell.folder / "metrics.json") for cell in cells]
    each = [_total(metrics) if subset == TOTAL else metrics.subsets.get(subset, {}) for metrics in found]
    return {
        metric: _over_seeds([scores[metric] for scores in each])
        for metric in TOLD
        if all(metric in scores for scores in each)
    }


def _total(metrics: Metrics) -> dict[str, float]:
    """Return the scores over all pairs, and the true captions of changed and of unchanged pairs."""
    scores = {metric: value for metric, value in metrics.subsets[TOTAL].items() if metric not in JUDGED}
    return of_parts(metrics.subsets) | scores | metrics.whole


def _comparisons(root: Path, subset: str, dataset: str, planned: Sequence[Planned]) -> list[Record]:
    """Return the difference between each row and the row above, if both rows have finished runs."""
    evidence = {
        _label(row): _part(root, subset, dataset, _evidence(root, row))
        for row in planned
        if any(finished(root, cell) for cell in row.cells)
    }
    labels = [_label(row) for row in planned]
    between = [(b, a) for a, b in pairwise(labels) if a in evidence and b in evidence]
    found = compare_all(evidence, between=between) if between else {}
    return [
        rounded({"subset": subset, "a": a, "b": b, **asdict(by_metric[metric])})
        for (a, b), by_metric in found.items()
        for metric in _compared(subset, by_metric)
    ]


def _compared(subset: str, by_metric: dict[str, Any]) -> list[str]:
    """Return the metrics to compare: truth if known, CIDEr-D, and change accuracy.

    METEOR replaces change accuracy in two cases: if change accuracy is unknown, and for subsets, because
    change accuracy is meaningful only over all pairs.
    """
    truth = (TRUE_CHANGES, AGREES_CHANGES) if subset == TOTAL else JUDGED
    second = ACCURACY if subset == TOTAL and ACCURACY in by_metric else "METEOR"
    return [*(metric for metric in truth if metric in by_metric), "CIDEr-D", second]


def _evidence(root: Path, planned: Planned) -> Evidence:
    done = [cell for cell in planned.cells if finished(root, cell)]
    return pair_scores.read([root / cell.folder / "pairs.jsonl" for cell in done])


def _part(root: Path, subset: str, dataset: str, whole: Evidence) -> Evidence:
    """Return the evidence of a subset; CIDEr-D keeps the document frequencies of all test pairs."""
    if subset == TOTAL:
        return whole
    members = set(subsets(of_split(read_pairs(root / f"data/pairs/{dataset}.jsonl"), "test")).get(subset, []))
    places = [place for place, pair in enumerate(whole.pair_ids) if pair in members]
    if not places:
        raise InputError(f"{dataset} has no test pair of the subset {subset}; choose another dataset")
    return whole.part(places)
