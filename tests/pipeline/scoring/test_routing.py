"""Kinds that routers found: read from captions.json, counted, and shown below tables."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.common.trainable import KINDS
from pipeline.datasets.schema import CHANGE, Pair
from pipeline.scoring import metric_names, routing, table_notes
from pipeline.scoring.conditions import LABELLED, Conditions
from pipeline.scoring.routing import NOTHING, Found


def pair(name, kind):
    return Pair(name, name, "test", "a", "b", ("c",), kind)


def test_shares_count_known_pairs():
    kinds = {"a": "color", "b": "none", "c": "move", "d": "none", "e": "add", "f": "add"}
    pairs = [pair("a", "color"), pair("b", "texture"), pair("c", "drop"), pair("d", "none")]
    pairs += [pair("e", None), pair("f", CHANGE), pair("g", "move")]
    assert Found(kinds).shares(pairs) == {"change": 4 / 5, "kind": 1 / 3}
    assert NOTHING.shares(pairs) == {}


@given(st.sampled_from(KINDS), st.floats(0, 1), st.booleans())
def test_what_a_line_says_is_read_again(tmp_path_factory, kind, probability, labelled):
    path = tmp_path_factory.mktemp("captions") / "captions.json"
    row = {"image_id": "a", "caption": "x"} | routing.of_caption(kind, probability, labelled)
    path.write_text(json.dumps([row]))
    assert routing.read(path) == Found({"a": kind}, "label" if labelled else None)
    assert abs(row["kind_probability"] - probability) <= 5.001e-5  # four digits; a half may be inexact


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("captions.jsonl", '{"image_id": "a", "caption": "x", "kind": "add"}'),
        ("captions.json", '{"a": "x"}'),
        ("captions.json", '[{"image_id": "a", "caption": "x", "kind": ["add"]}, 3]'),
        ("captions.json", '[{"image_id": "a", "caption": "x", "kind": "grown"}]'),
        ("captions.json", '{"image_id": "a"}\n{"image_id": "b"}'),
    ],
)
def test_captions_of_other_programs_have_no_kinds(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert routing.read(tmp_path / name) == NOTHING
    assert routing.of_caption(None, None, True) == {}


def test_a_labelled_gate_is_a_condition_that_is_written_only_if_it_applies():
    assert Conditions(tokeniser="ptb").described() == {"tokeniser": "ptb", "reader": None}
    marked = Conditions(tokeniser="ptb", gate="label")
    assert marked.described()["gate"] == "label"
    assert marked.mark == LABELLED
    assert Conditions(tokeniser="ptb").mark is None
    assert marked.difference(Conditions(tokeniser="ptb")) is None


def test_the_lines_below_a_table_name_the_routers_and_the_gate():
    scored = {"pairs": 2, "left_out": 0, "references": "r", "references_sha256": "0" * 64}
    metrics = {"routing": {"change": 0.921, "kind": 0.81}, "scored": scored}
    lines = table_notes.of_metrics(metrics)
    assert [line for line in lines if "92.1 %" in line and "81.0 %" in line]
    assert not [line for line in lines if LABELLED in line]
    marked = metrics | {"scored": scored | {"gate": "label"}}
    assert [line for line in table_notes.of_metrics(marked) if line == f"warning: {LABELLED}"]
    counts = {"distinct_captions": 1, "repetition": {"share": 1.0, "without_words": 0}, "total": {}}
    assert metric_names.summary(marked | counts)["gate"] == "label"
    assert "gate" not in metric_names.summary(metrics | counts)
