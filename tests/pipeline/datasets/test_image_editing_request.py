"""The Image Editing Request reader, by hand and on the real files."""

from pathlib import Path

import pytest

from pipeline.datasets import cards, counts, readers
from pipeline.datasets.schema import Pair, of_split
from pipeline.text import vocabularies
from tests.synthetic_real import write_json

SHARED = Path(__file__).parents[4] / "shared" / "data" / "image-editing-request"


def entry(number, **changes):
    own = {
        "img0": f"a{number}.jpg",
        "img1": f"b{number}.gif",
        "sents": ["Make it red "],
        "uid": f"Reddit_{number}",
    }
    return own | changes


@pytest.fixture
def root(tmp_path):
    write_json(tmp_path / "train.json", [entry(0), entry(1, img0="a0.jpg", sents=["", "x"]), entry(2)])
    write_json(tmp_path / "valid.json", [entry(3, img0="a0.jpg")])
    write_json(tmp_path / "test.json", [entry(4)])
    return tmp_path


def test_an_entry_is_a_pair(root):
    pairs = readers.read("image_editing_request", root)
    assert pairs[0] == Pair(
        "Reddit_0", "Reddit_0", "train", "images/a0.jpg", "images/b0.gif", ("Make it red ",)
    )
    assert pairs[1].captions == ("x",)
    assert [pair.split for pair in pairs] == ["train", "train", "train", "val", "test"]
    # requests of one picture are one scene, but a scene does not reach into another split
    assert [pair.scene_id for pair in pairs] == ["Reddit_0", "Reddit_0", "Reddit_2", "Reddit_3", "Reddit_4"]


@pytest.mark.skipif(not SHARED.exists(), reason="Image Editing Request's own annotation files are not here")
def test_real_counts_are_the_published_ones():
    pairs = readers.read("image_editing_request", SHARED)
    counted = counts.count(pairs)
    print(counted)
    assert [counted[split]["pairs"] for split in ("train", "val", "test")] == [3_061, 383, 495]
    assert (counted["captions"], counted["images"], counted["shared_images"]) == (5_695, 5_883, 161)
    card = cards.load(Path(__file__).parents[3] / "data/cards/image_editing_request.yaml")
    assert counts.differences(counted, card.counts(None)) == []
    captions = [caption for pair in of_split(pairs, "train") for caption in pair.captions]
    vocabulary = vocabularies.build(captions, min_count=3, lower_case=True)
    print(f"{len(vocabulary)} words, longest caption {vocabulary.longest}")
    assert (len(vocabulary), vocabulary.longest) == (681, 60)
