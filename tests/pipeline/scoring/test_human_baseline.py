"""One annotator against the others, next to the best constant caption."""

import json

import pytest

from pipeline.datasets.schema import Pair, write_pairs
from pipeline.scoring import human_baseline, table_notes
from pipeline.scoring.human_baseline import annotators, one_against_others
from tests.running import refuse, succeed


def pair(name, images, *captions, split="test"):
    return Pair(name, images, split, f"{images}.png", f"{images}_2.png", captions)


MERGED = [pair("1", "1", "a car left", "the car is gone", "?"), pair("2", "2", "no change", " ")]
ENTRIES = [
    pair("1-1", "1", "a car left", "a man came"),
    pair("1-2", "1", "the car is gone"),
    pair("2-1", "2", "no change", "nothing"),
    pair("3-1", "3", "x"),
    pair("3-2", "3", "?"),
]


def test_each_reference_is_an_annotators():
    assert annotators(MERGED) == {"1": [("a car left",), ("the car is gone",)]}
    captions, references = one_against_others(MERGED)
    assert {captions["1"], *references["1"]} == {"a car left", "the car is gone"}


def test_pairs_of_the_same_images_are_annotators():
    assert annotators(ENTRIES) == {"1-1": [("a car left", "a man came"), ("the car is gone",)]}
    captions, references = one_against_others(ENTRIES)
    own = captions["1-1"]
    assert references["1-1"] == (["a car left", "a man came"] if "gone" in own else ["the car is gone"])


@pytest.fixture
def folder(tmp_path, without_java, monkeypatch):
    many = [
        pair(str(n), str(n), f"the car {n} is gone", f"a car {n} has left", "no change") for n in range(20)
    ]
    write_pairs(tmp_path / "pairs.jsonl", many)
    write_pairs(tmp_path / "single.jsonl", [pair("1", "1", "a car left")])
    return tmp_path


def test_the_scores_are_printed_and_written(folder, capsys):
    succeed(folder, "annotators --pairs pairs.jsonl --tokeniser none --out human.json")
    said = capsys.readouterr().out
    assert "20 pairs with several references" in said
    assert "best constant caption: “no change”" in said
    written = json.loads((folder / "human.json").read_text())
    assert (written["dataset"], written["pairs"]) == ("pairs", 20)
    assert written["constant"]["caption"] == "no change"
    assert "lead" not in written["constant"]
    (line,) = table_notes.of_constants({"human": written})
    assert line.startswith("one reference against the other references of its pair, 20 pairs: BLEU-1 ")
    assert "“no change”" in line


def test_pairs_with_one_reference_are_refused(folder):
    assert human_baseline.corpora([pair("1", "1", "a car left")]) == []
    refuse(folder, "annotators --pairs single.jsonl", "single has no pair with several references")
