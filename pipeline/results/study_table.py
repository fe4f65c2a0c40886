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
from pipeline.reporting.retrieval_results import FIGURES, WAYS, Figures, factor, printed
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
PUBLISHED_WAYS = ("text_to_pair", "pair_to_text")
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
    theirs = check(root, study, dataset)
    notes = _notes(root, study, dataset, planned, params)
    found = []
    for subset in study.subsets:
        found.append(_scores(root, title, subset, planned, theirs, notes))
        found += _differences(root, dataset, subset, planned)
    rows = paper_results.retrieval(_beside(study, dataset), root / paper_results.FOLDER)
    return found + _retrieval(root, title, planned, {row.method: row for row in rows})


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
    dataset = _beside(study, dataset)
    rows = [row for row in paper_results.rows(dataset, root / paper_results.FOLDER) if row.conditions]
    found: dict[str, list[Published]] = {}
    for row in study.rows if any(row.published for row in study.rows) else ():
        own = [one for one in rows if one.method == row.published and one.subset in study.subsets]
        if row.published and not own:
            raise InputError(
                f"data/published/{dataset}.yaml has no row of {row.published} on {', '.join(study.subsets)}; "
                f"add it, or correct `published` of the row {row.label!r}"
            )
        found[row.label] = own
    return found


def _beside(study: Study, dataset: str) -> str:
    """Return the dataset of the published scores: `dataset` if the study lists it, else the first listed."""
    return dataset if dataset in study.datasets else study.datasets[0]


def _notes(root: Path, study: Study, dataset: str, planned: Sequence[Planned], params: Params) -> list[str]:
    left = {
        run.key
        for row in planned
        for run in row.runs
        if not finished(root, run) and recorded(root, run, row.changes)
    }
    said = f"Left out: {len(left)} run(s) with a record only, which `python -m commands.results` shows."
    notes = [said] * bool(left)
    theirs = [row for rows in check(root, study, dataset).values() for row in rows]
    of = _beside(study, dataset)
    if theirs and of != dataset:
        notes.append(f"The paper's figures are of {of}, ours of {dataset}: only their order can agree.")
    elif differing := dict.fromkeys(each for row in theirs for each in paper_results.differs(row, params)):
        notes.append(f"The paper's figures differ from ours in: {'; '.join(differing)}.")
    return notes


def _scores(
    root: Path,
    title: str,
    subset: str,
    planned: Sequence[Planned],
    theirs: dict[str, list[Published]],
    notes: Sequence[str],
) -> Table:
    scores = [_spread(root, subset, _done(root, row)) for row in planned]
    papers = [
        next((own.values for own in theirs.get(row.row.label, []) if own.subset == subset), {})
        for row in planned
    ]
    ours = [m for m in METRICS if any(m in own for own in scores)]
    printed_in_papers = [m for m in METRICS if any(own.get(m) is not None for own in papers)]
    lines = [
        [
            *_row(root, row),
            *(own[m].printed() if m in own else NONE for m in ours),
            *(number(paper.get(m)) for m in printed_in_papers),
        ]
        for row, own, paper in zip(planned, scores, papers, strict=True)
    ]
    headings = ["", "seeds", *(HEADINGS.get(m, m) for m in ours), *(f"{PAPER}{m}" for m in printed_in_papers)]
    return Table(f"{title}{_of(subset)}: × 100, mean ± sd over seeds", headings, lines, notes)


def _of(subset: str) -> str:
    return "" if subset == TOTAL else f", {subset.replace('_', ' ')} pairs"


def _row(root: Path, row: Planned) -> list[str]:
    return [_label(row), f"{len(_done(root, row))}/{len(row.runs)}"]


def _label(planned: Planned) -> str:
    """Return the row's label, followed by the values of the settings that its key `times` multiplies."""
    keys = [filled(key, planned.row, planned.runs[0].dataset) for key in planned.row.times]
    values = [planned.changes[key] for key in keys if key in planned.changes]
    return " = ".join([planned.row.label, *(f"{value:g}" for value in values)])


def _done(root: Path, row: Planned) -> list[Run]:
    return [run for run in row.runs if finished(root, run)]


def _spread(root: Path, subset: str, runs: Sequence[Run]) -> dict[str, MeanSd]:
    found = [read_metrics(root / run.folder / "metrics.json") for run in runs]
    each = [_total(metrics) if subset == TOTAL else metrics.subsets.get(subset, {}) for metrics in found]
    common = [m for m in METRICS if each and all(m in scores for scores in each)]
    return {metric: over_seeds([scores[metric] for scores in each]) for metric in common}


