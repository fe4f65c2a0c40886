"""Resizing: each name gives exactly its library's result, also for other than square sizes."""

import cv2
import numpy as np
import pytest
from PIL import Image

from pipeline.datasets import images
from pipeline.features.preprocessing import pixels
from pipeline.io.errors import InputError
from tests.synthetic import make_clevr_change

WIDTH, HEIGHT, SIZE = 480, 320, 224


@pytest.fixture(scope="module")
def scene():
    """Gradients, an edge, stripes and a grain: uint8 320 x 480 x 3."""
    y, x = np.mgrid[:HEIGHT, :WIDTH].astype(float)
    picture = np.stack([x / WIDTH * 255, y / HEIGHT * 255, (np.sin(x / 5) * np.cos(y / 7) + 1) * 127], -1)
    picture[(x - 240) ** 2 + (y - 160) ** 2 < 80**2] = (200, 30, 40)
    picture[::8, :100] = 255
    grain = np.random.default_rng(0).normal(0, 12, picture.shape)
    return np.clip(picture + grain, 0, 255).round().astype(np.uint8)


@pytest.fixture(scope="module")
def stored(scene, tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    Image.fromarray(scene).save(root / "a.png")
    (image,) = images.index(root, ["a.png"])
    return root, image


def weights(length, size):
    """Keys' kernel, a = -0.75, on 4 neighbours, edges repeated: size x length."""
    found = np.zeros((size, length))
    for row in range(size):
        centre = (row + 0.5) * length / size - 0.5
        for column in range(int(np.floor(centre)) - 1, int(np.floor(centre)) + 3):
            t, a = abs(centre - column), -0.75
            near = (a + 2) * t**3 - (a + 3) * t**2 + 1
            far = a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a
            found[row, np.clip(column, 0, length - 1)] += near if t <= 1 else far
    return found


@pytest.mark.parametrize("size", [SIZE, (96, 144)])
def test_each_is_what_its_library_gives(scene, stored, size):
    height, width = (size, size) if size == SIZE else size
    pillow = np.asarray(Image.fromarray(scene).resize((width, height), Image.Resampling.BICUBIC))
    opencv = cv2.resize(scene, (width, height), interpolation=cv2.INTER_CUBIC)
    for name, expected in (("pil_bicubic", pillow), ("opencv_bicubic", opencv)):
        found = pixels(*stored, size, name)
        assert (found.dtype, found.shape) == (np.uint8, (3, height, width))
        np.testing.assert_array_equal(found, expected.transpose(2, 0, 1))


def test_opencv_takes_sixteen_pixels_and_no_more(scene, stored):
    """From the formula, in float; OpenCV computes in fixed point."""
    plain = weights(HEIGHT, SIZE) @ scene.transpose(2, 0, 1) @ weights(WIDTH, SIZE).T
    found = pixels(*stored, SIZE, "opencv_bicubic")
    assert np.abs(found - np.clip(plain.round(), 0, 255)).max() <= 1


def test_an_image_that_changed_is_refused(tmp_path):
    root = make_clevr_change(tmp_path / "raw", scenes=10)
    name = "images/CLEVR_default_000000.png"
    (image,) = images.index(root, [name])
    Image.new("RGB", (8, 8)).save(root / name)
    with pytest.raises(InputError, match=r"000000\.png changed since it was prepared"):
        pixels(root, image, 64, "pil_bicubic")
