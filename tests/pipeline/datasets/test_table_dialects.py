"""Tables as spreadsheets, pandas and people write them: every row comes back, or is refused by its line."""

import csv
import io
import re
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.datasets import pairs_csv_rows
from pipeline.datasets.pairs_csv_rows import Row
from pipeline.io.errors import InputError
from tests.hostile import refused

NAMES = ("before", "after", "caption", "caption_2")
TEXTS = st.text(st.sampled_from('ab ,;\t|"\n\\é漢=.'), max_size=6)
PATHS = st.text(st.sampled_from("ab.,; /é"), min_size=1, max_size=6).filter(str.strip)
ROWS = st.lists(st.tuples(PATHS, PATHS, TEXTS, TEXTS), min_size=1, max_size=6)
LINE = re.compile(r"\bline \d+\b")
FORMULA = re.compile(r'\A="(.*)"\Z', re.DOTALL)
DIALECTS = st.fixed_dictionaries(
    {
        "delimiter": st.sampled_from(",;\t|"),
        "quoting": st.sampled_from((csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC)),
        "end": st.sampled_from(("\n", "\r\n", "\r")),
    },
    optional={
        "mark": st.just("\ufeff"),
        "sep": st.booleans(),
        "blank": st.integers(0, 2),
        "short": st.booleans(),
        "space": st.sampled_from((" ", "  ")),
    },
)


def as_written(rows, delimiter, quoting, end, mark="", sep=False, blank=0, short=False, space=""):
    """The bytes of a table: `blank` columns more, `short` without empty fields at a row's end."""
    text = io.StringIO(newline="")
    if sep:
        text.write(f"sep={delimiter}\n")
    writer = csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator="\n")
    for row in (NAMES, *rows):
        own = [*row, *[""] * blank]
        while short and not own[-1]:
            own.pop()
        if space:  # no writer does so: people do
            text.write(
                f"{delimiter}{space}".join('"{}"'.format(field.replace('"', '""')) for field in own) + "\n"
            )
        else:
            writer.writerow(own)
    return (mark + text.getvalue().replace("\n", end)).encode()


def kept(row):
    """What a row must say: fields without the white space around them, and without those that are empty."""
    before, after, *captions = (FORMULA.sub(r"\1", field.strip()).strip() for field in row)
    said = [caption for caption in captions if caption]
    return (before, after, [*said])


def found(row):
    values = row.values
    captions = [values[name] for name in ("caption",) if name in values] + values.get("captions", [])
    return (values["before"], values["after"], captions)


def read_or_refused(path):
    """The rows, or None where the file is refused, by a line of it."""
    try:
        return pairs_csv_rows.read_rows(path)
    except InputError as error:
        said = str(error)
    assert LINE.search(said)
    return None


@settings(max_examples=120)
@given(ROWS, DIALECTS)
def test_every_row_comes_back_or_is_refused_by_its_line(tmp_path_factory, rows, dialect):
    path = tmp_path_factory.getbasetemp() / "pairs.csv"
    path.write_bytes(as_written(rows, **dialect))
    if (read := read_or_refused(path)) is not None:
        assert len(read) == len(rows)
        for row, wanted in zip(read, rows, strict=True):
            assert row.fault or found(row) == kept(wanted)


FIELDS = st.sampled_from(
    ('"', '""', '"a', 'a"', '"a"b', ' "', '\t"', '"a"', " a", "a", "", "a b", '\\"a"', "\\")
)


@settings(max_examples=120)
@given(st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=6))
@example([('"', ""), ("a", ""), ('"', "")])
def test_a_stray_quotation_mark_takes_no_row_away(tmp_path_factory, fields):
    """A ditto mark, say: it opens a field, which ends at the next one."""
    path = tmp_path_factory.getbasetemp() / "pairs.csv"
    lines = [f"b{n},a{n},{one},{other}" for n, (one, other) in enumerate(fields)]
    path.write_text("\n".join([",".join(NAMES), *lines]))
    if (read := read_or_refused(path)) is not None:
        assert [row.line for row in read] == [*range(2, len(lines) + 2)]
        assert [row.values.get("before", f"b{n}") for n, row in enumerate(read)] == [
            f"b{n}" for n in range(len(lines))
        ]


