"""Records are checked by pydantic; a wrong record is one line that names file, line and key."""

import json
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from pipeline.datasets.schema import Pair
from pipeline.io.errors import InputError
from pipeline.io.inputs import json_of
from pipeline.io.records import parsed, plain, read_foreign, read_record, read_records


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
    "[" * 300: "",
    "{}": "the key name is missing",
    '{"name": 3}': "name: Input should be a valid string, not 3",
    '{"name": "a", "x": 1}': "unknown key x",
    '{"name": "\\ud800"}': "Invalid JSON",
    '{"name": "a", "place": [1, "2"]}': r"place\.1: Input should be a valid number, not '2'",
    '{"name": ' + "9" * 5000 + "}": "",
    json.dumps({"name": ["x" * 1000]}): "not .{80}…",
}


@pytest.mark.parametrize(("text", "said"), WRONG.items(), ids=range(len(WRONG)))
def test_a_wrong_record_is_one_line(tmp_path, text, said):
    path = write(tmp_path, '{"name": "b"}\n' + text + "\n")
    with pytest.raises(InputError, match=rf"a\.json, line 2: .*{said}.*; make it$"):
        list(read_records(path, Point, "make it"))
    with pytest.raises(InputError, match=r"a\.json.*; make it$"):
        read_record(write(tmp_path, text), Point, "make it")


def test_a_record_or_a_key_that_is_repeated_is_refused(tmp_path):
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


def test_all_faults_of_another_projects_file_are_listed(tmp_path):
    path = write(tmp_path, '{"points": [{"name": 1}, {}]}')
    with pytest.raises(
        InputError,
        match=r"a\.json: 2 problem.*(?s:.)*points\.0\.name: .*, not 1\n.*points\.1\.name is missing",
    ):
        read_foreign(path, Table, "make it")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({date(2026, 1, 2): 1}, "not date"),
        ({"a": 2}, "a: Input should be a valid array, not 2"),
        ([], "Input"),
    ],
)
def test_a_value_of_another_type_is_named(value, said):
    with pytest.raises(InputError, match=rf"^a\.yaml: .*{said}.*; make it$"):
        plain(Path("a.yaml"), dict[str, list[Any]], value, "make it")


PAIR = {"pair_id": "a", "scene_id": "b", "split": "test", "before": "c", "after": "d", "captions": ["e"]}
VALUES = st.recursive(
    st.sampled_from([None, True, 0, 1, -3, 2.5, 1e300, 2**70, "", "3", "true", "é", "\ud800", float("nan")]),
    lambda values: (
        st.lists(values, max_size=4) | st.dictionaries(st.sampled_from(["name", "place", "x"]), values)
    ),
    max_leaves=6,
)
PAIRS = st.dictionaries(
    st.sampled_from([*PAIR, "before_box", "changed_object", "scene", "viewpoint_iou", "more"]),
    VALUES,
    max_size=2,
).map(lambda changes: PAIR | changes)
TEXTS = (VALUES | PAIRS).map(json.dumps) | st.text(max_size=9) | st.just('{"name": "a", "name": "b"}')


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    TEXTS,
    st.sampled_from([Point, Table, Pair, dict[str, Any], tuple[Point, ...]]),
    st.sampled_from(["forbid", "ignore"]),
)
def test_a_line_that_is_parsed_once_gives_the_same(tmp_path, text, kind, extra):
    """The record or message equals that of pydantic's reader of JSON and the check of repeated keys."""
    path = tmp_path / "a.json"
    path.write_bytes(text.replace("\r", " ").replace("\n", " ").encode("utf-8", "replace") + b"\n")
    line, results = path.read_text(), []
    for read in (
        lambda: next(read_records(path, kind, "make it", extra=extra)),
        lambda: (
            parsed(kind, line.removesuffix("\n"), f"{path}, line 1", "make it", extra),
            json_of(line, f"{path}, line 1", "make it"),
        )[0],
    ):
        try:
            results.append(repr(read()))
        except InputError as error:
            results.append(str(error))
    assert results[0] == results[1]
