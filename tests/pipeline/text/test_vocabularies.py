"""Tokens, vocabularies and their files."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.io.errors import InputError
from pipeline.text import vocabularies

CAPTIONS = ["The big cube, changed its location .", "nothing has changed", "is there a cube; or not?"]


def test_tokenise_by_the_rules():
    assert vocabularies.tokenise("A cube, and; a ball. is it?", lower_case=False) == [
        "A", "cube", ",", "and", ";", "a", "ball", "is", "it",
    ]  # fmt: skip
    assert vocabularies.tokenise("A  Cube", lower_case=True) == ["a", "cube"]


@given(
    st.lists(st.lists(st.sampled_from(["cube", "ball", "red", "moved", ",", "café"]), min_size=1), min_size=1)
)
def test_round_trip(sentences):
    captions = [" ".join(words) for words in sentences]
    vocabulary = vocabularies.build(captions, min_count=1, lower_case=True)
    for caption in captions:
        ids = vocabulary.encode(caption)
        assert ids[0] == vocabularies.START
        assert ids[-1] == vocabularies.END
        assert vocabulary.decode(ids) == caption


def test_words_are_counted_sorted_and_cut():
    vocabulary = vocabularies.build(["a b c d e"], min_count=1, lower_case=True, max_tokens=4)
    assert vocabulary.words == (*vocabularies.SPECIAL, *"abcde")
    assert vocabulary.longest == 4
    assert vocabulary.encode("a b c d e") == [vocabularies.START, 4, 5, vocabularies.END]
    rare = vocabularies.build(["a cube", "a ball"], min_count=2, lower_case=True, max_tokens=9)
    assert (rare.words[4:], rare.longest) == (("a",), 4)
    assert rare.encode("a cube") == [vocabularies.START, 4, vocabularies.UNK, vocabularies.END]
    assert vocabularies.pad([[2, 4, 3], [2, 3]]).tolist() == [[2, 4, 3], [2, 3, 0]]


@pytest.mark.parametrize(("marks", "words"), [(2, 3), (3, 2)])
def test_a_caption_has_room_for_its_special_tokens(marks, words):
    """IDC-PCL's third special token, [CLS], is not one of the ids."""
    vocabulary = vocabularies.build(["a b c d e"], min_count=1, lower_case=True, max_tokens=5)
    assert len(replace(vocabulary, marks=marks).encode("a b c d e")) == 2 + words


def test_the_text_of_a_special_token_is_an_unknown_word():
    vocabulary = vocabularies.build(["a <END> b"], min_count=1, lower_case=False)
    assert vocabulary.encode("a <END> b") == [vocabularies.START, 4, vocabularies.UNK, 5, vocabularies.END]


def test_decoding_ends_at_the_end_mark():
    vocabulary = vocabularies.build(["a b"], min_count=1, lower_case=True)
    tokens = [vocabularies.START, 4, vocabularies.NULL, 5, vocabularies.END, 4]
    assert vocabulary.decode(tokens) == "a b"
    assert vocabularies.word_positions(tokens) == [1, 3]
    assert vocabularies.word_positions([4, 5]) == [0, 1]
    # special tokens of IDC-PCL follow the vocabulary
    assert vocabulary.decode([len(vocabulary), 4, len(vocabulary) + 1]) == "<MASK> a <CLS>"


def test_save_and_load(tmp_path):
    vocabulary = vocabularies.build(CAPTIONS, min_count=1, lower_case=True)
    vocabularies.save(tmp_path / "v.json", vocabulary, Counter({"cube": 2}))
    assert vocabularies.load(tmp_path / "v.json") == vocabulary
    assert json.loads((tmp_path / "v.json").read_text())["counts"] == {"cube": 2}


def test_a_fixed_vocabulary_keeps_its_ids(tmp_path):
    ids = {"<NULL>": 0, "<UNK>": 1, "<START>": 2, "<END>": 3, "zebra": 4, "cube": 5}
    (tmp_path / "given.json").write_text(json.dumps(ids))
    vocabulary = vocabularies.fixed(tmp_path / "given.json", ["a cube"], lower_case=True)
    assert vocabulary.ids == ids
    assert vocabulary.longest == 4


@pytest.mark.parametrize(
    "content",
    ['{"a": 0}', "[1]", '{"<NULL>": 0, "<UNK>": 1, "<START>": 2, "<END>": 3, "a": 5}', "{", '{"a": "0"}'],
)
def test_a_bad_fixed_vocabulary_is_refused_by_name(tmp_path, content):
    (tmp_path / "given.json").write_text(content)
    with pytest.raises(InputError, match=r"given\.json"):
        vocabularies.fixed(tmp_path / "given.json", [], lower_case=True)
