"""The LEVIR-CC reader: one file in the form of COCO, with a flag for change."""

import json

import pytest

from pipeline.datasets import readers
from pipeline.datasets.schema import Pair
from pipeline.errors import InputError
from tests.synthetic_real import make_levir_cc


@pytest.fixture
def root(tmp_path):
    return make_levir_cc(tmp_path / "raw")


def edit(root, **changes):
    """Change keys of the first image."""
    path = root / "LevirCCcaptions.json"
    table = json.loads(path.read_text())
    table["images"][0] |= changes
    path.write_text(json.dumps(table))


def test_pairs_and_their_flags(root):
    pairs = readers.read("levir_cc", root)
    name = "train_000001.png"
    captions = tuple(f" nothing has changed {k} ." for k in range(5))
    images = [f"images/train/{side}/{name}" for side in "AB"]
    assert pairs[1] == Pair(name, name, "train", *images, captions, "none")
    assert [pair.change_type for pair in pairs[:3]] == ["change", "none", "change"]
    assert pairs[-1].before == "images/test/A/test_000019.png"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"filename": "train_000001.png"}, "entry 1: train_000001.png stands there twice"),
        ({"filename": "../a.png"}, "entry 0: filename '../a.png' leads out of the dataset's folder"),
        ({"split": "dev"}, "entry 0: train_000000.png: split is 'dev', not train, val or test"),
        ({"split": ["train"]}, "split is .'train'., not train, val or test"),
        ({"changeflag": 2}, "changeflag is 2, not 0 or 1"),
        ({"changeflag": True}, "changeflag is True, not 0 or 1"),
        ({"changeflag": None}, "changeflag is None, not 0 or 1"),
        ({"sentences": [{"raw": ""}]}, "train_000000.png: has no caption"),
        ({"sentences": [{"tokens": ["a"]}]}, "is not a list of sentences"),
        ({"sentences": 3}, "3 is not a list of sentences"),
        ({"sentences": [{"raw": 3}]}, ".3. is not a list of sentences"),
    ],
)
def test_wrong_entries_are_refused(root, changes, said):
    edit(root, **changes)
    with pytest.raises(InputError, match=rf"LevirCCcaptions\.json(?s:.)*{said}"):
        readers.read("levir_cc", root)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ([], "must map"),
        ({}, "'images' must be a list of objects"),
        ({"images": [{}]}, "entry 0 has no filename, split, changeflag, sentences"),
    ],
)
def test_files_of_another_form_are_refused(root, table, said):
    (root / "LevirCCcaptions.json").write_text(json.dumps(table))
    with pytest.raises(InputError, match=rf"LevirCCcaptions\.json.*(?s:.)*{said}"):
        readers.read("levir_cc", root)


def test_every_split_needs_pairs(root):
    path = root / "LevirCCcaptions.json"
    table = json.loads(path.read_text())
    table["images"] = [image for image in table["images"] if image["split"] != "val"]
    path.write_text(json.dumps(table))
    with pytest.raises(InputError, match="has no pair in 'val'"):
        readers.read("levir_cc", root)
