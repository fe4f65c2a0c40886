"""Tables of pairs from strangers: what was tried (the tests' names), and what happened.

Wrong rows of tables are in test_pairs_csv.py, pictures in test_hostile_pictures.py; here it is what takes
memory or time, is no file, or steers a terminal.
"""

import csv
from pathlib import Path

import pytest

from pipeline.captioning import pair_jobs
from pipeline.captioning.features import opened
from pipeline.datasets import pairs_csv
from stages import run
from tests.hostile import endless, hole, pipe, refused

NO_FILES = {
    "a pipe": (pipe, "is a pipe or a device, which may never end"),
    "a device": (endless, "is a pipe or a device, which may never end"),
    "a folder": (Path.mkdir, "cannot be read (Is a directory)"),
    "a link to itself": (lambda path: path.symlink_to(path), "cannot be read (Too many levels"),
    "a link to nothing": (lambda path: path.symlink_to("nowhere"), "cannot be read (No such file"),
    "2 GB without content": (
        lambda path: hole(path, 2 << 30),
        "bytes, and such a file 1,073,741,824 at most",
    ),
}


@pytest.mark.parametrize(("make", "said"), NO_FILES.values(), ids=NO_FILES)
def test_as_a_picture_is_refused(tmp_path, make, said):
    make(tmp_path / "a.png")
    assert said in refused(lambda: opened(tmp_path / "a.png"))


TABLES = {
    "a million columns of one name": ("pairs.csv", "before,after" + ",x" * 1_000_000, "names 'x' more than"),
    "a million columns without a name": ("pairs.csv", "before,after" + "," * 1_000_000, "has no row"),
    "rows that a quotation mark hides": (
        "pairs.csv",
        'before,after,x\na,b,"\nc,d,e\nf,g,"\n',
        "ends in line 4",
    ),
    "a field of a million letters": ("pairs.csv", "before,after\n" + "x" * 1_000_000, "field larger than"),
    "a quotation mark that never ends": ("pairs.csv", 'before,after\n"a,b', "unexpected end of data"),
    "a null byte in the first line": ("pairs.csv", "before,\0after\n", "must name the columns"),
    "no UTF-8": ("pairs.csv", b"before,after\n\xff,b\n", "(line 2: byte 0xff)"),
    "UTF-16": ("pairs.csv", "before,after\na,b\n".encode("utf-16"), "is UTF-16 text"),
    "no UTF-8 in a line of JSON": (
        "pairs.jsonl",
        b'{"before": "\xff"}\n',
        "(line 1: byte 0xff)",
    ),
    "no line of JSON": ("pairs.jsonl", "\n\n", "has no row"),
}


@pytest.mark.parametrize(("name", "content", "said"), TABLES.values(), ids=TABLES)
def test_a_table_is_refused_for(tmp_path, name, content, said):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = refused(lambda: pair_jobs.jobs(path))
    assert said in found
    assert str(path) in found


@pytest.mark.parametrize("make", [pipe, endless], ids=["a pipe", "a device"])
@pytest.mark.parametrize("name", ["pairs.csv", "pairs.jsonl"])
def test_as_a_table_is_refused(tmp_path, make, name):
    make(tmp_path / name)
    assert "is a pipe or a device" in refused(lambda: pair_jobs.jobs(tmp_path / name))


LINES = {
    "a whole number of 5000 digits": ('{"before": ' + "9" * 5000 + "}", "an integer too long"),
    "100000 lists within each other": ("[" * 100_000, "not valid JSON"),
    "half a character": ('{"before": "\\ud800"}', "half a character (\\ud800)"),
    "a number that is none": ("NaN", "float, not an object"),
    "nothing": ("null", "NoneType, not an object"),
    "no picture": ("{}", "no before"),
}


@pytest.mark.parametrize(("line", "said"), LINES.values(), ids=LINES)
def test_a_line_is_its_pairs_own_fault_for(tmp_path, line, said):
    (tmp_path / "pairs.jsonl").write_text(line + "\n" + '{"before": "a.png", "after": "b.png"}\n')
    wrong, sound = pair_jobs.jobs(tmp_path / "pairs.jsonl")
    assert said in wrong.fault
    assert sound.fault is None


ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202egnp"


def shown(capfd, main):
    with pytest.raises(SystemExit) as left:
        run(main)
    assert left.value.code == 2
    said = capfd.readouterr().err
    assert not set(said) & {"\x1b", "\x07", "\x9b", "\u202e"}
    assert "\\u" in said or "\\x" in said


def test_terminal_escapes_in_a_files_name_are_never_printed_raw(tmp_path, capfd):
    shown(capfd, lambda: opened(tmp_path / f"{ESCAPES}.png"))
    with (tmp_path / "pairs.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["before", "after", "caption"], [f"../{ESCAPES}.png", "b.png", "a"]])
    shown(capfd, lambda: pairs_csv.read(tmp_path))
    with (tmp_path / "pairs.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["before", "after", ESCAPES], ["a.png", "b.png", "a"]])
    shown(capfd, lambda: pairs_csv.read(tmp_path))
