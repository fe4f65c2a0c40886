"""Negatives of descriptions of birds: each contradicts a reference about a part of a bird."""

import re
from itertools import islice, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.datasets.schema import Pair
from pipeline.negatives.birds import MEANING, contradicts, of_captions
from pipeline.negatives.generation import generate

COLOURS = ("black", "white", "gray", "brown", "red", "orange", "yellow", "green")
PARTS = ("head", "beak", "throat", "belly", "tail")
FORMS = [
    "animal1 has a {0} {2} while animal2 has {1} and {0} {2}s .",
    "animal2 is {0} with {1} wings , and animal1 is larger than animal2 .",
    "animal1 ' s {2} is {0} , animal2 has a longer {2} .",
    "both animals have {0} wings . animal2 has a {1} {2} .",
    "animal1 has spotted wings and a {0} {2} , animal2 does not .",
]


@st.composite
def descriptions(draw):
    colours = draw(st.permutations(COLOURS))
    return draw(st.sampled_from(FORMS)).format(*colours[:2], draw(st.sampled_from(PARTS)))


BACKGROUND = [
    [f"animal{1 + n % 2} is {c} with {d} wings ."] for n, (c, d) in enumerate(permutations(COLOURS, 2))
]


def pairs_of(captions):
    return [Pair(str(n), str(n), "train", "a", "b", tuple(own)) for n, own in enumerate(captions)]


@settings(max_examples=20)
@given(st.lists(st.lists(descriptions(), min_size=1, max_size=4), min_size=1, max_size=4), st.integers(0, 99))
def test_negatives_contradict_a_reference(captions, seed):
    for each in islice(generate("birds", pairs_of([*captions, *BACKGROUND]), seed), len(captions)):
        claims = of_captions(each.captions)
        texts = [negative.caption for negative in each.negatives]
        assert len(set(texts) - set(each.captions)) == 6
        known = [text for text in texts if contradicts(text, claims)]
        # if too few contradictions are found, captions of other pairs are last
        assert texts[: len(known)] == known
        for negative in each.negatives:
            if negative.kind == "replace":
                assert any(is_replaced(negative.caption, caption, each.captions) for caption in each.captions)
            elif negative.kind == "confuse":
                assert exchanged(negative.caption) in each.captions


def words(text):
    return re.findall(r"[a-z]+", text)


def is_replaced(negative, caption, captions):
    """Return True if `negative` is `caption` with one to three replaced words.

    A new word has the class and ending of the old word, and a value that no caption names.
    """
    if re.sub(r"[a-z]+", "w", caption) != re.sub(r"[a-z]+", "w", negative):
        return False
    named = {MEANING[word][::2] for text in captions for word in words(text) if word in MEANING}
    both = zip(words(caption), words(negative), strict=True)
    changed = [(old, new) for old, new in both if old != new and {old, new} != {"a", "an"}]
    return 1 <= len(changed) <= 3 and all(
        MEANING[old][:2] == MEANING[new][:2] and MEANING[new][::2] not in named for old, new in changed
    )


def exchanged(text):
    return text.replace("animal1", "?").replace("animal2", "animal1").replace("?", "animal2")


@pytest.mark.parametrize(
    "caption",
    [
        "both animals are brown .",
        "animal1 and animal2 have similar wings , animal1 is larger .",
        "animal1 is the same color as animal2 but larger .",
        "there are no visible differences between animal1 and the larger animal2 .",
    ],
)
def test_a_caption_that_stays_true_is_not_exchanged(caption):
    others = [[f"animal1 has a {colour} {part} ."] for colour in COLOURS for part in PARTS]
    first = next(iter(generate("birds", pairs_of([[caption, "animal1 has a black head ."], *others]), 1)))
    confused = [negative.caption for negative in first.negatives if negative.kind == "confuse"]
    assert confused == ["animal2 has a black head ."] or confused == []


def test_articles_follow_the_new_word():
    captions = [
        ["animal1 has a white beak ."],
        *([f"animal2 has an orange {part} ."] for part in PARTS),
        *BACKGROUND,
    ]
    texts = [n.caption for each in generate("birds", pairs_of(captions), 1) for n in each.negatives]
    assert any("an orange beak" in text for text in texts)
    assert not [text for text in texts if re.search(r"\ba [aeiou]|\ban [^aeiou]", text)]


def test_a_pair_without_claims_gets_captions_of_other_pairs():
    captions = [["they look alike ."], *BACKGROUND]
    first = next(iter(generate("birds", pairs_of(captions), 1)))
    assert [negative.kind for negative in first.negatives] == ["retrieve"] * 6


@pytest.mark.parametrize(
    ("reference", "candidate", "said"),
    [
        ("animal1 has a red head .", "animal1 has a blue head .", True),
        ("animal1 has a red head .", "animal2 has a blue head .", False),
        ("animal1 has a red head .", "animal1 has a blue tail .", False),
        ("animal1 has a red head .", "animal1 has a reddish crown .", False),
        ("animal1 has a red beak .", "animal1 ' s bill is green .", True),
        ("animal1 is larger than animal2 .", "animal2 is larger than animal1 .", True),
        ("animal1 is larger than animal2 .", "animal2 is smaller than animal1 .", False),
        ("animal1 has no spots on its tail .", "animal1 has stripes on its tail .", False),
        ("both animals have long tails .", "animal2 has a short tail .", True),
        ("this bird has a red head", "this bird has a blue head", True),
    ],
)
def test_contradictions(reference, candidate, said):
    assert contradicts(candidate, of_captions([reference])) is said
