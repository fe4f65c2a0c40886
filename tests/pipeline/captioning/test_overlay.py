"""The drawing of attention over two images: sizes and places."""

import numpy as np
import pytest
from PIL import Image

from pipeline.captioning import overlay
from pipeline.captioning.overlay import GAP, LABEL, ROW, WIDTH
from pipeline.decoding.attention_maps import Attended


@pytest.mark.parametrize(
    ("size", "height"), [((480, 320), 160), ((640, 160), 60), ((300, 600), ROW)], ids=["3:2", "4:1", "1:2"]
)
def test_images_keep_their_proportions_up_to_the_height_of_a_row(size, height):
    images = [Image.new("RGB", size, color) for color in ("blue", "green")]
    sheet = overlay.drawn(*images, Attended(("a", "word"), np.zeros((2, 0, 2, 3), np.float16)))
    assert sheet.size == (LABEL + 2 * (WIDTH + GAP), 2 * (height + GAP))
    assert sheet.getpixel((LABEL + WIDTH - 1, height - 1)) == (0, 0, 255)
    assert sheet.getpixel((LABEL + GAP + 2 * WIDTH - 1, 2 * height + GAP - 1)) == (0, 128, 0)


def test_attention_is_drawn_at_its_cell_of_its_image():
    """The before image's map is high in the upper left cell, the after image's in the lower right one."""
    maps = np.zeros((1, 2, 2, 3), np.float16)
    maps[0, 0, 0, 0] = maps[0, 1, 1, 2] = 1
    sheet = overlay.drawn(*[Image.new("RGB", (480, 320), "blue")] * 2, Attended(("word",), maps))
    height, second = 160, LABEL + WIDTH + GAP
    left, right = (offset * WIDTH // 6 for offset in (1, 5))
    upper, lower = height // 4, 3 * height // 4
    red = {
        (start, x, y)
        for start in (LABEL, second)
        for x in (left, right)
        for y in (upper, lower)
        if sheet.getpixel((start + x, y))[0] > 60
    }
    assert red == {(LABEL, left, upper), (second, right, lower)}
