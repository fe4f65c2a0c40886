"""Convert a study's record (study_table.record) to tables for the terminal and Markdown."""

from collections.abc import Sequence

from pipeline.reporting.overview_table import HEADINGS, TOTAL
from pipeline.reporting.retrieval_results import FIGURES, WAYS, factor
from pipeline.reporting.tables import NONE, Table, number
from pipeline.results.study_table import TOLD, Record
from pipeline.statistics.comparisons import p_value, signed
from pipeline.statistics.seeds import MeanSd

PAPER = "paper "  # prefix of headings of the papers' columns


def tables(record: Record) -> list[Table]:
    """Return a table of scores and a table of differences for each subset, then the tables of retrieval."""
    found = [table for subset in record["subsets"] for table in _of_subset(record, subset)]
    if any(row["retrieval"] for row in record["rows"]):
        found += [_retrieval(record, way, title) for way, title in WAYS.items()]
    return found


def markdown(record: Record) -> str:
    """Return the tables as Markdown."""
    return "\n".join(
        "\n".join([f"**{table.title}**\n", table.markdown, *(f"- {note}\n" for note in table.notes)])
        for table in tables(record)
    )


def _of_subset(record: Record, subset: str) -> list[Table]:
    rows = record["rows"]
    scores = [row["scores"].get(subset, {}) for row in rows]
    paper = [row["published"].get(subset, {}) for row in rows]
    ours = [m for m in TOLD if any(m in values for values in scores)]
    theirs = [m for m in TOLD if any(values.get(m) is not None for values in paper)]
    of = "" if subset == TOTAL else f", {subset.replace('_', ' ')} pairs"
    lines = [
        [*_row(row), *(_mean(own.get(m), 100) for m in ours), *(number(his.get(m)) for m in theirs)]
        for row, own, his in zip(rows, scores, paper, strict=True)
    ]
    headings = ["", "seeds", *(HEADINGS.get(m, m) for m in ours), *(f"{PAPER}{m}" for m in theirs)]
    notes = [*_recorded(record), *_conditions(record, theirs)]
    title = f"{_title(record)}{of}: × 100, mean ± sd over seeds"
    return [Table(title, headings, lines, notes), *_differences(record, subset, of)]


def _differences(record: Record, subset: str, of: str) -> list[Table]:
    """Return the table of differences between each row and the row above; [] without compared rows."""
    found = [one for one in record["comparisons"] if one["subset"] == subset]
    keys = {row["label"]: row["cells"] for row in record["rows"]}
    lines = [
        [
            f"{one['a']} − {one['b']}",
            HEADINGS.get(one["metric"], one["metric"]),
            signed(one["difference"]),
            f"{signed(one['low'])} to {signed(one['high'])}",
            p_value(one["p"]),
            "the same runs" if keys[one["a"]] == keys[one["b"]] else "yes" if one["significant"] else "no",
        ]
        for one in found
    ]
    compared = len({(one["a"], one["b"]) for one in found})
    notes = ["The interval is over test pairs (paired bootstrap), not over seeds."]
    notes += [f"p has Holm's correction for {compared} comparisons."] * (compared > 1)
    notes += ["CIDEr-D has the document frequencies of all test pairs here."] * (subset != TOTAL)
    headings = ["rows", "metric", "difference", "95 % interval", "p", "significant"]
    return [Table(f"Differences{of}", headings, lines, notes, texts=2)] if found else []


def _retrieval(record: Record, way: str, title: str) -> Table:
    rows = [row for row in record["rows"] if row["retrieval"]]
    paper = [row["published_retrieval"].get(way, {}) for row in rows]
    theirs = list(dict.fromkeys(key for figures in paper for key in figures))
    chance = rows[0]["retrieval"]["chance"]
    lines = [["chance", "", *(number(chance[f], factor(f)) for f in FIGURES), *[NONE] * len(theirs)]]
    for row, his in zip(rows, paper, strict=True):
        means = [_mean(row["retrieval"][way][figure], factor(figure)) for figure in FIGURES]
        lines.append([*_row(row), *means, *(number(his.get(f), factor(f)) for f in theirs)])
    return Table(
        f"{_title(record)}: {title[0].lower()}{title[1:]}",
        ["", "seeds", *FIGURES, *(f"{PAPER}{figure}" for figure in theirs)],
        lines,
        ["R@k in percent, MdR and MnR the median and mean rank; test pairs where something changed."],
    )


def _title(record: Record) -> str:
    return f"{record['title']} ({record['source']}) on {record['dataset']}"


def _row(row: Record) -> list[str]:
    return [row["label"], f"{row['finished']}/{len(row['cells'])}"]


def _mean(spread: Record | None, times: int) -> str:
    return NONE if spread is None else MeanSd(**spread).printed(times)


def _recorded(record: Record) -> list[str]:
    """Return a note on the runs that are left out because they have only records; [] if there are none."""
    cells = {key for row in record["rows"] for key in row["recorded"]}  # rows may share runs
    said = f"Left out: {len(cells)} run(s) with a record only, which `python -m commands.results` shows."
    return [said] if cells else []


def _conditions(record: Record, theirs: Sequence[str]) -> list[str]:
    """Return a note on how the conditions of the papers' runs differ from ours; [] without a difference."""
    if not theirs:
        return []
    of, differs = record["published"]["dataset"], record["published"]["differs"]
    if of != record["dataset"]:
        return [f"The paper's figures are of {of}, ours of {record['dataset']}: only their order can agree."]
    return [f"The paper's figures differ from ours in: {'; '.join(differs)}."] if differs else []
