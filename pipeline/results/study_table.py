"""Make the tables of a study: mean ± sd over seeds, published scores, paired bootstrap of adjacent rows."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import pandas as pd
from pandas import DataFrame

from pipeline.config.params import Params
from pipeline.datasets.manifest import read_pairs
from pipeline.datasets.schema import of_split
from pipeline.io.errors import InputError
from pipeline.reporting import paper_results
from pipeline.reporting.dataset_results import check_alike, read_metrics
from pipeline.reporting.paper_results import PaperRow, PublishedRetrieval
from pipeline.reporting.retrieval_results import DIRECTIONS, FIGURES, Figures, factor, printed
from pipeline.reporting.score_table import means, of_metrics
from pipeline.reporting.score_table import printed as printed_score
from pipeline.reporting.tables import NONE, Table, number
from pipeline.results.own_records import recorded
from pipeline.scoring import table_notes
from pipeline.scoring.metric_names import (
    ACCURACY,
    AGREES,
    AGREES_CHANGED,
    BY_CHANGE,
    CIDER,
    CORPUS,
    METEOR,
    PRINTED,
    SPICE,
    TOTAL,
    TRUE,
    TRUE_CHANGED,
    heading,
)
from pipeline.scoring.subsets import subsets
from pipeline.statistics import pair_scores
from pipeline.statistics.comparisons import Comparison, compare_all, p_value, signed
from pipeline.statistics.evidence import Evidence
from pipeline.study.study_file import Study, filled
from pipeline.study.study_runs import RETRIEVAL, Planned, Run, finished

JUDGED = (TRUE, AGREES)
# metrics in the order of the columns: over all pairs, and over a subset
OVERALL, OF_SUBSET = (*BY_CHANGE, *CORPUS, SPICE, ACCURACY), (*JUDGED, *CORPUS, SPICE)
PAPER = "paper "  # prefix of headings of the papers' columns


def tables(root: Path, study: Study, dataset: str, planned: Sequence[Planned], params: Params) -> list[Table]:
    """Return a study's tables: for each subset, scores and differences between rows; then retrieval.

    A table of differences or of retrieval is left out if there is nothing to show.
    """
    title = f"{study.title} ({study.source}) on {dataset}"
    published = check(root, study, dataset)
    results = [result for of_row in published.values() for result in of_row]
    notes = [*_record_notes(root, planned), *_paper_notes(study, dataset, results, params)]
    notes += _score_notes(root, planned)
    all_tables = []
    for subset in study.subsets:
        all_tables.append(_scores(root, title, subset, planned, published, notes))
        all_tables += _differences(root, dataset, subset, planned)
    rows = paper_results.retrieval(_published_dataset(study, dataset), root / paper_results.FOLDER)
    return all_tables + _retrieval(root, title, planned, {row.method: row for row in rows})


def markdown(tables: Sequence[Table]) -> str:
    """Return the tables as Markdown, with titles and notes."""
    return "\n".join(
        "\n".join([f"**{table.title}**\n", table.markdown, *(f"- {note}\n" for note in table.notes)])
        for table in tables
    )


def check(root: Path, study: Study, dataset: str) -> dict[str, list[PaperRow]]:
    """Return row label -> published results of the row's method, on the subsets of the study."""
    dataset = _published_dataset(study, dataset)
    results = paper_results.rows(dataset, root / paper_results.FOLDER)
    comparable = [result for result in results if result.conditions and result.subset in study.subsets]
    by_label: dict[str, list[PaperRow]] = {}
    for row in study.rows:
        by_label[row.label] = [result for result in comparable if result.method == row.published]
        if row.published and not by_label[row.label]:
            raise InputError(
                f"data/published/{dataset}.yaml has no row of {row.published} on {', '.join(study.subsets)}; "
                f"add it, or correct `published` of the row {row.label!r}"
            )
    return by_label


def _published_dataset(study: Study, dataset: str) -> str:
    return dataset if dataset in study.datasets else study.datasets[0]


def _record_notes(root: Path, planned: Sequence[Planned]) -> list[str]:
    recorded_only = {
        run.key
        for row in planned
        for run in row.runs
        if not finished(root, run) and recorded(root, run, row.changes)
    }
    count = len(recorded_only)
    note = f"Left out: {count} run(s) with a record only; `python -m commands.results` shows them."
    return [note] if count else []


