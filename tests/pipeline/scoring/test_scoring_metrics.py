"""BLEU, ROUGE-L and CIDEr-D against their formulas, written out without any cleverness."""

import math
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge

from pipeline.scoring import metrics

Captions = dict[str, str]
References = dict[str, list[str]]
WORDS = ["the", "a", "red", "car", "man", "left", "is", "gone"]


def grams(sentence: str, n: int) -> Counter[tuple[str, ...]]:
    words = sentence.split()
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def bleu(captions: Captions, references: References, n: int) -> float:
    """Papineni et al. 2002: clipped precisions, brevity against the closest reference length."""
    logarithms = []
    for k in range(1, n + 1):
        right = total = 0
        for key, caption in captions.items():
            for gram, count in grams(caption, k).items():
                right += min(count, max(grams(text, k)[gram] for text in references[key]))
                total += count
        logarithms.append(math.log(right / total))
    length = sum(len(caption.split()) for caption in captions.values())
    closest = 0
    for key, caption in captions.items():
        here = len(caption.split())
        closest += min((abs(len(text.split()) - here), len(text.split())) for text in references[key])[1]
    return min(1.0, math.exp(1 - closest / length)) * math.exp(sum(logarithms) / n)


def common(one: list[str], other: list[str]) -> int:
    """The length of the longest common subsequence."""
    if not one or not other:
        return 0
    if one[-1] == other[-1]:
        return 1 + common(one[:-1], other[:-1])
    return max(common(one[:-1], other), common(one, other[:-1]))


def rouge_l(caption: str, references: list[str]) -> float:
    """Lin 2004, beta 1.2; best precision and best recall, of whichever references."""
    words = caption.split()
    lengths = [common(words, text.split()) for text in references]
    precision = max(lengths) / len(words)
    recall = max(length / len(text.split()) for length, text in zip(lengths, references, strict=True))
    if not precision or not recall:
        return 0.0
    return (1 + 1.2**2) * precision * recall / (recall + 1.2**2 * precision)


def cider_d(caption: str, own: list[str], corpus: References) -> float:
    """Vedantam et al. 2015, section 6: clipped cosine of tf-idf, Gaussian of the lengths, times 10."""

    def weight(gram: tuple[str, ...], count: int) -> float:
        frequency = sum(any(gram in grams(text, len(gram)) for text in texts) for texts in corpus.values())
        return count * math.log(len(corpus) / max(1, frequency))

    def vector(text: str, n: int) -> dict[tuple[str, ...], float]:
        return {gram: weight(gram, count) for gram, count in grams(text, n).items()}

    def norm(weights: dict[tuple[str, ...], float]) -> float:
        return math.sqrt(sum(value**2 for value in weights.values()))

    total = 0.0
    for n in range(1, 5):
        for text in own:
            h, r = vector(caption, n), vector(text, n)
            dot = sum(min(value, r.get(gram, 0.0)) * r.get(gram, 0.0) for gram, value in h.items())
            cosine = dot / (norm(h) * norm(r)) if norm(h) and norm(r) else 0.0
            delta = len(caption.split()) - len(text.split())
            total += cosine * math.exp(-(delta**2) / (2 * 6**2)) / len(own)
    return 10 * total / 4


@pytest.fixture(scope="module")
def corpus() -> tuple[Captions, References]:
    choose = random.Random(7)

    def sentence() -> str:
        return " ".join(choose.choices(WORDS, k=choose.randint(4, 8)))

    references = {str(i): [sentence() for _ in range(choose.randint(1, 4))] for i in range(25)}
    # half of a reference and half of chance: some runs of four words are right, and some are not
    captions = {key: " ".join([*texts[0].split()[:5], sentence()]) for key, texts in references.items()}
    return captions, references


def counts(captions: Captions, references: References) -> np.ndarray:
    return metrics.bleu_counts(captions, references, metrics.counted(captions, references))


def test_bleu_is_the_formula(corpus: tuple[Captions, References]) -> None:
    captions, references = corpus
    expected = [bleu(captions, references, n) for n in (1, 2, 3, 4)]
    assert metrics.bleu(counts(captions, references).sum(0)) == pytest.approx(expected, rel=1e-6)


def test_bleu_of_the_corpus_is_no_mean() -> None:
    captions, references = {"1": "a b c d e", "2": "x y"}, {"1": ["a b c d e"], "2": ["v w"]}
    assert metrics.bleu(counts(captions, references).sum(0))[0] == pytest.approx(5 / 7)


