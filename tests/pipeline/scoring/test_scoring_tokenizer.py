"""The tokenizers: each sentence keeps its place, and is not read together with another sentence."""

import json
import re
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pycocoevalcap.tokenizer import ptbtokenizer

from pipeline.datasets import manifest
from pipeline.datasets.schema import Pair, write_pairs
from pipeline.io.errors import InputError
from pipeline.scoring import corpus, java, tokenizer
from pipeline.scoring.metrics import bleu, bleu_counts, cider_d, counted
from pipeline.scoring.tokenizer import PUNCTUATION, plain, tokenize
from pipeline.tabletop import words
from pipeline.text.caption_text import one_line
from tests.running import refuse, set_params, succeed

SHARED = Path(__file__).parents[4] / "shared" / "data"
LINE_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
text = st.one_of(st.text(max_size=40), st.text(st.sampled_from(LINE_BREAKS + " \0\t'\".-|<*aB"), max_size=40))


# a JVM starts in 0.3 s: few examples, each of many sentences
@settings(max_examples=4, suppress_health_check=list(HealthCheck))
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


# what the lexer reads by what follows: abbreviations, quotation marks, tags, numbers
ENDS = [
    *("next to b.", "Plan B.", "in the U.S.", "cars etc.", "b", "at 5 p.m.", "b. .", "(b.)", "a.b.", "OK!"),
    *("the car No.", "nos.", "fig.", "Figs.", "pp.", "op.", "ca.", "prop.", "art.", "they're", "'90", "v."),
    *("a b='", '<a b="', "<!--", "</a", "S&P-", "555-", "1", "$", "y'", "http://", "&amp", "Pty."),
]
NEXT = [
    *("", "The car left.", "the car", "(It", "5", "magazine", "Ltd.", "S."),
    *('"', "'", "'>", '">', "-->", ">"),
]
written = st.lists(st.one_of(st.sampled_from(ENDS), st.sampled_from(NEXT)), max_size=3).map(" ".join)


@settings(max_examples=3)
@given(st.lists(st.one_of(written, text), max_size=200).map(lambda found: [one_line(each) for each in found]))
@example([text for end in ENDS for following in NEXT for text in (end, following)])
def test_no_sentence_is_read_by_another_line(sentences: list[str]) -> None:
    forward = tokenizer._tokenized(sentences, 60)
    assert tokenizer._tokenized(sentences[::-1], 60)[::-1] == forward
    found: dict[str, str] = {}
    assert [found.setdefault(*pair) for pair in zip(sentences, forward, strict=True)] == forward


def texts_of(tree: object) -> Iterator[str]:
    """All sentences of an annotation file."""
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        if isinstance(value, (dict, list)):
            yield from texts_of(value)
        elif isinstance(value, str) and (isinstance(key, int) or key == "sentence"):
            yield value


def test_real_sentences_have_the_librarys_tokens_in_any_order(tmp_path: Path) -> None:
    """The library reads the sentences in the order of the files, and we in alphabetical order."""
    files = [*SHARED.glob("spot-the-diff/annotations/*.json"), *SHARED.glob("image-editing-request/*.json")]
    if not files:
        pytest.skip(f"{SHARED} holds no annotations of real datasets")
    lines = [one_line(text) for file in files for text in texts_of(json.loads(file.read_text()))]
    (tmp_path / "lines").write_text("\n".join(lines), encoding="utf-8")
    library = ["-cp", str(tokenizer.jar()), *tokenizer.ARGUMENTS, str(tmp_path / "lines")]
    output, _ = java.run("the PTB tokenizer", library, 60)
    answer = output.split("\n")[: len(lines)]
    punctuation = set(ptbtokenizer.PUNCTUATIONS)
    kept = [" ".join(word for word in line.split(" ") if word not in punctuation) for line in answer]
    # its list has brackets in upper case, and its tokens are in lower case
    expected = [re.sub("-[lr][rc]b- ?", "", line).strip() for line in kept]
    ours = dict(zip(ordered := sorted(set(lines)), tokenize(ordered), strict=True))
    assert [ours[line] for line in lines] == expected
    assert len(ours) > 25_000


