"""The tokenizer: no sentence may ever move to another's place."""

from importlib.metadata import distribution

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pycocoevalcap.tokenizer import ptbtokenizer

from pipeline.errors import InputError
from pipeline.scoring import tokenizer
from pipeline.scoring.tokenizer import PUNCTUATION, one_line, plain, tokenize
from pipeline.tabletop import words

LINE_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
text = st.one_of(st.text(max_size=40), st.text(st.sampled_from(LINE_BREAKS + " \0\t'\".-|<*aB"), max_size=40))


# a JVM starts in 0.3 s: few examples, each of many sentences
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(text, min_size=50, max_size=300))
@example([f"a{mark}b{mark}" for mark in LINE_BREAKS])
def test_every_sentence_keeps_its_place(sentences: list[str]) -> None:
    marked = tokenize([f"zq{number}z {sentence}" for number, sentence in enumerate(sentences)])
    assert len(marked) == len(sentences)
    for number, tokens in enumerate(marked):
        assert tokens.split(" ")[0] == f"zq{number}z"
        assert not PUNCTUATION & set(tokens.split(" "))


def test_what_it_makes_of_a_sentence() -> None:
    assert tokenize(["The car's gone: it isn't there, ({really})...", "", " \r\n", "?", "é 5"]) == [
        "the car 's gone it is n't there really",
        "",
        "",
        "",
        "é 5",
    ]


def test_no_sentence_is_read_by_the_next_one() -> None:
    ends = ["next to b.", "Plan B.", "in the U.S.", "cars etc.", "b", "at 5 p.m.", "b. .", "(b.)", "a.b."]
    following = ("", "The car left.", "the car", "(It", "5", '"')
    sentences = [text for end in ends for other in following for text in (end, other)]
    found = tokenizer._tokenized([*sentences, ends[0]], 60)
    assert found.pop() == found[0]
    assert [len({*found[at : at + 12 : 2]}) for at in range(0, len(found), 12)] == [1] * len(ends)
    assert found[::12][:4] == ["next to b", "plan b", "in the u.s.", "cars etc."]


def test_no_sentences_need_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "nowhere")
    assert tokenize([]) == []


def test_equal_sentences_are_tokenized_once_and_all_answered() -> None:
    assert tokenize(["A car.", "c", "a  car .", "A car."]) == ["a car", "c", "a car", "a car"]


def test_half_a_surrogate_pair_is_survived() -> None:
    assert len(tokenize(["a \ud800 b", "c"])) == 2


def test_one_line_leaves_no_line_break() -> None:
    assert one_line(f" a{LINE_BREAKS}b\u00a0c ") == "a b c"


def test_the_punctuation_is_the_librarys() -> None:
    assert frozenset(word.lower() for word in ptbtokenizer.PUNCTUATIONS) == PUNCTUATION


def test_without_the_library_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer, "distribution", lambda name: distribution("no such " + name))
    with pytest.raises(
        InputError, match=r"^no PTB tokenizer: pycocoevalcap is not installed; `pip install` it$"
    ):
        tokenize(["a car"])


def test_all_of_tabletops_words_are_plain() -> None:
    """Together, as what stands beside a word decides, and each as a sentence's first and last."""
    kinds = (words.WORDS, words.VERBS)
    said = [
        *words.ANY_SHAPE,
        *words.NO_CHANGE,
        *words.COLORS,
        *(w for kind in kinds for v in kind.values() for w in v),
    ]
    said += [*words.RIGHT, *words.LEFT, *words.FRONT, *words.BEHIND, "the", "that is"]
    sentences = [*said, " ".join(said), " ".join(reversed(said))]
    assert plain(sentences) == tokenize(sentences) == sentences


@pytest.mark.parametrize("sentence", ["The car", "a car.", "a  car", "b2", "it's", " a", "é"])
def test_what_is_not_plain_is_refused(sentence: str) -> None:
    with pytest.raises(InputError, match="is not plain words; tokenise it as scores do, by --tokens ptb"):
        plain(["a car", sentence])


def test_nothing_is_plain() -> None:
    assert plain([""]) == tokenize([""])
