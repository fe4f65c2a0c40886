"""The LEVIR-CC reader: one file in the form of COCO, with a flag for change."""

import pytest

from pipeline.datasets import readers
from pipeline.datasets.schema import Pair
from pipeline.io.errors import InputError
from tests.synthetic_real import edit_json, make_levir_cc


@pytest.fixture
def root(tmp_path):
    return make_levir_cc(tmp_path / "raw")


def edit(root, **changes):
    """Change keys of the first image."""
    edit_json(root / "LevirCCcaptions.json", lambda table: table["images"][0].update(changes))


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
        ({"filename": "train_000001.png"}, "train_000001.png stands there twice"),
        (
            {"filename": "../a.png"},
            "images.0.filename: must be a file in the dataset's folder",
        ),
        ({"split": "dev"}, "images.0.split: Input should be 'train', 'val' or 'test', not 'dev'"),
        ({"changeflag": 2}, "changeflag: Input should be less than or equal to 1, not 2"),
        ({"changeflag": True}, "changeflag: .*, not True"),
        ({"sentences": [{"raw": ""}]}, "images.0.sentences: must say something"),
        ({"sentences": [{"tokens": ["a"]}]}, "sentences.0.raw is missing"),
    ],
)
def test_wrong_entries_are_refused(root, changes, said):
    edit(root, **changes)
    with pytest.raises(InputError, match=rf"LevirCCcaptions\.json(?s:.)*{said}"):
        readers.read("levir_cc", root)


def test_every_split_needs_pairs(root):
    edit_json(
        root / "LevirCCcaptions.json",
        lambda table: {"images": [image for image in table["images"] if image["split"] != "val"]},
    )
    with pytest.raises(InputError, match="has no pair in 'val'"):
        readers.read("levir_cc", root)