def _total(metrics: Metrics) -> dict[str, float]:
    scores = {metric: value for metric, value in metrics.subsets[TOTAL].items() if metric not in JUDGED}
    return of_parts(metrics.subsets) | scores | metrics.whole


def _differences(root: Path, dataset: str, subset: str, planned: Sequence[Planned]) -> list[Table]:
    """Return a table of the differences between adjacent rows; [] if no two adjacent rows have scores."""
    keys = {_label(row): [run.key for run in row.runs] for row in planned}
    evidence = {_label(row): _evidence(root, dataset, subset, row) for row in planned if _done(root, row)}
    between = [(b, a) for a, b in pairwise(keys) if a in evidence and b in evidence]
    if not between:
        return []
    lines = [
        [
            f"{a} − {b}",
            HEADINGS.get(metric, metric),
            signed(own[metric].difference),
            f"{signed(own[metric].low)} to {signed(own[metric].high)}",
            p_value(own[metric].p),
            "the same runs" if keys[a] == keys[b] else "yes" if own[metric].significant else "no",
        ]
        for (a, b), own in compare_all(evidence, between=between).items()
        for metric in _compared(subset, own)
    ]
    notes = ["The interval is over test pairs (paired bootstrap), not over seeds."]
    notes += [f"p has Holm's correction for {len(between)} comparisons."] * (len(between) > 1)
    notes += ["CIDEr-D has the document frequencies of all test pairs here."] * (subset != TOTAL)
    headings = ["rows", "metric", "difference", "95 % interval", "p", "significant"]
    return [Table(f"Differences{_of(subset)}", headings, lines, notes, texts=2)]


def _compared(subset: str, by_metric: dict[str, Comparison]) -> list[str]:
    """Return the metrics to compare: truth if known, CIDEr-D, and change accuracy.

    METEOR replaces change accuracy if that is unknown, and in subsets, where it is meaningless.
    """
    truth = (TRUE_CHANGES, AGREES_CHANGES) if subset == TOTAL else JUDGED
    second = ACCURACY if subset == TOTAL and ACCURACY in by_metric else METEOR
    return [*(metric for metric in truth if metric in by_metric), CIDER, second]


def _evidence(root: Path, dataset: str, subset: str, row: Planned) -> Evidence:
    whole = pair_scores.read([root / run.folder / "pairs.jsonl" for run in _done(root, row)])
    if subset == TOTAL:
        return whole
    members = set(subsets(of_split(read_pairs(root / f"data/pairs/{dataset}.jsonl"), "test")).get(subset, []))
    places = [place for place, pair in enumerate(whole.pair_ids) if pair in members]
    if not places:
        raise InputError(f"{dataset} has no test pair of the subset {subset}; choose another dataset")
    return whole.part(places)


def _retrieval(
    root: Path, title: str, planned: Sequence[Planned], published: Mapping[str, PublishedRetrieval]
) -> list[Table]:
    """Return a table for each direction of retrieval; [] if no model with retrieval is finished."""
    found: list[tuple[Planned, list[Figures]]] = []
    for row in planned:
        runs = [run for run in _done(root, row) if run.recipe.entry.retrieves]
        figures = [Figures.model_validate_json((root / run.folder / RETRIEVAL).read_bytes()) for run in runs]
        found += [(row, figures)] * bool(figures)
    made = []
    for way, said in WAYS.items() if found else ():
        papers = [
            getattr(published.get(row.row.published or ""), way, {}) if way in PUBLISHED_WAYS else {}
            for row, _ in found
        ]
        theirs = list(dict.fromkeys(key for values in papers for key in values))
        chance = found[0][1][0].chance
        lines = [["chance", "", *(printed(key, [chance]) for key in FIGURES), *[NONE] * len(theirs)]]
        for (row, figures), paper in zip(found, papers, strict=True):
            own = [printed(key, [getattr(each, way) for each in figures]) for key in FIGURES]
            lines.append([*_row(root, row), *own, *(number(paper.get(key), factor(key)) for key in theirs)])
        made.append(
            Table(
                f"{title}: {said[0].lower()}{said[1:]}",
                ["", "seeds", *FIGURES, *(f"{PAPER}{key}" for key in theirs)],
                lines,
                ["R@k in percent, MdR and MnR the median and mean rank; changed test pairs."],
            )
        )
    return made