def _score_notes(root: Path, planned: Sequence[Planned]) -> list[str]:
    """Return lines on scored pairs, the best constant captions, and rows that repeat few captions."""
    metrics = {
        f"{_label(row)}, seed {run.seed}": read_metrics(root / run.folder / "metrics.json")
        for row in planned
        for run in _finished_runs(root, row)
    }
    check_alike(metrics)
    shared = [
        line
        for of_run in metrics.values()
        for line in (*table_notes.of_scope(of_run), *table_notes.of_constants(of_run))
    ]
    warnings = [
        f"{name}: {text}"
        for name, of_run in metrics.items()
        for text in (*table_notes.warnings(of_run), *table_notes.of_gate(of_run))
    ]
    return [*dict.fromkeys(shared), *warnings]


def _paper_notes(study: Study, dataset: str, published: Sequence[PaperRow], params: Params) -> list[str]:
    published_dataset = _published_dataset(study, dataset)
    if published and published_dataset != dataset:
        return [
            f"The paper's figures are of {published_dataset}, ours of {dataset}: only their order can agree."
        ]
    differing = [
        difference for row in published for difference in paper_results.differing_conditions(row, params)
    ]
    text = "; ".join(dict.fromkeys(differing))
    return [f"The paper's figures differ from ours in: {text}."] if differing else []


def _scores(
    root: Path,
    title: str,
    subset: str,
    planned: Sequence[Planned],
    published: dict[str, list[PaperRow]],
    notes: Sequence[str],
) -> Table:
    metrics = OVERALL if subset == TOTAL else OF_SUBSET
    scores = _mean_scores(root, planned)
    ours = [
        {metric: printed_score(scores.loc[[number]].iloc[0], (subset, metric)) for metric in metrics}
        if number in scores.index
        else {}
        for number in range(len(planned))
    ]
    papers = [
        next((found.values for found in published.get(row.row.label, []) if found.subset == subset), {})
        for row in planned
    ]
    our_metrics = [metric for metric in metrics if any(row.get(metric, NONE) != NONE for row in ours)]
    paper_metrics = [metric for metric in PRINTED if any(row.get(metric) is not None for row in papers)]
    lines = [
        [
            *_row(root, row),
            *(texts.get(metric, NONE) for metric in our_metrics),
            *(number(paper.get(metric)) for metric in paper_metrics),
        ]
        for row, texts, paper in zip(planned, ours, papers, strict=True)
    ]
    headings = ["", "seeds", *map(heading, our_metrics)]
    headings += [f"{PAPER}{metric}" for metric in paper_metrics]
    return Table(f"{title}{_subset_title(subset)}: × 100, mean ± sd over seeds", headings, lines, notes)


def _subset_title(subset: str) -> str:
    return "" if subset == TOTAL else f", {subset.replace('_', ' ')} pairs"


def _row(root: Path, row: Planned) -> list[str]:
    return [_label(row), f"{len(_finished_runs(root, row))}/{len(row.runs)}"]


def _label(planned: Planned) -> str:
    """Return a row's label, with the value of a setting that it multiplies (`times`): "RR = 0.2"."""
    keys = [filled(key, planned.row, planned.runs[0].dataset) for key in planned.row.times]
    values = [planned.changes[key] for key in keys if key in planned.changes]
    return " = ".join([planned.row.label, *(f"{value:g}" for value in values)])


def _finished_runs(root: Path, row: Planned) -> list[Run]:
    return [run for run in row.runs if finished(root, run)]


def _mean_scores(root: Path, planned: Sequence[Planned]) -> DataFrame:
    """Return the `means` of a study's rows: number of a row -> scores. Rows without a run are left out."""
    tables = [
        of_metrics(read_metrics(root / run.folder / "metrics.json"), row=number, run=run.seed)
        for number, row in enumerate(planned)
        for run in _finished_runs(root, row)
    ]
    return means(pd.concat(tables), ["row"]) if tables else DataFrame()


