"""Hashes of records depend on values, not on the order of keys; an artefact names its files by hashes."""

import json

import pytest

from pipeline.io.content_hashes import file_hash, of_json, read, verify, with_hashes
from pipeline.io.errors import InputError


def test_equal_records_have_equal_hashes_and_others_do_not():
    record = {"a": 1, "b": [1, 2]}
    assert of_json(record) == of_json({"b": [1, 2], "a": 1})
    others = [{"a": 2, "b": [1, 2]}, {"a": 1, "b": [2, 1]}, {"a": 1}]
    assert of_json(record) not in map(of_json, others)
    assert len(of_json(record)) == 64


@pytest.fixture
def artefact(tmp_path):
    for name in ("pairs", "weights"):
        (tmp_path / name).write_text(name)
    hashes = {name: file_hash(tmp_path / name) for name in ("pairs", "weights")} | {"run": "a/b/1"}
    (tmp_path / "made.json").write_text(json.dumps(with_hashes({"score": 1}, hashes)))
    return tmp_path / "made.json"


def verified(artefact, **names):
    run = names.pop("run", None)
    files = {role: name and artefact.with_name(name) for role, name in names.items()}
    verify(artefact, read(artefact, "make it"), "make it again", run=run, **files)


def test_the_files_of_an_artefact_are_verified(artefact):
    verified(artefact, run="a/b/1", pairs="pairs", weights=None, other="weights")
    verified(artefact, pairs=None)


@pytest.mark.parametrize(
    ("names", "named"),
    [
        ({"run": "a/b/2"}, ("made.json", "a/b/1", "a/b/2")),
        ({"pairs": "weights"}, ("weights", "made.json", "hashes.pairs")),
        ({"pairs": "pairs", "weights": "pairs"}, ("pairs", "made.json", "hashes.weights")),
        ({"pairs": "absent"}, ("absent",)),
    ],
)
def test_another_file_or_run_is_named(artefact, names, named):
    with pytest.raises(InputError) as refused:
        verified(artefact, **names)
    assert all(text in str(refused.value) for text in named)


@pytest.mark.parametrize("edit", [{"score": 2}, {"hashes": {}}, {"hashes": None}, {"hashes": {"pairs": 1}}])
def test_an_edited_artefact_is_named(artefact, edit):
    artefact.write_text(json.dumps(json.loads(artefact.read_text()) | edit))
    with pytest.raises(InputError) as refused:
        verified(artefact)
    assert "made.json" in str(refused.value)
    assert "hashes" in str(refused.value)
