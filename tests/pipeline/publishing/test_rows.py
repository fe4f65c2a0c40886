"""Any pair is the same again after Parquet and JSON; any front matter is YAML that reads the same."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pipeline.datasets.schema import CHANGE_TYPES, ChangedObject, Look, Pair, Placed, SceneFacts
from pipeline.io import front_matter
from pipeline.publishing import metadata
from pipeline.publishing.rows import pair_of, row_of

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
    path = tmp_path_factory.mktemp("rows") / metadata.NAME
    rows = [row_of(pair, 1, "mit") for pair in pairs]
    metadata.write(path, iter(rows))
    assert [pair_of(row, "test") for row in parquet.read_table(path).to_pylist()] == pairs
    assert [pair_of(row, "test") for row in json.loads(json.dumps(rows))] == pairs


VALUES = st.recursive(TEXT | st.integers() | st.booleans(), lambda inner: st.lists(inner, max_size=3))


@given(values=st.dictionaries(TEXT, VALUES, min_size=1, max_size=4), body=TEXT)
def test_any_front_matter_is_yaml_and_is_removed_whole(values, body):
    made = front_matter.text(values) + "\n" + body
    head = made.removeprefix("---\n").partition("\n---\n")[0]
    assert yaml.safe_load(head) == values
    assert front_matter.without(made) == body.lstrip("\n")
