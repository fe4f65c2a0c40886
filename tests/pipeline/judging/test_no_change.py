"""Captions that report no change, and captions with the same words that report a change (no_change.txt)."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.datasets.schema import Pair
from pipeline.judging.no_change import says_no_change, sentences_of
from pipeline.tabletop import words
from tests.tabletop_pairs import draw_pairs

LINES = Path(__file__).with_name("no_change.txt").read_text(encoding="utf-8").strip().split("\n")
TEXTS = Path(__file__).parents[1] / "free_english/texts.jsonl"
CAPTIONS = [(line[2:], line[0] == "+") for line in LINES]


@pytest.mark.parametrize(("caption", "reports_none"), CAPTIONS, ids=range(len(CAPTIONS)))
def test_a_caption_reports_no_change_or_a_change(caption: str, reports_none: bool) -> None:
    for text in (caption, caption.upper(), f"  {caption}\n", caption.replace("'", "’")):
        assert says_no_change(text) is reports_none, text


def test_the_captions_of_tabletop_are_told_apart() -> None:
    assert all(map(says_no_change, words.NO_CHANGE))
    for pair in draw_pairs(seed=3, count=100):
        assert all(says_no_change(caption) is not pair.changed for caption in pair.captions), pair.captions


def test_true_texts_of_free_english_are_told_apart() -> None:
    texts = [json.loads(line) for line in TEXTS.read_text(encoding="utf-8").strip().split("\n")]
    true = [(each["text"], each["scene"].startswith("none")) for each in texts if each["correct"]]
    wrong = [text for text, unchanged in true if says_no_change(text) is not unchanged]
    assert len(true) > 2000
    assert len(wrong) <= 0.005 * len(true), wrong


@given(st.lists(st.sampled_from(CAPTIONS), min_size=1, max_size=3))
def test_a_change_in_any_sentence_is_a_change(chosen: list[tuple[str, bool]]) -> None:
    text = ". ".join(["The ball moved", *(caption for caption, _ in chosen)])
    assert not says_no_change(text)


def test_sentences_of_a_dataset_report_no_change_in_its_language() -> None:
    captions = {"none": ("Rien n'a changé.", "没有变化。"), "drop": ("la balle a disparu",), None: ("x",)}
    pairs = [Pair(str(kind), "0", "test", "a", "b", own, kind) for kind, own in captions.items()]
    own = sentences_of(pairs)
    assert says_no_change("rien  n'a changé", own)
    assert says_no_change("没有变化", own)
    assert not any(says_no_change(text, own) for text in ("la balle a disparu", "x", "rien"))
    assert not says_no_change("没有变化")


WORDS = ["no", "not", "nothing", "none", "been", "be", "at", "all", "has", "the", "same", "any", "change"]
WORDS += ["unchanged", "only", "other", "and", "or", ",", "but", "as"]


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4))
def test_long_captions_are_read_in_short_time(repeated: list[str]) -> None:
    begin = time.perf_counter()
    says_no_change(" ".join(repeated * 100))
    assert time.perf_counter() - begin < 5
