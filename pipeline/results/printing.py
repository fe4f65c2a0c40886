"""A study's record (study_table.record) as the terminal and a Markdown page print it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.reporting.overview_table import HEADINGS, TOTAL
from pipeline.reporting.retrieval_results import FIGURES, WAYS
from pipeline.results.study_table import TOLD, Record
from pipeline.statistics.comparisons import p_value, signed
from pipeline.statistics.seeds import MeanSd

NONE = "–"
PAPER = "paper "  # what the headings of the papers' columns begin with


@dataclass(frozen=True)
class Printed:
    """The table of one subset of the test pairs, all of it text."""

    title: str
    headings: list[str]
    rows: list[list[str]]
    notes: list[str]  # sentences that stand below it


def tables(record: Record) -> list[Printed]:
    """One table a subset, and of adapted rows one for each way of retrieval."""
    found = [_table(record, subset) for subset in record["subsets"]]
    if any(row["retrieval"] for row in record["rows"]):
        found += [_retrieval(record, way, title) for way, title in WAYS.items()]
    return found


def _table(record: Record, subset: str) -> Printed:
    rows = record["rows"]
    scores = [row["scores"].get(subset, {}) for row in rows]
    paper = [row["published"].get(subset, {}) for row in rows]
    ours = [m for m in TOLD if any(m in values for values in scores)]
    theirs = [m for m in TOLD if any(values.get(m) is not None for values in paper)]
    of = "" if subset == TOTAL else f", {subset.replace('_', ' ')} pairs"
    return Printed(
        f"{_title(record)}{of}: × 100, mean ± sd over seeds",
        ["", "seeds", *(HEADINGS.get(m, m) for m in ours), *(f"{PAPER}{m}" for m in theirs)],
        [
            [
                *_row(row),
                *(_mean(values.get(m), 100) for m in ours),
                *(_number(his.get(m), 100) for m in theirs),
            ]
            for row, values, his in zip(rows, scores, paper, strict=True)
        ],
        [*_recorded(record), *_beside(record, theirs), *_sentences(record, subset)],
    )


def _retrieval(record: Record, way: str, title: str) -> Printed:
    rows = [row for row in record["rows"] if row["retrieval"]]
    paper = [row["published_retrieval"].get(way, {}) for row in rows]
    theirs = list(dict.fromkeys(key for figures in paper for key in figures))
    chance = rows[0]["retrieval"]["chance"]
    lines = [["chance", "", *(_number(chance[f], _factor(f)) for f in FIGURES), *[NONE] * len(theirs)]]
    for row, his in zip(rows, paper, strict=True):
        means = [_mean(row["retrieval"][way][figure], _factor(figure)) for figure in FIGURES]
        lines.append([*_row(row), *means, *(_number(his.get(f), _factor(f)) for f in theirs)])
    return Printed(
        f"{_title(record)}: {title[0].lower()}{title[1:]}",
        ["", "seeds", *FIGURES, *(f"{PAPER}{figure}" for figure in theirs)],
        lines,
        ["R@k in percent, MdR and MnR the median and mean rank; test pairs where something changed."],
    )


def _title(record: Record) -> str:
    return f"{record['title']} ({record['source']}) on {record['dataset']}"


def _row(row: Record) -> list[str]:
    return [row["label"], f"{row['finished']}/{len(row['cells'])}"]


def _factor(figure: str) -> int:
    """Shares in percent, ranks as they are."""
    return 100 if figure.startswith("R@") else 1


def _mean(spread: Record | None, factor: int) -> str:
    return NONE if spread is None else MeanSd(**spread).printed(factor)


def _number(value: float | None, factor: int) -> str:
    return NONE if value is None else f"{factor * value:.1f}"


def _recorded(record: Record) -> list[str]:
    """What the table leaves out: cells made elsewhere, of which there is a record and no more."""
    cells = {key for row in record["rows"] for key in row["recorded"]}  # rows may share some
    said = f"Left out: {len(cells)} cell(s) with a record alone, which `python -m commands.results` shows."
    return [said] if cells else []


def _beside(record: Record, theirs: Sequence[str]) -> list[str]:
    """What makes the papers' columns other than ours."""
    if not theirs:
        return []
    of, differs = record["published"]["dataset"], record["published"]["differs"]
    if of != record["dataset"]:
        return [f"The paper's figures are of {of}, ours of {record['dataset']}: only their order can agree."]
    return [f"The paper's figures differ from ours in: {'; '.join(differs)}."] if differs else []


def _sentences(record: Record, subset: str) -> list[str]:
    found = [one for one in record["comparisons"] if one["subset"] == subset]
    keys = {row["label"]: row["cells"] for row in record["rows"]}
    lines = [_sentence(one, keys[one["a"]] == keys[one["b"]]) for one in found]
    if found:
        compared = len({(one["a"], one["b"]) for one in found})
        lines.append(
            "In brackets: the 95 % interval over the test pairs (paired bootstrap)"
            + (f"; p has Holm's correction for {compared} comparisons." if compared > 1 else ".")
        )
    if found and subset != TOTAL:
        lines.append("In these lines CIDEr-D has the document frequencies of all the test pairs.")
    return lines


def _sentence(one: dict[str, Any], same: bool) -> str:
    """The difference of two neighbours, its 95 % interval over the test pairs, and whether it is sure."""
    name, interval = (
        HEADINGS.get(one["metric"], one["metric"]),
        f"[{signed(one['low'])}, {signed(one['high'])}]",
    )
    said = f"{one['a']} − {one['b']}: {signed(one['difference'])} {name} {interval}, {p_value(one['p'])}"
    if same:
        return f"{said}: they are the same cells"
    return said if one["significant"] else f"{said}, not significant"


def markdown(record: Record) -> str:
    """The tables to paste into a page."""
    parts = [
        "\n".join(
            [
                f"**{table.title}**\n",
                markdown_table(table.headings, table.rows),
                *(f"- {note}" for note in table.notes),
            ]
        )
        for table in tables(record)
    ]
    return "\n\n".join(parts).rstrip() + "\n"


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]], right: str = "---:") -> str:
    """A table whose first column is text, the others as `right` says; it ends its last line."""
    rule = "|".join(["---", *[right] * (len(headings) - 1)])
    lines = [f"| {' | '.join(row)} |" for row in (headings, *rows)]
    return "\n".join([lines[0], f"|{rule}|", *lines[1:], ""])
