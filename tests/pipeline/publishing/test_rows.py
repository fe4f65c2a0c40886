"""Rows of any pairs, written and read as Parquet and JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.datasets.schema import CHANGE_TYPES, ChangedObject, Look, Pair, Placed, SceneFacts
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
