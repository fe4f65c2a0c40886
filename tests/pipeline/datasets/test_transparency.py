"""A fourth channel: transparency is laid over white; other data is ignored, or refused by name."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from pipeline.captioning.feature_backbone import opened
from pipeline.datasets.images import decode
from pipeline.io.errors import InputError

H, W = 32, 48
Y, X = np.mgrid[0:H, 0:W]
COLOURS = np.stack([X * 5, Y * 7, (X + Y) * 3], -1).astype(np.uint8)
LIGHT = np.random.default_rng(1).normal(120, 30, (H, W)).clip(1, 254).astype(np.uint8)  # as infrared


def with_alpha(alpha, colours=COLOURS):
    full = np.broadcast_to(np.asarray(alpha, np.uint8), (H, W))
    return Image.fromarray(np.concatenate([colours, full[..., None]], -1))


def saved(image, form="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


FORMS = [("PNG", {}), ("WEBP", {"lossless": True, "exact": True}), ("TIFF", {"compression": "tiff_lzw"})]


@pytest.mark.parametrize(("form", "options"), FORMS, ids=[form for form, _ in FORMS])
@pytest.mark.parametrize("alpha", [0, 1, X % 2, (X + Y) % 10], ids=["0", "1", "labels", "ten labels"])
def test_an_image_without_a_visible_pixel_has_its_colours(form, options, alpha):
    found = decode(saved(with_alpha(alpha), form, **options), "a.png")
    np.testing.assert_array_equal(np.asarray(found), COLOURS)


def test_grey_images_and_palettes_too():
    grey = Image.merge("LA", [Image.fromarray(LIGHT), Image.new("L", (W, H), 0)])
    np.testing.assert_array_equal(np.asarray(decode(saved(grey), "a.png"))[..., 0], LIGHT)
    palette = Image.fromarray(COLOURS).quantize(16)
    wanted = np.asarray(palette.convert("RGB"))
    found = decode(saved(palette, transparency=bytes(16)), "a.png")
    np.testing.assert_array_equal(np.asarray(found), wanted)
    np.testing.assert_array_equal(np.asarray(opened(with_alpha(0))), COLOURS)


SPECK = np.where((X == 3) & (Y == 5), 255, 0)
REFUSED = {
    "nothing": with_alpha(0, np.zeros_like(COLOURS)),
    "a single hidden colour": with_alpha(0, np.full_like(COLOURS, 90)),
    "all but one pixel hidden": with_alpha(SPECK),
    "infrared": with_alpha(LIGHT),
    "infrared, a third of it saturated": with_alpha(np.where(X % 3, LIGHT, 255)),
    "infrared of low contrast": with_alpha(LIGHT // 10 + 90),
    "depth": with_alpha(X * 5 + 1),
}


@pytest.mark.parametrize("image", REFUSED.values(), ids=list(REFUSED))
def test_a_channel_that_is_no_transparency_is_refused_by_name(image):
    for form in ("PNG", "TIFF"):
        with pytest.raises(InputError, match=r"^p/a\.png (is transparent|has a fourth channel)"):
            decode(saved(image, form), "p/a.png")


DISC = (X - 24) ** 2 + (Y - 16) ** 2
LAID_OVER_WHITE = {
    "opaque": 255,
    "a layer of constant opacity": 128,
    "cut out": np.where(DISC < 100, 255, 0),
    "with a soft edge": (150 - DISC).clip(0, 255),
    "with a shadow": np.where(X < 36, 255, (47 - X) * 20),
    "three layers": X // 16 * 80 + 40,
}


@pytest.mark.parametrize("alpha", LAID_OVER_WHITE.values(), ids=list(LAID_OVER_WHITE))
def test_transparency_is_laid_over_white(alpha):
    found = np.asarray(decode(saved(with_alpha(alpha)), "a.png")).astype(int)
    share = np.broadcast_to(alpha, (H, W))[..., None] / 255
    assert abs(found - (COLOURS * share + 255 * (1 - share))).max() <= 1


def test_a_speck_on_a_canvas_of_one_colour_is_kept():
    found = np.asarray(decode(saved(with_alpha(SPECK, np.zeros_like(COLOURS))), "a.png"))
    assert (found == 0).all(-1).sum() == 1
    assert (found == 255).all(-1).sum() == H * W - 1


@settings(max_examples=60)
@given(st.integers(0, 255), st.integers(0, 255), st.floats(0, 1), st.integers(0, 9))
def test_any_two_values_are_laid_over_white_or_named(first, second, share, seed):
    """White pixels are only in an image in which something is visible."""
    chosen = np.random.default_rng(seed).random((H, W)) < share
    try:
        found = np.asarray(decode(saved(with_alpha(np.where(chosen, first, second))), "a.png"))
    except InputError as error:
        assert str(error).startswith("a.png ")  # noqa: PT017 (an error is one of two right results)
        return
    assert len(np.unique(found.reshape(-1, 3), axis=0)) > 1
