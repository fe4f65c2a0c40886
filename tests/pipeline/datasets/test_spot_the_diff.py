"""The Spot-the-Diff reader: three protocols of the same files, by hand and on the real ones."""

import pytest

from pipeline.datasets import readers
from pipeline.datasets.schema import of_split
from pipeline.io.errors import InputError
from tests.synthetic_real import write_json

TRAIN = [
    {"img_id": "7", "sentences": ["a car is gone", "a man came "]},
    {"img_id": "9", "sentences": ["", " "]},
    {"img_id": "8", "sentences": ["w " * 50]},
    {"img_id": "7", "sentences": ["", "no difference"]},
    {"img_id": "8", "sentences": ["x " * 30]},
    {"img_id": "9", "sentences": [""]},
    {"img_id": "7", "sentences": [""]},
]


@pytest.fixture
def root(tmp_path):
    write_json(tmp_path / "annotations/train.json", TRAIN)
    write_json(tmp_path / "annotations/val.json", [{"img_id": "3", "sentences": ["a"]}])
    write_json(tmp_path / "annotations/test.json", [{"img_id": "4", "sentences": ["b"]}])
    return tmp_path


def train(root, protocol):
    pairs = of_split(readers.read("spot_the_diff", root, protocol), "train")
    return [(pair.pair_id, pair.scene_id, pair.captions) for pair in pairs]


def test_merged_is_the_default(root):
    assert train(root, None) == train(root, "merged")
    assert train(root, "merged") == [
        ("7", "7", ("a car is gone", "a man came ", "no difference")),
        ("8", "8", ("w " * 50, "x " * 30)),
    ]
    first = readers.read("spot_the_diff", root)[0]
    assert (first.before, first.after) == ("resized_images/7.png", "resized_images/7_2.png")
    assert first.change_type is first.changed is None


def test_per_entry(root):
    """Ids count the entries of a pair, those without a sentence too."""
    assert train(root, "per_entry") == [
        ("7-1", "7", ("a car is gone", "a man came ")),
        ("8-1", "8", ("w " * 50,)),
        ("7-2", "7", ("no difference",)),
        ("8-2", "8", ("x " * 30,)),
    ]


def test_multi_joins_and_cuts_at_60_words(root):
    assert train(root, "multi") == [
        ("7", "7", ("a car is gone a man came no difference",)),
        ("8", "8", (" ".join(["w"] * 50 + ["x"] * 10),)),
    ]


def test_a_single_change_cannot_be_had(root):
    said = "protocol 'single_change' of spot_the_diff: there is merged, per_entry, multi; .* is not public"
    with pytest.raises(InputError, match=said):
        readers.read("spot_the_diff", root, "single_change")