def _differences(root: Path, dataset: str, subset: str, planned: Sequence[Planned]) -> list[Table]:
    """Return one table, each row's scores minus those of the row above, of finished runs; [] for none."""
    keys = {_label(row): [run.key for run in row.runs] for row in planned}
    evidence = {
        _label(row): _evidence(root, dataset, subset, row) for row in planned if _finished_runs(root, row)
    }
    row_pairs = [(b, a) for a, b in pairwise(keys) if a in evidence and b in evidence]
    if not row_pairs:
        return []
    lines = [
        [
            f"{a} − {b}",
            heading(metric),
            signed(by_metric[metric].difference),
            f"{signed(by_metric[metric].low)} to {signed(by_metric[metric].high)}",
            p_value(by_metric[metric].p),
            "the same runs" if keys[a] == keys[b] else "yes" if by_metric[metric].significant else "no",
        ]
        for (a, b), by_metric in compare_all(evidence, between=row_pairs).items()
        for metric in _compared(subset, by_metric)
    ]
    notes = ["The interval is over test pairs (paired bootstrap), not over seeds."]
    notes += [f"p has Holm's correction for {len(row_pairs)} comparisons."] * (len(row_pairs) > 1)
    notes += ["CIDEr-D has the document frequencies of all test pairs here."] * (subset != TOTAL)
    headings = ["rows", "metric", "difference", "95 % interval", "p", "significant"]
    return [Table(f"Differences{_subset_title(subset)}", headings, lines, notes, texts=2)]


def _compared(subset: str, by_metric: dict[str, Comparison]) -> list[str]:
    """Return the metrics to compare. Change accuracy is meaningless in subsets, so METEOR is used there."""
    truth = (TRUE_CHANGED, AGREES_CHANGED) if subset == TOTAL else JUDGED
    second = ACCURACY if subset == TOTAL and ACCURACY in by_metric else METEOR
    return [*(metric for metric in truth if metric in by_metric), CIDER, second]


def _evidence(root: Path, dataset: str, subset: str, row: Planned) -> Evidence:
    evidence = pair_scores.read([root / run.folder / "pairs.jsonl" for run in _finished_runs(root, row)])
    if subset == TOTAL:
        return evidence
    members = set(subsets(of_split(read_pairs(root / f"data/pairs/{dataset}.jsonl"), "test")).get(subset, []))
    positions = [position for position, pair in enumerate(evidence.pair_ids) if pair in members]
    if not positions:
        raise InputError(f"{dataset} has no test pair of the subset {subset}; choose another dataset")
    return evidence.part(positions)


def _retrieval(
    root: Path, title: str, planned: Sequence[Planned], published: Mapping[str, PublishedRetrieval]
) -> list[Table]:
    """Return a table for each direction of retrieval; [] if no model with retrieval is finished."""
    figures_of_rows: list[tuple[Planned, list[Figures]]] = []
    for row in planned:
        runs = [run for run in _finished_runs(root, row) if run.recipe.entry.retrieves]
        if runs:
            files = [root / run.folder / RETRIEVAL for run in runs]
            figures = [Figures.model_validate_json(file.read_bytes()) for file in files]
            figures_of_rows.append((row, figures))
    all_tables = []
    for direction, caption in DIRECTIONS.items() if figures_of_rows else ():
        # papers have no figures for the direction text_to_pair_shared
        papers = [
            getattr(published.get(row.row.published or ""), direction, {}) for row, _ in figures_of_rows
        ]
        paper_keys = list(dict.fromkeys(key for paper in papers for key in paper))
        chance = figures_of_rows[0][1][0].chance
        lines = [["chance", "", *(printed(key, [chance]) for key in FIGURES), *[NONE] * len(paper_keys)]]
        for (row, figures), paper in zip(figures_of_rows, papers, strict=True):
            values = [getattr(of_seed, direction) for of_seed in figures]
            texts = [printed(key, values) for key in FIGURES]
            texts += [number(paper.get(key), factor(key)) for key in paper_keys]
            lines.append([*_row(root, row), *texts])
        headings = ["", "seeds", *FIGURES, *(f"{PAPER}{key}" for key in paper_keys)]
        note = "R@k in percent, MdR and MnR the median and mean rank; changed test pairs."
        all_tables.append(Table(f"{title}: {caption[0].lower()}{caption[1:]}", headings, lines, [note]))
    return all_tables
