"""Attention in the page: quantised maps, weights and alignment."""

import base64
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pipeline.decoding.attention_maps import Attended
from pipeline.reporting import gallery
from tests.report_lab import WEIGHED


def attended(words=3, grid=(4, 6), aligned=True, seed=0, images=1):
    random = np.random.default_rng(seed)
    cells = grid[0] * grid[1]
    looked = random.dirichlet(np.ones(cells), words * images).reshape(words, images, *grid).astype(np.float16)
    alignment = random.dirichlet(np.ones(cells), cells).astype(np.float16) if aligned else None
    return Attended(tuple("abcdef"[:words]), looked, alignment)


def decoded(coded, *shape):
    return np.frombuffer(base64.b64decode(coded), np.uint8).reshape(shape)


@given(arrays.arrays(np.float32, (3, 7), elements=st.floats(0, 1, width=32)))
def test_quantised_rows_are_within_half_a_level_of_the_shares(rows):
    for row, found in zip(rows, gallery.quantised(rows), strict=True):
        largest = max(row)
        for share, level in zip(row.tolist(), found.tolist(), strict=True):
            assert level == 0 if largest == 0 else abs(share / largest * 255 - level) <= 0.501


def test_a_caption_has_maps_peaks_and_alignment():
    own = attended()
    found = gallery.embedded(own)
    assert found["grid"] == [4, 6]
    levels = decoded(found["maps"], 3, 4, 6)
    for word in range(3):
        peak = float(own.maps[word].max())
        assert found["peaks"][word] == pytest.approx(peak, abs=1e-4)
        assert np.abs(levels[word] / 255 * peak - own.maps[word, 0]).max() <= peak / 500
    rows = decoded(found["alignment"], 24, 24)
    assert (rows.max(1) == 255).all()
    assert (rows.argmax(1) == own.alignment.argmax(1)).all()


def test_weights_are_in_percent_and_named():
    drawn = np.array([[0.1234, 0.8, 0.0766], [0, 1, 0], [0.3375, 0.3325, 0.33]], np.float16)
    found = gallery.embedded(replace(attended(), weighed=WEIGHED, weights=drawn))
    assert found["weighed"] == ["before", "the difference", "after"]
    assert found["weights"] == [[12, 80, 8], [0, 100, 0], [34, 33, 33]]
    assert gallery.percents(attended()) == []


def test_a_word_has_all_maps_of_its_decoder():
    two = gallery.embedded(own := attended(images=2))
    assert two["images"] == 2
    levels = decoded(two["maps"], 3, 2, 4, 6)  # word after word, before first
    assert (levels.reshape(3, 2, 24).argmax(2) == own.maps.reshape(3, 2, 24).argmax(2)).all()
    assert len(two["peaks"]) == 6
    blind = gallery.embedded(attended(images=0))
    assert (blind["images"], blind["maps"], blind["peaks"], blind["grid"]) == (0, "", [], [4, 6])
