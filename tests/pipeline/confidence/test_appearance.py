"""Statistics of colours and textures, and the altered images to which a distance from them is fitted."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.confidence import altered_images, appearance
from pipeline.confidence.appearance import SIZE, statistics_of


def scene(seed, height=64, width=64):
    """Return a grey table with a few coloured boxes, uint8 (3, H, W)."""
    random = np.random.default_rng(seed)
    pixels = np.full((height, width, 3), 120.0) + np.linspace(-15, 15, height)[:, None, None]
    for _ in range(random.integers(3, 7)):
        row, column = random.integers(0, height - 12), random.integers(0, width - 12)
        pixels[row : row + 12, column : column + 12] = random.uniform(30, 220, 3)
    noisy = pixels + random.normal(0, 0.5, pixels.shape)
    return np.clip(noisy, 0, 255).astype(np.uint8).transpose(2, 0, 1)


@pytest.fixture(scope="module")
def fitted():
    return appearance.fitted(statistics_of(np.stack([scene(seed) for seed in range(80)])))


def distances(own, images):
    return own.distance(statistics_of(np.stack(images)))


def test_foreign_images_are_further_away_than_familiar_ones_and_their_copies(fitted):
    random = np.random.default_rng(0)
    scenes = [scene(seed) for seed in range(1000, 1020)]
    familiar = distances(fitted, scenes)
    assert familiar.max() < 2
    foreign = distances(fitted, [altered_images.foreign(random, image) for image in scenes])
    assert np.quantile(foreign, 0.1) > familiar.max()
    recompressed = distances(fitted, [altered_images.recompressed(random, image) for image in scenes])
    assert np.median(recompressed) < np.median(foreign) / 2


def test_the_statistics_do_not_depend_on_the_batch_or_on_the_resolution():
    images = [scene(seed, 448, 448) for seed in range(3)]
    together = statistics_of(np.stack(images))
    assert together.shape == (3, SIZE)
    for row, image in zip(together, images, strict=True):
        np.testing.assert_allclose(statistics_of(image[None])[0], row, atol=1e-4)
    half = np.stack(images).reshape(3, 3, 224, 2, 224, 2).mean((3, 5)).round().astype(np.uint8)
    assert np.abs(statistics_of(half) - together).max() < 0.35


sides = st.integers(1, 40)


@settings(max_examples=25, deadline=None)
@given(sides, sides, st.integers(0, 99), st.sampled_from([0, 17, 255, None]))
def test_any_image_has_statistics_and_copies(height, width, seed, grey):
    random = np.random.default_rng(seed)
    image = random.integers(0, 256, (3, height, width), dtype=np.uint8)
    if grey is not None:
        image[:] = grey
    for each in (image, altered_images.foreign(random, image), altered_images.recompressed(random, image)):
        assert (each.dtype, each.shape) == (np.uint8, image.shape)
        assert np.isfinite(statistics_of(each[None])).all()


def test_the_same_random_numbers_give_the_same_copies():
    image = scene(0)
    for copy in (altered_images.foreign, altered_images.recompressed):
        one, other = (copy(np.random.default_rng(4), image) for _ in range(2))
        np.testing.assert_array_equal(one, other)
        assert not np.array_equal(one, image)
