"""The Image Editing Request reader, by hand and on the real files."""

from pathlib import Path

import pytest

from pipeline.datasets import cards, counts, readers
from pipeline.datasets.schema import Pair, of_split
from pipeline.io.errors import InputError
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


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"uid": "Reddit_1"}, "valid.json: uid Reddit_1 stands in train.json already"),
        ({"uid": 3}, "entry 0: uid: .*, not 3"),
        ({"uid": " "}, "entry 0: uid: .*, not ' '"),
        ({"img0": "../a.jpg"}, "entry 0: img0: must be a file in the dataset's folder, not '../a.jpg'"),
        ({"img1": None}, "entry 0: img1: .*, not None"),
        ({"sents": ["", " "]}, "entry 0: sents: must say something"),
        ({"sents": [3]}, "entry 0: sents.0: Input should be a valid string"),
    ],
)
def test_wrong_entries_are_refused(root, changes, said):
    write_json(root / "valid.json", [entry(3, **changes)])
    with pytest.raises(InputError, match=said):
        readers.read("image_editing_request", root)


def test_every_split_needs_entries(root):
    write_json(root / "valid.json", [])
    with pytest.raises(InputError, match=r"valid\.json has no pair in 'val'"):
        readers.read("image_editing_request", root)


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
