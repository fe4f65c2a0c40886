"""The best constant caption is chosen by its CIDEr-D on validation pairs."""

import random

import pytest

from pipeline.datasets.schema import Pair
from pipeline.io.errors import InputError
from pipeline.scoring import constant_baseline
from pipeline.scoring.constant_baseline import choose, most_frequent
from pipeline.scoring.metrics import cider_d

WORDS = ("the", "a", "big", "red", "blue", "ball", "cube", "moved", "turned", "been", "nothing", "changed")


def pair(number, split, *captions):
    return Pair(f"{number}.png", str(number), split, "b.png", "a.png", captions)


def dataset(training, *validation):
    """One training pair with all of the captions, a validation pair for each of the others."""
    return [pair(0, "train", *training), *(pair(n, "val", text) for n, text in enumerate(validation, 1))]


def sentence(random_, words=WORDS):
    return " ".join(random_.choices(words, k=random_.randrange(1, 9)))


@pytest.fixture(autouse=True)
def tokenizer(monkeypatch):
    """A tokenizer without Java, good enough for these sentences."""

    def tokenize(texts, timeout):
        return [" ".join(text.lower().replace(".", "").split()) for text in texts]

    monkeypatch.setitem(constant_baseline.OF_SCORES, "ptb", ("made up", tokenize))


@pytest.fixture(scope="module")
def references():
    draw = random.Random(1)
    pool = [sentence(draw) for _ in range(30)]
    return {str(n): draw.choices(pool, k=draw.randrange(1, 6)) for n in range(40)}


def test_most_frequent_captions_first_then_by_alphabet():
    pairs = [pair(1, "train", "c", "b", "b"), pair(2, "train", "a", "c", " d  e ", "d e", "d e", "", " ")]
    assert most_frequent(pairs, 3) == ["d e", "b", "c"]
    assert most_frequent(pairs, 10) == ["d e", "b", "c", "a"]


def test_the_choice_is_the_best_of_all_candidates(references):
    draw = random.Random(2)
    training = [sentence(draw) for _ in range(60)]
    pairs = [pair(n, "train", text) for n, text in enumerate(training)]
    pairs += [pair(f"v{n}", "val", *texts) for n, texts in references.items()]
    scores = {text: cider_d(dict.fromkeys(references, text), references) for text in training}
    caption, score = choose(pairs, 100, 60, "ptb")
    assert score == max(scores.values()) == scores[caption]


def test_test_pairs_do_not_change_the_choice():
    pairs = [
        pair(1, "train", "the ball moved", "the ball moved", "nothing has changed", "the cube left"),
        pair(2, "val", "Nothing has changed."),
        pair(3, "val", "the box left"),
        pair(4, "test", "the cube left", "the ball moved"),
    ]
    chosen = choose(pairs, 3, 60, "ptb")
    assert chosen[0] == "nothing has changed"
    assert chosen == choose([*pairs, pair(5, "test", "the cube left")], 3, 60, "ptb")
    assert chosen == choose(pairs[:3], 3, 60, "ptb")


def test_the_more_frequent_of_equal_captions_is_chosen():
    # they have the same tokens
    pairs = dataset(["gone", "Gone .", "Gone ."], "it is gone", "it moved")
    assert choose(pairs, 10, 60, "ptb")[0] == "Gone ."
    assert choose(pairs, 10, 60, "none")[0] == "gone"
    # a single validation pair: CIDEr-D is 0 by definition for all
    assert choose(pairs[:2], 10, 60, "ptb") == ("Gone .", 0.0)


@pytest.mark.parametrize(
    ("pairs", "split"),
    [
        ([pair(1, "val", "gone")], "train"),
        ([pair(1, "train", " "), pair(2, "val", "gone")], "train"),
        ([pair(1, "train", "gone"), pair(2, "test", "gone")], "val"),
        ([pair(1, "train", "gone"), pair(2, "val", ".")], "val"),
    ],
)
def test_a_split_without_captions_is_named(pairs, split):
    with pytest.raises(InputError, match=f"the split {split} has no captions"):
        choose(pairs, 10, 60, "ptb")
