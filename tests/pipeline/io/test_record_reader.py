"""Records by pydantic: what is no record is one line that names file, line and key."""

import json
from dataclasses import dataclass
from datetime import date
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from pipeline.io import records
from pipeline.io.errors import InputError
from pipeline.io.records import plain, read_foreign, read_record, read_records


@dataclass(frozen=True)
class Point:
    name: str
    place: tuple[float, ...] | None = None


class Table(BaseModel):
    points: tuple[Point, ...]


def write(folder, text):
    (folder / "a.json").write_text(text)
    return folder / "a.json"


def test_what_is_written_is_read(tmp_path):
    path = write(tmp_path, '{"name": "a", "place": [1, 2.5]}\n{"name": "\\u00e9"}\n')
    assert list(read_records(path, Point, "make it", "name")) == [Point("a", (1, 2.5)), Point("é")]
    assert read_record(write(tmp_path, '{"name": "a"}'), Point, "make it") == Point("a")
    assert read_foreign(write(tmp_path, '{"points": [{"name": "a", "x": 1}], "y": 2}'), Table, "").points == (
        Point("a"),
    )


WRONG = {
    "{": "Invalid JSON",
    "[]": r"Input should be an object, not \[\]",
    "NaN": "Input should be an object, not nan",
    "[" * 100_000: "",
    "{}": "the key name is missing",
    '{"name": 3}': "name: Input should be a valid string, not 3",
    '{"name": "a", "x": 1}': "unknown key x",
    '{"name": "\\ud800"}': "Invalid JSON",
    '{"name": "a", "place": [1, "2"]}': r"place\.1: Input should be a valid number, not '2'",
    '{"name": ' + "9" * 5000 + "}": "",
    json.dumps({"name": ["x" * 1000]}): "not .{80}…",
}


@pytest.mark.parametrize(("text", "said"), WRONG.items(), ids=range(len(WRONG)))
def test_what_is_no_record_is_one_line(tmp_path, text, said):
    path = write(tmp_path, '{"name": "b"}\n' + text + "\n")
    with pytest.raises(InputError, match=rf"a\.json, line 2: .*{said}.*; make it$"):
        list(read_records(path, Point, "make it"))
    with pytest.raises(InputError, match=r"a\.json.*; make it$"):
        read_record(write(tmp_path, text), Point, "make it")


def test_a_record_or_a_key_that_comes_twice(tmp_path):
    path = write(tmp_path, '{"name": "a"}\n{"name": "a"}\n')
    with pytest.raises(InputError, match=r"line 2: the name 'a' is in an earlier line; make it"):
        list(read_records(path, Point, "make it", "name"))
    twice = '{"name": "a", "place": [1.0], "\\u0070lace": [2.0]}'
    for text, said in (
        (f'{{"name": "b"}}\n{twice}\n', "line 2 has the key 'place'"),
        ('{"name": "a", "name": "a"}', "line 1 "),
    ):
        with pytest.raises(InputError, match=rf"a\.json, {said}.*more than once"):
            list(read_records(write(tmp_path, text), Point, "make it"))
    path = write(tmp_path, '{"points": [], "points": []}')
    for read in (read_record, read_foreign):
        with pytest.raises(InputError, match="has the key 'points' more than once"):
            read(path, Table, "make it")


def test_a_file_of_records_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "MOST_LINES", 2)
    path = write(tmp_path, '{"name": "a"}\n' * 3)
    with pytest.raises(InputError, match=r"a\.json, line 3: .* at most 2 lines; make it"):
        list(read_records(path, Point, "make it"))
    monkeypatch.setattr(records, "LONGEST_LINE", 100)
    path = write(tmp_path, json.dumps({"name": "a", "place": [1.0] * 100}))
    with pytest.raises(InputError, match=r"a\.json, line 1: .* at most 100 characters in a line; make it"):
        list(read_records(path, Point, "make it"))


def test_all_that_is_wrong_with_a_file_from_elsewhere_is_told(tmp_path):
    path = write(tmp_path, '{"points": [{"name": 1}, {}]}')
    with pytest.raises(
        InputError,
        match=r"a\.json: 2 problem.*(?s:.)*points\.0\.name: .*, not 1\n.*points\.1\.name is missing",
    ):
        read_foreign(path, Table, "make it")


NOT_PLAIN = {
    "a long text": ({"a": "x" * 1001}, "a: a text of 1,001"),
    "a long key": ({"x" * 1001: 1}, "a key of 1,001"),
    "a key that is no text": ({"a": {1: 2}}, "a: the key 1"),
    "a large number": ({"a": [2**63]}, "a: a whole number"),
    "a date": ({"a": date(2026, 1, 2)}, "a: a date"),
    "depth": (reduce(lambda inner, _: [inner], range(65), 0), "more than 64"),
}


@pytest.mark.parametrize(("value", "said"), NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_what_no_text_file_of_weights_holds_is_named(value, said):
    with pytest.raises(InputError, match=rf"^a\.yaml: .*?{said}.*; make it$"):
        plain(Path("a.yaml"), dict[str, Any], value, "make it")