def test_equal_sentences_are_tokenized_once_and_all_answered() -> None:
    assert tokenize(["A car.", "c", "a  car .", "A car."]) == ["a car", "c", "a car", "a car"]


def test_the_punctuation_is_the_librarys() -> None:
    assert frozenset(word.lower() for word in ptbtokenizer.PUNCTUATIONS) == PUNCTUATION


def test_without_the_library_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer, "distribution", lambda name: distribution("no such " + name))
    with pytest.raises(
        InputError, match=r"^no PTB tokenizer: pycocoevalcap is not installed; `pip install` it$"
    ):
        tokenize(["a car"])


def test_all_of_tabletops_words_are_plain() -> None:
    """Each word is also the first and the last word of a sentence."""
    said = [*words.ANY_SHAPE, *words.NO_CHANGE, *words.COLORS, "the", "that is"]
    said += [word for kind in (words.WORDS, words.VERBS) for own in kind.values() for word in own]
    said += [*words.RIGHT, *words.LEFT, *words.FRONT, *words.BEHIND]
    sentences = [*said, " ".join(said), " ".join(reversed(said))]
    assert plain(sentences) == tokenize(sentences) == sentences


@pytest.mark.parametrize("sentence", ["The car", "a car.", "a  car", "b2", "it's", " a", "é"])
def test_what_is_not_plain_is_refused(sentence: str) -> None:
    with pytest.raises(InputError, match=r"is not plain words; .*--tokens ptb"):
        plain(["a car", sentence])


REFERENCES = {
    "1": ["Animal1 is red , not blue .", "animal1 is red"],
    "2": ["the cube  is\rgone ."],
    "3": [" ", "so"],
}
CAPTIONS = {"1": "animal1 is red , not blue .", "2": "The cube is gone .", "3": "so"}


@pytest.mark.usefixtures("without_java")
def test_without_a_tokeniser_captions_are_scored_as_they_are_written() -> None:
    found = corpus.score(CAPTIONS, REFERENCES, {}, 60, tokeniser="none")
    own = {"1": REFERENCES["1"], "2": ["the cube is gone ."], "3": ["so"]}
    ours = found.subsets["total"]
    assert ours["CIDEr-D"] == cider_d(CAPTIONS, own)
    assert ours["BLEU-4"] == bleu(bleu_counts(CAPTIONS, own, counted(CAPTIONS, own)).sum(0))[3]
    assert found.scorers["tokenizer"] == "none: captions as written, split at white space"
    assert found.wording["mean_length"] == (7 + 5 + 1) / 3
    # case counts, and so does a full stop
    assert found.pairs["1"]["bleu"]["matches"][0] == 7
    assert found.pairs["2"]["bleu"]["matches"][0] == 4


@pytest.mark.usefixtures("without_java")
def test_the_stages_take_the_tokeniser_of_params_and_name_it(tmp_path: Path) -> None:
    pairs = [
        Pair(f"{split}{key}", key, split, "b", "a", tuple(texts))
        for split in ("train", "val", "test")
        for key, texts in REFERENCES.items()
    ]
    write_pairs(tmp_path / "pairs.jsonl", pairs)
    manifest.write(tmp_path / "manifest.json", manifest.Manifest("table", None, {}, {}))
    captions = [{"image_id": f"test{key}", "caption": text} for key, text in CAPTIONS.items()]
    (tmp_path / "captions.json").write_text(json.dumps(captions))
    set_params(tmp_path, score__tokeniser="none")
    shared = "--pairs pairs.jsonl --manifest manifest.json --captions"
    score = f"score {shared} captions.json --out metrics.json"
    succeed(tmp_path, score)
    succeed(tmp_path, f"constant --dataset tabletop {shared} constant.json --out constant_metrics.json")
    for file in ("metrics.json", "constant_metrics.json"):
        scorers = json.loads((tmp_path / file).read_text())["scorers"]
        assert scorers["tokenizer"] == "none: captions as written, split at white space"
    set_params(tmp_path, score__tokeniser="moses")
    refuse(tmp_path, score, "score.tokeniser: Input should be 'ptb'")
