"""Attention as the page embeds it: what was quantised is what was attended to, and the page stays small."""

import base64
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pipeline.decoding.attention_maps import Attended
from pipeline.reporting import attention_images


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
    for row, found in zip(rows, attention_images.quantised(rows), strict=True):
        largest = max(row)
        for share, level in zip(row.tolist(), found.tolist(), strict=True):
            assert level == 0 if largest == 0 else abs(share / largest * 255 - level) <= 0.501


def test_a_caption_is_its_maps_their_peaks_and_its_alignment():
    own = attended()
    found = attention_images.embedded(own, 1)
    assert found["grid"] == [4, 6]
    levels = decoded(found["maps"], 3, 4, 6)
    for word in range(3):
        peak = float(own.maps[word].max())
        assert found["peaks"][word] == pytest.approx(peak, abs=1e-4)
        assert np.abs(levels[word] / 255 * peak - own.maps[word, 0]).max() <= peak / 500
    rows = decoded(found["alignment"], 24, 24)
    assert (rows.max(1) == 255).all()
    assert (rows.argmax(1) == own.alignment.argmax(1)).all()


def test_without_cross_view_attention_and_without_words_there_is_less():
    assert attention_images.embedded(attended(aligned=False), 1).keys() == {"grid", "maps", "peaks"}
    silent = attention_images.embedded(attended(words=0), 1)
    assert (silent["maps"], silent["peaks"]) == ("", [])


def test_a_word_has_as_many_maps_as_its_decoder_made():
    two = attention_images.embedded(own := attended(images=2), 1)
    assert two["images"] == 2
    levels = decoded(two["maps"], 3, 2, 4, 6)  # word after word, before first
    assert (levels.reshape(3, 2, 24).argmax(2) == own.maps.reshape(3, 2, 24).argmax(2)).all()
    assert len(two["peaks"]) == 6
    blind = attention_images.embedded(attended(images=0), 2)
    assert (blind["images"], blind["maps"], blind["peaks"], blind["cells"]) == (0, "", [], [2, 3])


@pytest.mark.parametrize("factor", [1, 2])
def test_coarser_cells_are_the_mean_of_those_that_look_and_the_sum_of_those_looked_at(factor):
    grid = (4, 6)
    alignment = attended().alignment.astype(np.float32)
    height, width = grid[0] // factor, grid[1] // factor
    slow = np.zeros((height * width, height * width))
    for cell in range(24):
        for other in range(24):
            row = cell // 6 // factor * width + cell % 6 // factor
            column = other // 6 // factor * width + other % 6 // factor
            slow[row, column] += alignment[cell, other] / factor**2
    found = attention_images.coarsened(alignment, grid, factor)
    np.testing.assert_allclose(found, slow, atol=1e-6)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-2)


def test_alignments_are_kept_whole_while_they_fit_and_put_together_where_they_do_not(monkeypatch):
    all_of_it = [attended(seed=seed) for seed in range(5)]
    whole = 5 * 24 * 24 * 4 / 3
    for limit, factor in ((whole, 1), (whole - 1, 2), (whole / 16, 2), (whole / 16 - 1, 2)):
        monkeypatch.setattr(attention_images, "ALIGNMENTS", limit)
        assert (
            attention_images.coarsening(all_of_it) == factor
        )  # 4 x 6 cells can be put together by 2, and no more
    square = [attended(grid=(4, 4))]
    monkeypatch.setattr(attention_images, "ALIGNMENTS", math.ceil(16 * 16 / 16 * 4 / 3) - 1)
    assert attention_images.coarsening(square) == 4
    assert attention_images.embedded(square[0], 4)["cells"] == [1, 1]
    for without in ([attended(aligned=False)], []):
        assert attention_images.coarsening(without) == 1
