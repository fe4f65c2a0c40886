"""Hashes of records depend on their values, and not on the order of their keys."""

from pipeline.io.content_hashes import of_json


def test_equal_records_have_equal_hashes_and_others_do_not():
    record = {"a": 1, "b": [1, 2]}
    assert of_json(record) == of_json({"b": [1, 2], "a": 1})
    others = [{"a": 2, "b": [1, 2]}, {"a": 1, "b": [2, 1]}, {"a": 1}]
    assert of_json(record) not in map(of_json, others)
    assert len(of_json(record)) == 64
