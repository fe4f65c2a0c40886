"""The best constant caption: chosen on validation pairs alone, and by the metric itself."""

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
    """Some sentences stand in many pairs, some twice in one, and the numbers of sentences differ."""
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
    chosen = choose(pairs, 100, 60)
    assert chosen.cider_d == max(scores.values()) == scores[chosen.caption]


def test_validation_decides_and_test_is_never_looked_at():
    pairs = [
        pair(1, "train", "the ball moved", "the ball moved", "nothing has changed", "the cube left"),
        pair(2, "val", "Nothing has changed."),
        pair(3, "val", "the box left"),
        pair(4, "test", "the cube left", "the ball moved"),
    ]
    chosen = choose(pairs, 3, 60)
    assert chosen.caption == "nothing has changed"
    assert chosen == choose([*pairs, pair(5, "test", "the cube left")], 3, 60) == choose(pairs[:3], 3, 60)


def test_sentences_are_compared_as_the_metrics_tokenizer_reads_them(monkeypatch):
    monkeypatch.undo()
    pairs = dataset(["it isn't", "it isn't", "The BALL, red, moved!"], "The ball red moved", "a cube")
    chosen = choose(pairs, 10, 60)
    # the same tokens as one of the two references: half of the most that a pair can have
    assert chosen == constant_baseline.Constant("The BALL, red, moved!", pytest.approx(5.0))


def test_of_equals_the_more_frequent_caption_is_chosen():
    # the same tokens: "Gone ." stands first among the candidates
    pairs = dataset(["gone", "Gone .", "Gone ."], "it is gone", "it moved")
    assert choose(pairs, 10, 60).caption == "Gone ."
    # a single validation pair: CIDEr-D is 0 by definition for all
    assert choose(pairs[:2], 10, 60) == constant_baseline.Constant("Gone .", 0.0)


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
        choose(pairs, 10, 60)


def test_without_a_tokeniser_the_constant_is_chosen_as_written():
    pairs = dataset(["gone", "Gone .", "Gone ."], "gone now", "it moved")
    assert choose(pairs, 10, 60).caption == "Gone ."
    assert choose(pairs, 10, 60, "none").caption == "gone"
