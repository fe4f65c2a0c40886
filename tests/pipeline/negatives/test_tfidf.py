"""TF-IDF against loops over its formula."""

import math

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.negatives.geometric import Index

SENTENCE = st.lists(
    st.sampled_from(["the", "red", "ball", "cube", "is", "gone"]), min_size=1, max_size=6
).map(" ".join)


def vector(text, documents):
    """Return count × (1 + ln((1 + n) / (1 + df))) of every word, as a vector of length 1."""
    words = sorted({word for other in [*documents, text] for word in other.split()})
    found = []
    for word in words:
        df = sum(word in other.split() for other in documents)
        found.append(text.split().count(word) * (1 + math.log((1 + len(documents)) / (1 + df))))
    return dict(zip(words, np.array(found) / np.linalg.norm(found), strict=True))


@settings(max_examples=50)
@given(st.lists(SENTENCE, min_size=1, max_size=8), SENTENCE)
@example(["gone the red ball", "ball the red gone"], "the red ball gone")
def test_captions_are_ranked_by_cosine_and_then_by_their_text(texts, query):
    documents = sorted(set(texts))
    own = vector(query, documents)
    cosine = {
        text: sum(value * own[word] for word, value in vector(text, documents).items() if word in own)
        for text in documents
    }
    expected = sorted(documents, key=lambda text: (-round(cosine[text], 9), text))
    assert list(Index(texts).ranked(query.split())) == expected


def test_a_rare_word_weighs_more_than_a_common_one():
    index = Index(["the ball is gone", "the cube is gone", "the cube is red"])
    weights = index.weights(["the", "red", "cube", "that"])
    assert weights["that"] > weights["red"] > weights["cube"] > weights["the"] == 1.0
    assert index.weights(["red", "red"])["red"] == 2 * weights["red"]
