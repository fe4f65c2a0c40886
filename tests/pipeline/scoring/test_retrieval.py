"""Ranks and figures of retrieval against loops, with ties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.scoring.retrieval import figures, ranks

SENTENCES = [("a", "b"), ("b",), ("c", "a", "d")]


def brute(similarity, sentences):
    """Ranks by counting, from a list of each pair's sentences."""
    owner = [pair for pair, each in enumerate(sentences) for _ in each]
    said = [sentence for each in sentences for sentence in each]
    to_pair, shared, to_text, tied = [], [], [], []
    for row, pair in enumerate(owner):
        holders = [p for p, each in enumerate(sentences) if said[row] in each]
        for own, kept in (
            (similarity[row][pair], to_pair),
            (max(similarity[row][p] for p in holders), shared),
        ):
            above = sum(value > own for value in similarity[row])
            kept.append(1 + above + (sum(value == own for value in similarity[row]) - 1) / 2)
    for pair in range(len(sentences)):
        best = [
            max(similarity[row][pair] for row in range(len(owner)) if owner[row] == group)
            for group in range(len(sentences))
        ]
        ties = sum(value == best[pair] for value in best) - 1
        to_text.append(1 + sum(value > best[pair] for value in best) + ties / 2)
        tied.append(ties)
    return to_pair, shared, to_text, tied


@given(st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=6, max_size=6))
def test_ranks_by_loops(values):
    found = ranks(np.array(values, np.float32), SENTENCES)
    wanted = brute(values, SENTENCES)
    for ours, theirs in zip(
        (found.text_to_pair, found.shared, found.pair_to_text, found.tied), wanted, strict=True
    ):
        assert ours.tolist() == theirs


def test_figures():
    similarity = np.array([[9, 0, 0], [0, 5, 1], [1, 9, 0], [9, 8, 7], [1, 2, 3], [0, 1, 9]], np.float32)
    found = figures(ranks(similarity, SENTENCES))
    assert found["text_to_pair"]["R@1"] == pytest.approx(4 / 6)
    assert found["text_to_pair_shared"]["R@1"] == pytest.approx(5 / 6)
    assert found["text_to_pair"]["MnR"] == pytest.approx((1 + 3 + 1 + 3 + 1 + 1) / 6)
    assert found["chance"] == {"R@1": pytest.approx(1 / 3), "R@5": 1.0, "R@10": 1.0, "MdR": 2.0, "MnR": 2.0}
    assert (found["pairs"], found["sentences"]) == (3, 6)


def test_ties_of_the_authors_program():
    """Two groups tie for the first pair, so ranks 1 and 2 are both entries."""
    similarity = np.array([[5, 0, 0], [5, 9, 0], [0, 0, 9]], np.float32)
    each = ranks(similarity, [("a",), ("b",), ("c",)])
    strict, all_ties = figures(each), figures(each, "all_ties")
    assert strict["pair_to_text"]["MnR"] == pytest.approx((1.5 + 1 + 1) / 3)
    assert all_ties["pair_to_text"]["MnR"] == pytest.approx((1 + 2 + 1 + 1) / 4)
    assert all_ties["pair_to_text"]["R@1"] == pytest.approx(3 / 4)
    four = ranks(np.array([[9, 1], [1, 9], [9, 1], [9, 1]], np.float32), [("a",), ("b", "c", "d")])
    assert figures(four)["text_to_pair"]["MdR"] == 1.5
    assert figures(four, "all_ties")["text_to_pair"]["MdR"] == 1.0