def test_what_bleu_counts() -> None:
    """A word counts as often as one reference has it; of two as close in length, the shorter."""
    found = counts({"1": "the the cat sat"}, {"1": ["the cat", "the the mat is", "a", "x y z u v w"]})
    assert found.tolist() == [[3, 2, 0, 0, 4, 3, 2, 1, 4, 4]]
    assert counts({"1": ""}, {"1": ["a b"]}).tolist() == [[0] * 9 + [2]]
    assert counts({"1": "a b c"}, {"1": ["a b c d", "a b"]})[0, -1] == 2


words = st.lists(st.sampled_from(WORDS[:4]), max_size=9).map(" ".join)
some_pairs = st.lists(st.tuples(words, st.lists(words.filter(bool), min_size=1, max_size=4)), min_size=1)


@settings(max_examples=150)
@given(some_pairs, st.randoms(use_true_random=False))
def test_the_library_s_classes_say_the_same_to_the_last_digit(pairs, choose: random.Random) -> None:
    """Of a whole and of a part, which the library scores as a corpus of its own."""
    whole = {str(number): pair for number, pair in enumerate(pairs)}
    part = {key: whole[key] for key in sorted(choose.sample(list(whole), choose.randint(1, len(whole))))}
    captions, references = ({key: pair[side] for key, pair in whole.items()} for side in (0, 1))
    grams = metrics.counted(captions, references)
    cider = metrics.CiderD(captions, references, grams)
    for members in (whole, part):
        rows = [int(key) for key in members]
        own = {key: references[key] for key in members}
        listed = {key: [captions[key]] for key in members}
        corpus, each = Bleu(4).compute_score(own, listed, verbose=0)
        found = metrics.bleu_counts(captions, references, grams)[rows]
        assert metrics.bleu(found.sum(0)) == corpus
        assert [metrics.bleu(one) for one in found] == [list(one) for one in zip(*each, strict=True)]
        corpus, each = Rouge().compute_score(own, listed)
        found = metrics.rouge_l(captions, references)[rows]
        assert (found.tolist(), found.mean()) == (each.tolist(), corpus)
        corpus, each = Cider().compute_score(own, listed)
        found = cider.each(rows)
        assert (found.tolist(), found.mean()) == (each.tolist(), corpus)
        assert metrics.cider_d({key: captions[key] for key in own}, own) == corpus


@given(*[st.lists(st.sampled_from("abc"), max_size=9)] * 2)
def test_the_longest_common_subsequence(one: list[str], other: list[str]) -> None:
    assert metrics.common_words(one, other) == common(one, other)


def test_rouge_l_is_the_formula(corpus: tuple[Captions, References]) -> None:
    captions, references = corpus
    expected = [rouge_l(caption, references[key]) for key, caption in captions.items()]
    assert metrics.rouge_l(captions, references) == pytest.approx(expected, rel=1e-9)


def test_cider_d_is_the_formula(corpus: tuple[Captions, References]) -> None:
    captions, references = corpus
    expected = [cider_d(caption, references[key], references) for key, caption in captions.items()]
    assert metrics.cider_d_each(captions, references) == pytest.approx(expected, rel=1e-9)
    assert metrics.cider_d(captions, references) == pytest.approx(sum(expected) / len(expected), rel=1e-9)


def test_cider_d_of_perfect_captions_is_ten() -> None:
    references = {"1": ["a red car is gone"], "2": ["two men have left now"]}
    captions = {key: texts[0] for key, texts in references.items()}
    assert metrics.cider_d(captions, references) == pytest.approx(10)


def test_captions_are_matched_by_id_not_by_order(corpus: tuple[Captions, References]) -> None:
    captions, references = corpus
    turned = dict(reversed(captions.items()))
    each = metrics.cider_d_each(captions, references)
    assert (metrics.cider_d_each(turned, references) == each).all()
    assert (metrics.rouge_l(turned, references) == metrics.rouge_l(captions, references)).all()
    assert (counts(turned, references) == counts(captions, references)).all()


@pytest.mark.parametrize("caption", ["", "unheard"])
def test_a_caption_without_a_right_word_scores_nothing(caption: str) -> None:
    captions, references = {"1": caption, "2": "a car"}, {"1": ["a red car"], "2": ["a car"]}
    assert metrics.bleu(counts(captions, references)[0])[3] == pytest.approx(0, abs=1e-6)
    assert metrics.rouge_l(captions, references)[0] == 0
    assert metrics.cider_d_each(captions, references)[0] == 0
