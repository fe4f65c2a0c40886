"""Counts of a dataset, the cards with the published counts, and the differences."""

from pathlib import Path

import pytest
import yaml

from pipeline.datasets import cards, readers
from pipeline.datasets.schema import Pair
from pipeline.io.errors import InputError
from tests import project_params
from tests.synthetic_real import MAKERS

ROOT = Path(__file__).parents[3]
CARDS = ROOT / "data/cards"
PAIRS = [
    Pair("p0", "s", "train", "a", "b", ("the car left .", "Car , gone"), "add"),
    Pair("p1", "s", "train", "a", "c", ("the van left",), "none"),
    Pair("p2", "t", "val", "d", "e", ("a man walked in",)),
    Pair("p3", "u", "test", "a", "f", ("x", "y", "z"), "add"),
    Pair("p4", "u", "test", "g", "f", ("x",)),
]


def test_a_count_by_hand():
    assert cards.count(PAIRS) == {
        "train": {"pairs": 2, "scenes": 1, "images": 3, "captions": 3},
        "val": {"pairs": 1, "scenes": 1, "images": 2, "captions": 1},
        "test": {"pairs": 2, "scenes": 1, "images": 3, "captions": 4},
        "types": {"add": 2, "none": 1, "unknown": 2},
        "pairs": 5,
        "images": 7,
        "captions": 8,
        "shared_images": 1,
        "references": {"fewest": 1, "most": 3},
        "vocabulary": 4 + len({"the", "car", "left", ",", "gone", "van"}),
        "longest": 5,
        "mean_words": round((4 + 3 + 3 + 4 + 4) / 8, 2),
    }


def test_nothing_to_count():
    counted = cards.count([])
    assert (counted["pairs"], counted["longest"], counted["mean_words"]) == (0, 2, 0)


def test_differences_are_words():
    expected = {
        "train": {"pairs": 8566, "captions": 3},
        "val": {"pairs": 3, "left_out": {"pairs": 2, "captions": 1}},
        "test": {"pairs": 4, "left_out": {"pairs": 1}},
        "types": {"add": 2, "move": 1},
        "images": 7,
        "vocabulary": 76,
        "references": {"fewest": 2},
    }
    assert cards.differences(cards.count(PAIRS), expected) == [
        "train: 2 pairs, published 8,566",
        "test: 2 pairs, published 4 (1 blank)",
        "types: 0 move, published 1",
        "total: 10 vocabulary, published 76",
        "references: 1 fewest, published 2",
    ]
    assert cards.differences(cards.count(PAIRS), {}) == []


@pytest.mark.parametrize("reader", MAKERS)
def test_every_reader_has_a_card_and_settings(reader):
    card = cards.load(CARDS / f"{reader}.yaml")
    settings = project_params.settings().of(reader)
    assert settings.prepare.reader == reader
    protocol = readers.protocol_of(reader, settings.prepare.protocol)
    assert card.counts(protocol)["train"]["pairs"] > 0
    assert set(card.expected) == set(getattr(readers.READERS[reader], "PROTOCOLS", (cards.DEFAULT,)))
    for name in readers.READERS[reader].FILES:
        assert name in card.files


SPLITS = {key: {"pairs": 1} for key in ("train", "val", "test")}
CARD = {
    "name": "n",
    "citation": "c",
    "source": "s",
    "files": {"a.json": "all"},
    "expected": {"default": SPLITS},
}


def load(folder, **changes):
    card = {key: value for key, value in (CARD | changes).items() if value is not None}
    (folder / "card.yaml").write_text(yaml.safe_dump(card))
    return cards.load(folder / "card.yaml")


def test_a_card_without_counts(tmp_path):
    assert load(tmp_path, expected=None).counts(None) is None


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"name": None}, "the key name is missing"),
        ({"colour": 1}, "unknown key colour"),
        ({"files": {}}, "files: "),
        ({"expected": {"default": {"train": {"pairs": 1}}}}, "the key expected.default.val is missing"),
        ({"expected": {"default": SPLITS | {"val": {"pairs": -1}}}}, "val.pairs: "),
        ({"expected": {"x": SPLITS | {"types": {"colour": 1}}}}, "expected.x.types.colour: "),
    ],
)
def test_wrong_cards_are_refused_by_key(tmp_path, changes, named):
    with pytest.raises(InputError, match=rf"card\.yaml: .*{named}"):
        load(tmp_path, **changes)


def test_a_missing_card_is_named(tmp_path):
    with pytest.raises(InputError, match=r"card\.yaml is missing; restore it with git"):
        cards.load(tmp_path / "card.yaml")
