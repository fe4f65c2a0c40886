"""A study's record (tables.record) as the terminal and a Markdown page print it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.reporting.overview_table import HEADINGS
from pipeline.reporting.retrieval_results import WAYS
from pipeline.reporting.significance import signed
from pipeline.studying import retrieval_table
from pipeline.studying.study_table import TOLD, Record

NONE = "–"


@dataclass(frozen=True)
class Printed:
    """The table of one subset of the test pairs, all of it text."""

    title: str
    headings: list[str]  # of the papers' columns they begin with PAPER
    rows: list[list[str]]
    notes: list[str]  # sentences that stand below it


PAPER = "paper "


def tables(record: Record) -> list[Printed]:
    """One table a subset, and of adapted rows one for each way of retrieval."""
    found = [_table(record, subset) for subset in record["subsets"]]
    if any(row["retrieval"] for row in record["rows"]):
        found += [_retrieval(record, way, title) for way, title in WAYS.items()]
    return found


def _retrieval(record: Record, way: str, title: str) -> Printed:
    headings, rows = retrieval_table.lines(record, way)
    of = f"{record['title']} ({record['source']}) on {record['dataset']}"
    note = "R@k in percent, MdR and MnR the median and mean rank; test pairs where something changed."
    return Printed(f"{of}: {title[0].lower()}{title[1:]}", headings, rows, [note])


def _table(record: Record, subset: str) -> Printed:
    rows = record["rows"]
    ours = [m for m in TOLD if any(m in row["scores"].get(subset, {}) for row in rows)]
    theirs = [m for m in TOLD if any(_paper(row, subset, m) is not None for row in rows)]
    headings = ["", "seeds", *(HEADINGS.get(m, m) for m in ours), *(f"{PAPER}{m}" for m in theirs)]
    printed = [
        [
            row["label"],
            f"{row['finished']}/{len(row['cells'])}",
            *(_mean(row["scores"].get(subset, {}).get(metric)) for metric in ours),
            *(_percent(_paper(row, subset, metric)) for metric in theirs),
        ]
        for row in rows
    ]
    of = "" if subset == "total" else f", {subset.replace('_', ' ')} pairs"
    title = f"{record['title']} ({record['source']}) on {record['dataset']}{of}: × 100, mean ± sd over seeds"
    return Printed(title, headings, printed, [*_beside(record, theirs), *_sentences(record, subset)])


def _paper(row: Record, subset: str, metric: str) -> float | None:
    return row["published"].get(subset, {}).get(metric)


def _mean(spread: Record | None) -> str:
    if spread is None:
        return NONE
    deviation = "" if spread["sd"] is None else f" ± {_percent(spread['sd'])}"
    return f"{_percent(spread['mean'])}{deviation}"


def _percent(value: float | None) -> str:
    return NONE if value is None else f"{100 * value:.1f}"


def _beside(record: Record, theirs: Sequence[str]) -> list[str]:
    """What makes the papers' columns other than ours."""
    if not theirs:
        return []
    of, differs = record["published"]["dataset"], record["published"]["differs"]
    if of != record["dataset"]:
        return [f"The paper's figures are of {of}, ours of {record['dataset']}: only their order can agree."]
    return [f"The paper's figures differ from ours in: {'; '.join(differs)}."] if differs else []


def _sentences(record: Record, subset: str) -> list[str]:
    found = [own for own in record["comparisons"] if own["subset"] == subset]
    keys = {row["label"]: row["cells"] for row in record["rows"]}
    lines = [_sentence(own, keys[own["a"]] == keys[own["b"]]) for own in found]
    if found:
        compared = len({(own["a"], own["b"]) for own in found})
        lines.append(
            "In brackets: the 95 % interval over the test pairs (paired bootstrap)"
            + (f"; p has Holm's correction for {compared} comparisons." if compared > 1 else ".")
        )
    if found and subset != "total":
        lines.append("In these lines CIDEr-D has the document frequencies of all the test pairs.")
    return lines


def _sentence(own: dict[str, Any], same: bool) -> str:
    """The difference of two neighbours, its 95 % interval over the test pairs, and whether it is sure."""
    name = HEADINGS.get(own["metric"], own["metric"])
    low, high = signed(own["low"]), signed(own["high"])
    p = "p < .001" if own["p"] < 0.001 else f"p = {own['p']:.3f}"
    said = f"{own['a']} − {own['b']}: {signed(own['difference'])} {name} [{low}, {high}], {p}"
    if same:
        return f"{said}: they are the same cells"
    return said if own["significant"] else f"{said}, not significant"


def markdown(record: Record) -> str:
    """The tables to paste into a page."""
    parts = []
    for table in tables(record):
        rule = ["---", *["--:"] * (len(table.headings) - 1)]
        lines = [_line(table.headings), _line(rule), *map(_line, table.rows)]
        parts.append(
            "\n".join([f"**{table.title}**", "", *lines, "", *(f"- {note}" for note in table.notes)])
        )
    return "\n\n".join(parts).rstrip() + "\n"


def _line(fields: Sequence[str]) -> str:
    return f"| {' | '.join(fields)} |"
