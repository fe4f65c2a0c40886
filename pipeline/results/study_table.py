"""Make the tables of a study: mean ± sd over seeds, published scores, paired bootstrap of adjacent rows."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from pipeline.config.params import Params
from pipeline.datasets.manifest import read_pairs
from pipeline.datasets.schema import of_split
from pipeline.io.errors import InputError
from pipeline.reporting import paper_results
from pipeline.reporting.dataset_results import Metrics, read_metrics
from pipeline.reporting.overview_table import HEADINGS, TOTAL
from pipeline.reporting.paper_results import Published, PublishedRetrieval
from pipeline.reporting.retrieval_results import DIRECTIONS, FIGURES, Figures, factor, printed
from pipeline.reporting.tables import NONE, Table, number
from pipeline.results.own_records import recorded
from pipeline.scoring.metric_names import (
    ACCURACY,
    AGREES,
    AGREES_CHANGES,
    CIDER,
    METEOR,
    PLACES,
    PRINTED,
    TRUE,
    TRUE_CHANGES,
    of_parts,
)
from pipeline.scoring.subsets import subsets
from pipeline.statistics import pair_scores
from pipeline.statistics.comparisons import Comparison, compare_all, p_value, signed
from pipeline.statistics.pair_scores import Evidence
from pipeline.statistics.seeds import MeanSd, over_seeds
from pipeline.study.overrides import filled
from pipeline.study.study_file import Study
from pipeline.study.study_runs import RETRIEVAL, Planned, Run, finished

JUDGED = (TRUE, AGREES)
PUBLISHED_DIRECTIONS = ("text_to_pair", "pair_to_text")
METRICS = (
    *PLACES,  # over all pairs, truth is given for changed and unchanged pairs separately
    *JUDGED,
    *PRINTED,
    ACCURACY,
)
PAPER = "paper "  # prefix of headings of the papers' columns


def tables(root: Path, study: Study, dataset: str, planned: Sequence[Planned], params: Params) -> list[Table]:
    """Return a table of scores and a table of differences for each subset, then the tables of retrieval.

    Raises InputError like `check`, and if runs were scored on different pairs.
    """
    title = f"{study.title} ({study.source}) on {dataset}"
    published = check(root, study, dataset)
    notes = _notes(root, study, dataset, planned, params)
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


def check(root: Path, study: Study, dataset: str) -> dict[str, list[Published]]:
    """Return row label -> published results of the row's method, on the subsets of the study.

    Raises InputError if a row names a published method that data/published lacks.
    """
    dataset = _published_dataset(study, dataset)
    with_conditions = [
        row for row in paper_results.rows(dataset, root / paper_results.FOLDER) if row.conditions
    ]
    by_label: dict[str, list[Published]] = {}
    for row in study.rows if any(row.published for row in study.rows) else ():
        published_rows = [
            result
            for result in with_conditions
            if result.method == row.published and result.subset in study.subsets
        ]
        if row.published and not published_rows:
            raise InputError(
                f"data/published/{dataset}.yaml has no row of {row.published} on {', '.join(study.subsets)}; "
                f"add it, or correct `published` of the row {row.label!r}"
            )
        by_label[row.label] = published_rows
    return by_label


def _published_dataset(study: Study, dataset: str) -> str:
    """Return the dataset whose published scores are shown next to ours.

    It is `dataset` if the study lists it, and otherwise the first dataset that the study lists.
    """
    return dataset if dataset in study.datasets else study.datasets[0]


def _notes(root: Path, study: Study, dataset: str, planned: Sequence[Planned], params: Params) -> list[str]:
    recorded_only = {
        run.key
        for row in planned
        for run in row.runs
        if not finished(root, run) and recorded(root, run, row.changes)
    }
    note = (
        f"Left out: {len(recorded_only)} run(s) with a record only, which `python -m commands.results` shows."
    )
    notes = [note] * bool(recorded_only)
    published_rows = [row for rows in check(root, study, dataset).values() for row in rows]
    published_dataset = _published_dataset(study, dataset)
    if published_rows and published_dataset != dataset:
        notes.append(
            f"The paper's figures are of {published_dataset}, ours of {dataset}: only their order can agree."
        )
    elif differing := dict.fromkeys(
        difference for row in published_rows for difference in paper_results.differing_conditions(row, params)
    ):
        notes.append(f"The paper's figures differ from ours in: {'; '.join(differing)}.")
    return notes


def _scores(
    root: Path,
    title: str,
    subset: str,
    planned: Sequence[Planned],
    published: dict[str, list[Published]],
    notes: Sequence[str],
) -> Table:
    scores = [_mean_scores(root, subset, _finished_runs(root, row)) for row in planned]
    papers = [
        next((means.values for means in published.get(row.row.label, []) if means.subset == subset), {})
        for row in planned
    ]
    our_metrics = [metric for metric in METRICS if any(metric in means for means in scores)]
    paper_metrics = [metric for metric in METRICS if any(means.get(metric) is not None for means in papers)]
    lines = [
        [
            *_row(root, row),
            *(means[metric].printed() if metric in means else NONE for metric in our_metrics),
            *(number(paper.get(metric)) for metric in paper_metrics),
        ]
        for row, means, paper in zip(planned, scores, papers, strict=True)
    ]
    headings = [
        "",
        "seeds",
        *(HEADINGS.get(metric, metric) for metric in our_metrics),
        *(f"{PAPER}{metric}" for metric in paper_metrics),
    ]
    return Table(f"{title}{_subset_title(subset)}: × 100, mean ± sd over seeds", headings, lines, notes)


def _subset_title(subset: str) -> str:
    return "" if subset == TOTAL else f", {subset.replace('_', ' ')} pairs"


def _row(root: Path, row: Planned) -> list[str]:
    return [_label(row), f"{len(_finished_runs(root, row))}/{len(row.runs)}"]


def _label(planned: Planned) -> str:
    """Return the row's label, followed by the values of the settings that its key `times` multiplies."""
    keys = [filled(key, planned.row, planned.runs[0].dataset) for key in planned.row.times]
    values = [planned.changes[key] for key in keys if key in planned.changes]
    return " = ".join([planned.row.label, *(f"{value:g}" for value in values)])