HABITS = {
    "short rows": ("before,after,caption,caption_2\nb,a,x\n", None),
    "a tab": ("before\tafter\tcaption\nb\ta\tx\n", None),
    "sep= with marks and a byte order mark": ('\ufeff"sep=;"\n"before";"after";"caption"\nb;a;x\n', None),
    "blank columns and rows": (",,,\nbefore,after,caption,,\n,,,,\nb,a,x,,,,,\n", None),
    "spaces before quotation marks": ('before, after, caption\nb, a, "x"\n', None),
    "capitals in the names": ("Before,AFTER,Caption\nb,a,x\n", None),
    "a data frame's index": (",before,after,caption\n0,b,a,x\n", "index=False"),
    "an index from Excel": ("Unnamed: 0,before,after,caption\n0,b,a,x\n", "index=False"),
    "a column without a name": ("before,after,,caption\nb,a,7,x\n", "column 3"),
    "another delimiter in the rows": ("before,after,caption\nb;a;x\n", "semicolon"),
    "a comma too many": ("before,after,caption\nb,a,x,y\n", "column 4"),
    "a backslash before a comma": ("before,after,caption\nb,a,x\\,y\n", "csv knows no \\"),
    "curly quotation marks round a comma": ("before,after,caption\nb,a,“x, y”\n", "csv knows no “ ”"),
    "a header of merged cells": ("before,after,caption,,\nb,a,x,y,z\n", "column 4"),
    "text as formulas": ('before,after,caption\n="b",="a","=""x"""\n', None),
    "marks of no width at the ends": ("\u200bbefore,after,caption\u2060\n\ufeffb,a\u200b,x\u3000\n", None),
    "two byte order marks": ("\ufeff\ufeffbefore,after,caption\nb,a,x\n", None),
    "R's row names": ('"","before","after","caption"\n"1","b","a","x"\n', "row.names"),
    "R's row names without a column": ('"before","after","caption"\n"1","b","a","x"\n', "row.names"),
    "a workbook": ("PK\3\4\x14\0", "workbook"),
    "no names": ("b,a,x\n", "line 1 must name the columns"),
    "no names after sep=": ("sep=;\nb;a;x\n", "line 2 must name the columns"),
}


@pytest.mark.parametrize(("text", "said"), HABITS.values(), ids=HABITS)
def test_what_spreadsheets_and_people_write(tmp_path, text, said):
    path = tmp_path / "pairs.csv"
    path.write_text(text, encoding="utf-8")
    if said is None:
        (row,) = pairs_csv_rows.read_rows(path)
        assert row.values.pop("caption") == "x"
        assert row == Row(row.line, {"before": "b", "after": "a"})
    else:
        with suppress(InputError):
            (row,) = pairs_csv_rows.read_rows(path)
            assert said in row.fault
            return
        assert said in refused(lambda: pairs_csv_rows.read_rows(path))


SOUND = '{"before": "b", "after": "a"}'
LINES = {  # a text -> which lines have a fault; None: the file is refused
    "byte order marks of joined files, and blank lines": (f"\ufeff{SOUND}\r\n\r\n \u00a0\n\ufeff{SOUND}", []),
    "a comma behind a line": (f"{SOUND},\n{SOUND}\n", [1]),
    "two objects in a line": (f"{SOUND}\n{SOUND} {SOUND}\n", [2]),
    "a comment": (f"// ours\n{SOUND}\n", [1]),
    "one list": (f"[{SOUND}, {SOUND}]\n", None),
    "one list in lines": (f"[\n{SOUND},\n{SOUND}\n]\n", None),
    "an object in lines": (SOUND.replace("{", "{\n"), None),
}


@pytest.mark.parametrize(("text", "faults"), LINES.values(), ids=LINES)
def test_what_people_write_in_place_of_json_lines(tmp_path, text, faults):
    path = tmp_path / "pairs.jsonl"
    path.write_text(text, encoding="utf-8", newline="")
    if faults is None:
        assert f"{path}, line 1" in refused(lambda: pairs_csv_rows.read_rows(path))
    else:
        assert [row.line for row in pairs_csv_rows.read_rows(path) if row.fault] == faults


@pytest.mark.parametrize("name", pairs_csv_rows.NAMES)
def test_rows_without_end_are_refused_with_the_bound(tmp_path, monkeypatch, name):
    """Of the real bound 8 million rows take 5 to 11 s."""
    monkeypatch.setattr(pairs_csv_rows, "MOST_ROWS", 1000)
    head, row = ("before,after\n", "b,a\n") if name.endswith("csv") else ("", '{"before":"b"}\n')
    (tmp_path / name).write_text(head + row * 1000)
    assert len(pairs_csv_rows.read_rows(tmp_path / name)) == 1000
    (tmp_path / name).write_text(head + row * 1001)
    assert "1,000 rows" in refused(lambda: pairs_csv_rows.read_rows(tmp_path / name))
