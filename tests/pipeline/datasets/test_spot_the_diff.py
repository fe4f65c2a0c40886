"""The Spot-the-Diff reader: three protocols of the same files, by hand and on the real ones."""

import json
from pathlib import Path

import pytest

from pipeline.datasets import cards, readers
from pipeline.datasets.schema import of_split
from pipeline.text import vocabularies
from tests.synthetic_real import write_json

ROOT = Path(__file__).parents[3]
SHARED = ROOT.parent / "shared/data/spot-the-diff"
TRAIN = [
    {"img_id": "7", "sentences": ["a car is gone", "a man came "]},
    {"img_id": "9", "sentences": ["", " "]},
    {"img_id": "8", "sentences": ["w " * 50]},
    {"img_id": "7", "sentences": ["", "no difference"]},
    {"img_id": "8", "sentences": ["x " * 30]},
    {"img_id": "9", "sentences": [""]},
    {"img_id": "7", "sentences": [""]},
]
MERGED = [
    ("7", "7", ("a car is gone", "a man came ", "no difference")),
    ("8", "8", ("w " * 50, "x " * 30)),
]
ITEMS = {
    None: MERGED,  # the default
    "merged": MERGED,
    # ids also count the entries without a sentence
    "per_entry": [
        ("7-1", "7", ("a car is gone", "a man came ")),
        ("8-1", "8", ("w " * 50,)),
        ("7-2", "7", ("no difference",)),
        ("8-2", "8", ("x " * 30,)),
    ],
    "multi": [
        ("7", "7", ("a car is gone a man came no difference",)),
        ("8", "8", (" ".join(["w"] * 50 + ["x"] * 10),)),
    ],
}


@pytest.mark.parametrize("protocol", ITEMS)
def test_the_items_of_a_protocol(tmp_path, protocol):
    write_json(tmp_path / "annotations/train.json", TRAIN)
    for split in ("val", "test"):
        write_json(tmp_path / f"annotations/{split}.json", [{"img_id": split, "sentences": ["a"]}])
    pairs = of_split(readers.read("spot_the_diff", tmp_path, protocol), "train")
    assert [(pair.pair_id, pair.scene_id, pair.captions) for pair in pairs] == ITEMS[protocol]
    assert (pairs[0].before, pairs[0].after) == ("resized_images/7.png", "resized_images/7_2.png")
    assert pairs[0].change_type is None


REAL = pytest.mark.skipif(not SHARED.exists(), reason="Spot-the-Diff's own annotation files are not here")


@REAL
@pytest.mark.parametrize(
    ("protocol", "pairs", "captions", "longest"),
    [
        ("merged", [8_529, 1_489, 1_263], [17_623, 3_304, 2_100], 55),
        ("per_entry", [9_477, 1_628, 1_397], [17_623, 3_304, 2_100], 55),
        ("multi", [8_529, 1_489, 1_263], [8_529, 1_489, 1_263], 62),
    ],
)
def test_the_real_files_have_the_published_counts(protocol, pairs, captions, longest):
    """The published counts include items without a sentence, and the card has their number."""
    found = readers.read("spot_the_diff", SHARED, protocol)
    counted = cards.count(found)
    assert [counted[split]["pairs"] for split in ("train", "val", "test")] == pairs
    assert [counted[split]["captions"] for split in ("train", "val", "test")] == captions
    assert counted["longest"] == longest
    card = cards.load(ROOT / "data/cards/spot_the_diff.yaml")
    assert cards.differences(counted, card.counts(protocol)) == []
    assert len({pair.pair_id for pair in found}) == len(found)


@REAL
def test_the_card_has_the_counts_of_the_real_files():
    expected = cards.load(ROOT / "data/cards/spot_the_diff.yaml").expected
    for split in ("train", "val", "test"):
        entries = json.loads((SHARED / f"annotations/{split}.json").read_text())
        sentences = [sentence for entry in entries for sentence in entry["sentences"]]
        merged = getattr(expected["merged"], split)
        assert len(entries) == getattr(expected["per_entry"], split).pairs
        assert len({entry["img_id"] for entry in entries}) == merged.pairs
        assert len(sentences) == merged.captions
        assert sum(not sentence.strip() for sentence in sentences) == merged.left_out["captions"]


@REAL
def test_the_real_vocabulary():
    pairs = of_split(readers.read("spot_the_diff", SHARED), "train")
    captions = [caption for pair in pairs for caption in pair.captions]
    vocabulary = vocabularies.build(captions, min_count=1, lower_case=True)
    assert (len(vocabulary), vocabulary.longest) == (2_058, 55)