def _finished_runs(root: Path, row: Planned) -> list[Run]:
    return [run for run in row.runs if finished(root, run)]


def _mean_scores(root: Path, subset: str, runs: Sequence[Run]) -> dict[str, MeanSd]:
    metrics_of_runs = [read_metrics(root / run.folder / "metrics.json") for run in runs]
    scores_of_runs = [
        _total(metrics) if subset == TOTAL else metrics.subsets.get(subset, {}) for metrics in metrics_of_runs
    ]
    common = [
        metric for metric in METRICS if scores_of_runs and all(metric in scores for scores in scores_of_runs)
    ]
    return {metric: over_seeds([scores[metric] for scores in scores_of_runs]) for metric in common}


def _total(metrics: Metrics) -> dict[str, float]:
    scores = {metric: value for metric, value in metrics.subsets[TOTAL].items() if metric not in JUDGED}
    return of_parts(metrics.subsets) | scores | metrics.overall


def _differences(root: Path, dataset: str, subset: str, planned: Sequence[Planned]) -> list[Table]:
    """Return a table of the differences between adjacent rows; [] if no two adjacent rows have scores."""
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
            HEADINGS.get(metric, metric),
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
    """Return the metrics to compare: true captions if known, CIDEr-D, and change accuracy or METEOR.

    Over all test pairs, the third metric is change accuracy if it is known, else METEOR. In subsets it is
    METEOR, because change accuracy is meaningless there.
    """
    truth = (TRUE_CHANGES, AGREES_CHANGES) if subset == TOTAL else JUDGED
    second = ACCURACY if subset == TOTAL and ACCURACY in by_metric else METEOR
    return [*(metric for metric in truth if metric in by_metric), CIDER, second]


def _evidence(root: Path, dataset: str, subset: str, row: Planned) -> Evidence:
    whole = pair_scores.read([root / run.folder / "pairs.jsonl" for run in _finished_runs(root, row)])
    if subset == TOTAL:
        return whole
    members = set(subsets(of_split(read_pairs(root / f"data/pairs/{dataset}.jsonl"), "test")).get(subset, []))
    positions = [position for position, pair in enumerate(whole.pair_ids) if pair in members]
    if not positions:
        raise InputError(f"{dataset} has no test pair of the subset {subset}; choose another dataset")
    return whole.part(positions)


def _retrieval(
    root: Path, title: str, planned: Sequence[Planned], published: Mapping[str, PublishedRetrieval]
) -> list[Table]:
    """Return a table for each direction of retrieval; [] if no model with retrieval is finished."""
    rows_with_figures: list[tuple[Planned, list[Figures]]] = []
    for row in planned:
        runs = [run for run in _finished_runs(root, row) if run.recipe.entry.retrieves]
        figures = [Figures.model_validate_json((root / run.folder / RETRIEVAL).read_bytes()) for run in runs]
        rows_with_figures += [(row, figures)] * bool(figures)
    tables_of_directions = []
    for direction, caption in DIRECTIONS.items() if rows_with_figures else ():
        paper_figures = [
            getattr(published.get(row.row.published or ""), direction, {})
            if direction in PUBLISHED_DIRECTIONS
            else {}
            for row, _ in rows_with_figures
        ]
        paper_keys = list(dict.fromkeys(key for values in paper_figures for key in values))
        chance = rows_with_figures[0][1][0].chance
        lines = [["chance", "", *(printed(key, [chance]) for key in FIGURES), *[NONE] * len(paper_keys)]]
        for (row, figures), paper in zip(rows_with_figures, paper_figures, strict=True):
            texts = [
                printed(key, [getattr(figure_set, direction) for figure_set in figures]) for key in FIGURES
            ]
            lines.append(
                [*_row(root, row), *texts, *(number(paper.get(key), factor(key)) for key in paper_keys)]
            )
        tables_of_directions.append(
            Table(
                f"{title}: {caption[0].lower()}{caption[1:]}",
                ["", "seeds", *FIGURES, *(f"{PAPER}{key}" for key in paper_keys)],
                lines,
                ["R@k in percent, MdR and MnR the median and mean rank; changed test pairs."],
            )
        )
    return tables_of_directions
