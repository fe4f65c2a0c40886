"""Tables as spreadsheets, pandas and people write them: each row is read, or refused by its line."""

import csv
import io
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.datasets import pairs_csv_rows
from pipeline.io.errors import InputError

NAMES = ("before", "after", "caption", "caption_2")
TEXTS = st.text(st.sampled_from('ab ,;\t|"\n\\é漢=.'), max_size=6)
PATHS = st.text(st.sampled_from("ab.,; /é"), min_size=1, max_size=6).filter(str.strip)
ROWS = st.lists(st.tuples(PATHS, PATHS, TEXTS, TEXTS), min_size=1, max_size=6)
DIALECTS = st.fixed_dictionaries(
    {
        "delimiter": st.sampled_from(",;\t|"),
        "quoting": st.sampled_from((csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC)),
        "end": st.sampled_from(("\n", "\r\n", "\r")),
        "mark": st.sampled_from(("", "\ufeff")),
        "sep": st.booleans(),
        "blank": st.integers(0, 2),
        "short": st.booleans(),
    }
)


def as_written(rows, delimiter, quoting, end, mark, sep, blank, short):
    """Return the bytes of a table with `blank` empty columns. `short` rows end at their last full field."""
    text = io.StringIO(newline="")
    if sep:
        text.write(f"sep={delimiter}\n")
    writer = csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator="\n")
    for row in (NAMES, *rows):
        own = [*row, *[""] * blank]
        while short and not own[-1]:
            own.pop()
        writer.writerow(own)
    return (mark + text.getvalue().replace("\n", end)).encode()


def read_or_refused(path):
    """Return the rows; None if the table is refused with a message that names a line."""
    try:
        return pairs_csv_rows.read_rows(path)
    except InputError as error:
        said = str(error)
    assert re.search(r"\bline \d+\b", said)
    return None


@settings(max_examples=120)
@given(ROWS, DIALECTS)
def test_every_row_is_read_or_the_table_is_refused(tmp_path_factory, rows, dialect):
    path = tmp_path_factory.getbasetemp() / "pairs.csv"
    path.write_bytes(as_written(rows, **dialect))
    if (read := read_or_refused(path)) is not None:
        assert len(read) == len(rows)
        for row, wanted in zip(read, rows, strict=True):
            before, after, *captions = (field.strip() for field in wanted)
            single = [row.values[name] for name in ("caption",) if name in row.values]
            found = [row.values["before"], row.values["after"], *single, *row.values.get("captions", [])]
            assert row.fault is None
            assert found == [before, after, *filter(None, captions)]


FIELDS = st.sampled_from(
    ('"', '""', '"a', 'a"', '"a"b', ' "', '\t"', '"a"', " a", "a", "", "a b", '\\"a"', "\\")
)


@settings(max_examples=120)
@given(st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=6))
@example([('"', ""), ("a", ""), ('"', "")])
def test_a_stray_quotation_mark_hides_no_row(tmp_path_factory, fields):
    """A ditto mark opens a field that ends at the next ditto mark."""
    path = tmp_path_factory.getbasetemp() / "pairs.csv"
    lines = [f"b{n},a{n},{one},{other}" for n, (one, other) in enumerate(fields)]
    path.write_text("\n".join([",".join(NAMES), *lines]))
    if (read := read_or_refused(path)) is not None:
        assert [row.line for row in read] == [*range(2, len(lines) + 2)]
        assert all(row.values.get("before", f"b{n}") == f"b{n}" for n, row in enumerate(read))


READ = {
    "short rows": "before,after,caption,caption_2\nb,a,x\n",
    "a tab": "before\tafter\tcaption\nb\ta\tx\n",
    "sep= with marks and a byte order mark": '\ufeff"sep=;"\n"before";"after";"caption"\nb;a;x\n',
    "blank columns and rows": ",,,\nbefore,after,caption,,\n,,,,\nb,a,x,,,,,\n",
    "spaces before quotation marks": 'before, after, caption\nb, a, "x"\n',
    "capitals in the names": "Before,AFTER,Caption\nb,a,x\n",
}


@pytest.mark.parametrize("text", READ.values(), ids=list(READ))
def test_what_spreadsheets_and_people_write_is_read(tmp_path, text):
    (tmp_path / "pairs.csv").write_text(text, encoding="utf-8")
    (row,) = pairs_csv_rows.read_rows(tmp_path / "pairs.csv")
    assert (row.values, row.fault) == ({"before": "b", "after": "a", "caption": "x"}, None)


FAULTY = {
    "the index of a data frame": (",before,after,caption\n0,b,a,x\n", "column 1"),
    "a column without a name": ("before,after,,caption\nb,a,7,x\n", "column 3"),
    "a comma too many": ("before,after,caption\nb,a,x,y\n", "column 4"),
    "another delimiter in the rows": ("before,after,caption\nb;a;x\n", "after is missing"),
    "a workbook": ("PK\3\4\x14\0", "workbook"),
    "no names": ("b,a,x\n", "line 1 must name the columns"),
    "no names after sep=": ("sep=;\nb;a;x\n", "line 2 must name the columns"),
}


@pytest.mark.parametrize(("text", "named"), FAULTY.values(), ids=list(FAULTY))
def test_a_fault_is_named(tmp_path, text, named):
    (tmp_path / "pairs.csv").write_text(text, encoding="utf-8")
    try:
        found = str([row.fault for row in pairs_csv_rows.read_rows(tmp_path / "pairs.csv")])
    except InputError as error:
        found = str(error)
    assert named in found
