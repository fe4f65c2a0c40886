"""TIFF files of all kinds of numbers, bands, planes and colours: decoded correctly, or refused."""

import io
import struct
import zlib
from itertools import product

import numpy as np
import pytest
from PIL import Image

from pipeline.captioning.feature_backbone import opened, rotation_warning
from pipeline.datasets.images import ORIENTATION, decode
from pipeline.io.errors import InputError

WHITE_IS_ZERO, GREY, RGB, CMYK, LAB = 0, 1, 2, 5, 8
H, W = 20, 24
Y, X = np.mgrid[0:H, 0:W]
BYTES = np.stack([X * 10, Y * 12, (X * Y) % 256, 255 - X * 10, (X + Y) * 5, Y * 3], -1).astype(np.uint8)
BANDS = {WHITE_IS_ZERO: 1, GREY: 1, RGB: 3, CMYK: 4, LAB: 3}
ALPHA = (1, 2)


def tiff(samples, colours, order="<", planar=1, packed=False, tile=False, extra=(), **more):
    """Return a TIFF file of `samples`, (H, W, bands), written by hand: most programs write only a few kinds.

    `more` are the values of further tags, such as t274=[6]. They replace the values that `samples` imply.
    """
    height, width, bands = samples.shape
    planes = [samples] if planar == 1 else [samples[..., band : band + 1] for band in range(bands)]
    pieces = [piece for plane in planes for piece in (_tiles(plane) if tile else [plane])]
    data = [piece.astype(samples.dtype.newbyteorder(order)).tobytes() for piece in pieces]
    data = [zlib.compress(piece) for piece in data] if packed else data
    offsets, sizes = (324, 325) if tile else (273, 279)
    tags = {
        256: [width],
        257: [height],
        258: [8 * samples.dtype.itemsize] * bands,
        259: [8 if packed else 1],
        262: [colours],
        277: [bands],
        284: [planar],
        339: [{"u": 1, "i": 2, "f": 3}[samples.dtype.kind]] * bands,
        offsets: [0] * len(data),
        sizes: [len(piece) for piece in data],
        **({322: [16], 323: [16]} if tile else {278: [height]}),
        **({338: list(extra)} if extra else {}),
        **{int(name.removeprefix("t")): numbers for name, numbers in more.items()},
    }
    return _file(dict(sorted(tags.items())), offsets, data, order)


def _tiles(plane):
    height, width, bands = plane.shape
    whole = np.zeros((-(-height // 16) * 16, -(-width // 16) * 16, bands), plane.dtype)
    whole[:height, :width] = plane
    return [whole[y : y + 16, x : x + 16] for y in range(0, height, 16) for x in range(0, width, 16)]


def _file(tags, offsets, data, order):
    """Return the file: the tags as 32-bit integers, and the strips or tiles after them."""
    start = 8 + 2 + 12 * len(tags) + 4
    first = start + sum(4 * len(numbers) for numbers in tags.values() if len(numbers) > 1)
    tags[offsets] = [first + sum(map(len, data[:number])) for number in range(len(data))]
    head, behind = b"", b""
    for tag, numbers in tags.items():
        value = numbers[0] if len(numbers) == 1 else start + len(behind)
        head += struct.pack(f"{order}HHII", tag, 4, len(numbers), value)
        if len(numbers) > 1:
            behind += struct.pack(f"{order}{len(numbers)}I", *numbers)
    mark = {"<": b"II", ">": b"MM"}[order] + struct.pack(f"{order}HI", 42, 8)
    return mark + struct.pack(f"{order}H", len(tags)) + head + bytes(4) + behind + b"".join(data)


def scaled(values, kind):
    """Return bytes on the whole scale of a type. The high byte of a result is the byte."""
    if kind.startswith("f"):
        return (values / 255).astype(kind)
    wide = values.astype("u8") * sum(1 << 8 * byte for byte in range(np.dtype(kind).itemsize))
    return (wide >> kind.startswith("i")).astype(kind)


def shown(values, colours, extra):
    """Return the RGB values, (H, W, 3), that a viewer shows of these bytes."""
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


EXTRAS = ((), (0,), (1,), (2,), (0, 0), "unsaid")  # kinds of the extra bands; "unsaid": one without a kind
LAYOUTS = (  # planar, byte order, packed, in tiles
    (1, "<", False, False),
    (2, "<", False, True),
    (2, ">", False, False),
    (2, "<", True, False),
    (1, ">", True, True),
)


@pytest.mark.parametrize("kind", ["u1", "u2", "u4", "i1", "i2", "i4", "f4"])
def test_every_kind_is_decoded_correctly_or_refused_by_bands_and_bits(kind):
    read = set()
    for colours, extra, layout in product(BANDS, EXTRAS, LAYOUTS):
        each = (colours, kind, extra, layout)
        named = () if extra == "unsaid" else extra
        values = BYTES[..., : BANDS[colours] + len(named) + (extra == "unsaid")].copy()
        if extra and extra[0] in ALPHA:
            values[..., BANDS[colours]] &= 0xE0  # few values, as of layers; more are refused as data
        data = tiff(scaled(values, kind), colours, layout[1], layout[0], *layout[2:], extra=named)
        said = ""
        try:
            found = np.asarray(decode(data, "a.tif")).astype(int)
        except InputError as error:
            said = str(error)
        if said:
            assert said.startswith("a.tif is a TIFF that is not read"), each
        else:
            assert abs(found - shown(values, colours, named)).max() <= 2, each
            read.add((colours, extra))
    assert bool(read) == (kind in ("u1", "u2"))
    if read:
        assert read >= {(GREY, ()), (RGB, ()), (RGB, (0,)), (RGB, (2,)), (RGB, "unsaid"), (CMYK, ())}


def test_a_tiff_that_pillow_opened_has_the_same_rules():
    negative = tiff(scaled(BYTES[..., :1], "u2"), WHITE_IS_ZERO)
    with pytest.raises(InputError, match="of 16 bits"):
        opened(Image.open(io.BytesIO(negative)))
    infrared = opened(Image.open(io.BytesIO(tiff(BYTES[..., :4], RGB))))
    np.testing.assert_array_equal(np.asarray(infrared), BYTES[..., :3])


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
    files["TIFF by hand"] = tiff(BYTES[..., :3], RGB, order=">", t274=[turn])
    for form, data in files.items():
        found = decode(data, form)
        assert found.size == (W, H), form
        assert found.info.get(ORIENTATION, 1) == turn, form
        wanted = decode(saved("JPEG", 1), "x") if form == "JPEG" else PICTURE
        np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted), err_msg=form)
    grey = decode(tiff(scaled(BYTES[..., :1], "u2"), GREY, t274=[turn]), "a.tif")
    np.testing.assert_array_equal(np.asarray(grey), np.repeat(BYTES[..., :1], 3, -1))


def test_two_orientations_are_named_and_one_is_not():
    upright, left, other = (opened(saved("JPEG", turn)) for turn in (1, 6, 6))
    assert "is 1, of after 6" in rotation_warning(upright, left)
    assert rotation_warning(left, other) is None
    assert rotation_warning(upright, opened(np.asarray(PICTURE))) is None
    assert opened(left).info[ORIENTATION] == 6  # an image that was opened before keeps it
