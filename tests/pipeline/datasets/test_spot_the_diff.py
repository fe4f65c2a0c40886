"""The Spot-the-Diff reader: three protocols of the same files, by hand and on the real ones."""

import json
from pathlib import Path

import pytest

from pipeline.datasets import cards, counts, readers
from pipeline.datasets.schema import of_split
from pipeline.io.errors import InputError
from pipeline.text import vocabularies
from tests.synthetic_real import make_spot_the_diff, write_json

SHARED = Path(__file__).parents[4] / "shared" / "data" / "spot-the-diff"
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


def test_the_made_up_dataset_has_a_pair_without_a_sentence(tmp_path):
    pairs = readers.read("spot_the_diff", make_spot_the_diff(tmp_path / "raw"))
    assert "1" not in {pair.pair_id for pair in pairs}


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
def test_real_counts_are_the_published_ones(protocol, pairs, captions, longest):
    """But for what holds no sentence, which the card counts."""
    found = readers.read("spot_the_diff", SHARED, protocol)
    counted = counts.count(found)
    print(protocol, counted)
    assert [counted[split]["pairs"] for split in ("train", "val", "test")] == pairs
    assert [counted[split]["captions"] for split in ("train", "val", "test")] == captions
    assert counted["longest"] == longest
    expected = cards.load(Path(__file__).parents[3] / "data/cards/spot_the_diff.yaml").counts(protocol)
    assert counts.differences(counted, expected) == []
    ids = [pair.pair_id for pair in found]
    assert len(ids) == len(set(ids))


@REAL
def test_what_the_real_files_hold():
    """The card's published counts, straight from the files."""
    expected = cards.load(Path(__file__).parents[3] / "data/cards/spot_the_diff.yaml").expected
    for split in ("train", "val", "test"):
        entries = json.loads((SHARED / f"annotations/{split}.json").read_text())
        sentences = [sentence for entry in entries for sentence in entry["sentences"]]
        merged = getattr(expected["merged"], split)
        assert len(entries) == getattr(expected["per_entry"], split).pairs
        assert len({entry["img_id"] for entry in entries}) == merged.pairs
        assert len(sentences) == merged.captions
        assert sum(not sentence.strip() for sentence in sentences) == merged.left_out.captions


@REAL
def test_the_real_vocabulary():
    pairs = of_split(readers.read("spot_the_diff", SHARED), "train")
    captions = [caption for pair in pairs for caption in pair.captions]
    vocabulary = vocabularies.build(captions, min_count=1, lower_case=True)
    print(f"{len(vocabulary)} words, longest caption {vocabulary.longest}")
    assert (len(vocabulary), vocabulary.longest) == (2_058, 55)
