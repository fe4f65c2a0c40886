"""Rows of any pairs, written and read as Parquet and JSON; front matter of any values."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pipeline.datasets.schema import CHANGE_TYPES, ChangedObject, Look, Pair, Placed, SceneFacts
from pipeline.io import front_matter
from pipeline.publishing import rows
from pipeline.publishing.rows import pair_of

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBER = st.floats(-1e6, 1e6)
POINT = st.tuples(NUMBER, NUMBER, NUMBER)
LOOK = st.builds(Look, TEXT, TEXT, TEXT, TEXT)
OBJECTS = st.lists(st.builds(Placed, st.integers(0, 9), TEXT, TEXT, TEXT, TEXT, NUMBER, NUMBER), max_size=3)
CHANGED = st.none() | st.integers(0, 9)
SCENES = st.builds(SceneFacts, OBJECTS.map(tuple), OBJECTS.map(tuple), POINT, POINT, CHANGED)
BOX = st.none() | st.tuples(NUMBER, NUMBER, NUMBER, NUMBER)
PAIRS = st.builds(
    Pair,
    pair_id=TEXT,
    scene_id=TEXT,
    split=st.just("test"),
    before=TEXT,
    after=TEXT,
    captions=st.lists(TEXT, min_size=1, max_size=3).map(tuple),
    change_type=st.none() | st.sampled_from(CHANGE_TYPES),
    before_box=BOX,
    after_box=BOX,
    viewpoint_iou=st.none() | st.floats(0, 1),
    changed_object=st.none() | st.builds(ChangedObject, st.none() | LOOK, st.none() | LOOK),
    scene=st.none() | SCENES,
)


@given(pairs=st.lists(PAIRS, min_size=1, max_size=4))
def test_pairs_are_the_same_after_parquet_and_json(tmp_path_factory, pairs):
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra `publish` is not installed")
    path = tmp_path_factory.mktemp("rows") / rows.NAME
    written = [rows.row_of(pair, 1, "mit") for pair in pairs]
    rows.write(path, iter(written))
    assert [pair_of(row, "test") for row in parquet.read_table(path).to_pylist()] == pairs
    assert [pair_of(row, "test") for row in json.loads(json.dumps(written))] == pairs


VALUES = st.recursive(TEXT | st.integers() | st.booleans(), lambda inner: st.lists(inner, max_size=3))


@given(values=st.dictionaries(TEXT, VALUES, min_size=1, max_size=4))
def test_front_matter_is_yaml(values):
    made = front_matter.text(values)
    assert made.startswith("---\n")
    assert made.endswith("\n---\n")
    assert yaml.safe_load(made[4:-4]) == values
