"""The LEVIR-CC reader: one file in the form of COCO, with a flag for change."""

import pytest

from pipeline.datasets import readers
from pipeline.datasets.schema import Pair
from tests.synthetic_real import make_levir_cc


@pytest.fixture
def root(tmp_path):
    return make_levir_cc(tmp_path / "raw")


def test_pairs_and_their_flags(root):
    pairs = readers.read("levir_cc", root)
    name = "train_000001.png"
    captions = tuple(f" nothing has changed {k} ." for k in range(5))
    images = [f"images/train/{side}/{name}" for side in "AB"]
    assert pairs[1] == Pair(name, name, "train", *images, captions, "none")
    assert [pair.change_type for pair in pairs[:3]] == ["change", "none", "change"]
    assert pairs[-1].before == "images/test/A/test_000019.png"
