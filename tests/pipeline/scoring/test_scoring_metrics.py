"""BLEU, ROUGE-L and CIDEr-D against the library's own classes, to the last digit."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge

from pipeline.scoring import metrics

WORDS = ["the", "a", "red", "car", "man", "left", "is", "gone"]


def common(one: list[str], other: list[str]) -> int:
    """The length of the longest common subsequence."""
    if not one or not other:
        return 0
    if one[-1] == other[-1]:
        return 1 + common(one[:-1], other[:-1])
    return max(common(one[:-1], other), common(one, other[:-1]))


words = st.lists(st.sampled_from(WORDS[:4]), max_size=9).map(" ".join)
some_pairs = st.lists(st.tuples(words, st.lists(words.filter(bool), min_size=1, max_size=4)), min_size=1)


@settings(max_examples=150)
@given(some_pairs, st.randoms(use_true_random=False))
def test_the_librarys_classes_give_the_same_to_the_last_digit(pairs, choose: random.Random) -> None:
    """A part of a corpus is scored as a separate corpus by the library."""
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
        found = cider.scores(rows)
        assert (found.tolist(), found.mean()) == (each.tolist(), corpus)
        assert metrics.cider_d({key: captions[key] for key in own}, own) == corpus


@given(some_pairs, st.lists(words, min_size=1, max_size=3))
def test_new_captions_of_a_corpus_have_the_scores_of_a_new_corpus(pairs, texts: list[str]) -> None:
    """`set_captions` gives the same digits as a new CiderD."""
    references = {str(number): references for number, (_, references) in enumerate(pairs)}
    first = {str(number): caption for number, (caption, _) in enumerate(pairs)}
    grams = metrics.counted(first | {text: text for text in texts}, references)
    cider = metrics.CiderD(first, references, grams)
    for text in texts:
        captions = dict.fromkeys(references, text)
        cider.set_captions(captions)
        assert cider.scores(range(len(pairs))).mean() == metrics.cider_d(captions, references)


@given(*[st.lists(st.sampled_from("abc"), max_size=9)] * 2)
def test_the_longest_common_subsequence(one: list[str], other: list[str]) -> None:
    assert metrics.common_words(one, other) == common(one, other)
