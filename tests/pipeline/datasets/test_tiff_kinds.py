"""TIFFs of all kinds of numbers, bands, planes and colours: decoded rightly or refused."""

import io
import struct

import numpy as np
import pytest
from PIL import Image

from pipeline.captioning.features import opened, turned
from pipeline.datasets.images import TURNED, decode
from pipeline.io.errors import InputError
from tests.tiffs import CMYK, GREY, LAB, PALETTE, RGB, WHITE_IS_ZERO, YCBCR, tiff, written

H, W = 20, 24
Y, X = np.mgrid[0:H, 0:W]
BYTES = np.stack([X * 10, Y * 12, (X * Y) % 256, 255 - X * 10, (X + Y) * 5, Y * 3], -1).astype(np.uint8)
BANDS = {WHITE_IS_ZERO: 1, GREY: 1, RGB: 3, CMYK: 4, LAB: 3}
ALPHA = (1, 2)


def scaled(values, kind):
    """Bytes on the whole scale of a type; its high byte is the byte."""
    if kind.startswith("f"):
        return (values / 255).astype(kind)
    size = np.dtype(kind).itemsize
    wide = values.astype("u8") * sum(1 << 8 * byte for byte in range(size))
    return (wide >> kind.startswith("i")).astype(kind)


def shown(values, colours, extra):
    """What a viewer shows of these bytes, H x W x 3."""
    values = values.astype(int)
    own, alpha = values[..., : BANDS[colours]], values[..., BANDS[colours] : BANDS[colours] + 1]
    if colours in (GREY, WHITE_IS_ZERO):
        own = np.repeat(own, 3, -1)
    if colours == WHITE_IS_ZERO:
        own = 255 - own
    if colours == CMYK:
        own = (255 - own[..., :3]) * (255 - own[..., 3:]) // 255
    if extra[:1] == (1,):
        own = np.minimum(255, own * 255 // np.maximum(alpha, 1))
    return (own * alpha + 255 * (255 - alpha)) // 255 if extra and extra[0] in ALPHA else own


LAYOUTS = ((1, "<", 0, 0), (2, "<", 0, 1), (2, ">", 0, 0), (2, "<", 1, 0), (1, ">", 1, 1))
KINDS = [
    (colours, kind, planar, extra, order, packed, tile)
    for colours in BANDS
    for kind in ("u1", "u2", "u4", "i1", "i2", "i4", "f4")
    for extra in ((), (0,), (1,), (2,), (0, 0), "unsaid")
    for planar, order, packed, tile in LAYOUTS
]


def made(colours, kind, planar, extra, order, packed, tile):
    """The file of a kind, and its bytes on the scale of 8 bits."""
    unsaid = extra == "unsaid"
    values = BYTES[..., : BANDS[colours] + (1 if unsaid else len(extra))]
    data = tiff(
        scaled(values, kind),
        colours,
        order=order,
        planar=planar,
        packed=packed,
        tile=tile,
        extra=() if unsaid else extra,
    )
    return data, values


def tried(each):
    """The difference from what is right; None where the kind is refused by its bands and bits."""
    data, values = made(*each)
    try:
        found = np.asarray(decode(data, "a.tif")).astype(int)
    except InputError as error:
        said = str(error)
    else:
        return abs(found - shown(values, each[0], () if each[3] == "unsaid" else each[3])).max()
    assert said.startswith("a.tif "), each
    bits = 8 * np.dtype(each[1]).itemsize
    assert f"{values.shape[-1]} band(s) of {bits} bits; convert" in said, each
    return None


@pytest.mark.parametrize("kind", ["u1", "u2", "u4", "i1", "i2", "i4", "f4"])
def test_every_kind_is_decoded_rightly_or_refused_by_bands_and_bits(kind):
    found = {each: tried(each) for each in KINDS if each[1] == kind}
    assert {each: wrong for each, wrong in found.items() if wrong is not None and wrong > 2} == {}
    read = {(each[0], each[3]) for each, wrong in found.items() if wrong is not None}
    assert bool(read) == (kind in ("u1", "u2"))
    if read:
        assert read >= {(GREY, ()), (RGB, ()), (RGB, (0,)), (RGB, (2,)), (RGB, "unsaid"), (CMYK, ())}


@pytest.mark.parametrize("bits", [1, 2, 4])
@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("colours", [WHITE_IS_ZERO, GREY, PALETTE])
def test_few_bits(bits, order, colours):
    levels = (X + Y) % (1 << bits)
    shifts = (levels[..., None] >> np.arange(bits)[::-1]) & 1
    rows = np.packbits(shifts.reshape(H, -1).astype(np.uint8), axis=1)[..., None]
    palette = (np.arange(3 << bits) * 257 * (255 // (3 << bits))).tolist()
    more = {"t320": palette} if colours == PALETTE else {}
    data = tiff(rows, colours, order=order, t256=[W], t258=[bits], **more)
    grey = levels * 255 // ((1 << bits) - 1)
    wanted = np.repeat((255 - grey if colours == WHITE_IS_ZERO else grey)[..., None], 3, -1)
    if colours == PALETTE:
        wanted = (np.array(palette).reshape(3, -1).T >> 8)[levels]
    np.testing.assert_array_equal(np.asarray(decode(data, "a.tif")), wanted)


@pytest.mark.parametrize("across", [1, 2])
@pytest.mark.parametrize("down", [1, 2])
@pytest.mark.parametrize("packed", [False, True])
def test_colours_of_fewer_places_than_brightness(across, down, packed):
    """YCbCr: for each block its brightness, then Cb, then Cr."""
    colour = np.array([[90, 200], [160, 60]], dtype=np.uint8).repeat(H // 2, 0).repeat(W // 2, 1)
    bright = (X * 4 + 60).astype(np.uint8)
    blocks = [
        [*bright[y : y + down, x : x + across].ravel(), colour[y, x], 255 - colour[y, x]]
        for y in range(0, H, down)
        for x in range(0, W, across)
    ]
    strip = np.array(blocks, dtype=np.uint8).reshape(1, -1, 1)
    data = tiff(
        strip, YCBCR, packed=packed, t256=[W], t257=[H], t258=[8] * 3, t277=[3], t278=[H], t530=[across, down]
    )
    pixels = np.stack([bright, colour, 255 - colour], -1)
    wanted = np.asarray(Image.fromarray(pixels, "YCbCr").convert("RGB")).astype(int)
    assert abs(np.asarray(decode(data, "a.tif")).astype(int) - wanted).max() <= 4


def test_a_picture_that_pillow_opened_is_held_to_the_same_rule():
    negative = made(WHITE_IS_ZERO, "u2", 1, (), "<", False, False)[0]
    with pytest.raises(InputError, match="of 16 bits; convert"):
        opened(Image.open(io.BytesIO(negative)))
    infrared, values = made(RGB, "u1", 1, "unsaid", "<", False, False)
    found = opened(Image.open(io.BytesIO(infrared)))
    np.testing.assert_array_equal(np.asarray(found), values[..., :3])


def test_tags_that_overlap_or_are_said_twice_are_refused():
    tags = {256: [8], 257: [8], 258: [8], 259: [1], 262: [1], 277: [1]}
    sound = written(tags, [bytes(64)])
    assert decode(sound, "a.tif").size == (8, 8)
    start = sound.index(struct.pack("<HHI", 277, 4, 1))
    for tag in (struct.pack("<HHII", 258, 4, 1, 8), struct.pack("<HHII", 320, 4, 10_000, 8)):
        with pytest.raises(InputError, match="its tag"):
            decode(sound[:start] + tag + sound[start + 12 :], "a.tif")


PICTURE = Image.fromarray(BYTES[..., :3])


def saved(form, turn, **more):
    exif = Image.Exif()
    exif[0x0112] = turn
    file = io.BytesIO()
    PICTURE.save(file, form, exif=exif, **more)
    return file.getvalue()


@pytest.mark.parametrize("turn", range(1, 9))
def test_orientation_is_applied_to_no_format_and_kept_for_a_warning(turn):
    files = {form: saved(form, turn) for form in ("PNG", "JPEG")}
    files["WEBP"] = saved("WEBP", turn, lossless=True)
    files["TIFF, packed"] = saved("TIFF", turn, compression="tiff_lzw")
    files["TIFF"] = saved("TIFF", turn)
    files["TIFF by hand"] = tiff(BYTES[..., :3], RGB, order=">", t274=[turn])
    for form, data in files.items():
        found = decode(data, form)
        assert found.size == (W, H), form
        assert found.info.get(TURNED, 1) == turn, form
        wanted = decode(saved("JPEG", 1), "x") if form == "JPEG" else PICTURE
        np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted), err_msg=form)


def test_two_orientations_are_told_and_one_is_not():
    upright, left, other = (opened(saved("JPEG", turn)) for turn in (1, 6, 6))
    assert "is 1, of after 6" in turned(upright, left)
    assert turned(left, other) is None
    assert turned(upright, opened(np.asarray(PICTURE))) is None
    assert opened(left).info[TURNED] == 6  # a picture that was opened before keeps it
