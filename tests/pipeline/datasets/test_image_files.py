"""Image files of all kinds: converted by the rules that `decode` states, or refused by name."""

import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile

from pipeline.captioning.feature_backbone import opened
from pipeline.datasets import images
from pipeline.datasets.images import FORMATS, decode
from pipeline.io.errors import InputError

RED, GREEN, WHITE, BLACK = (255, 0, 0), (0, 255, 0), (255, 255, 255), (0, 0, 0)
GREY16 = np.array([[0, 255], [256, 65535]], dtype=np.uint16)
HIGH_BYTES = [[0, 0], [1, 255]]


def saved(image, form, **options):
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def png(width, height, depth, color, rows, **chunks):
    """Return a PNG file of a kind that Pillow does not write."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0))
    middle = b"".join(chunk(name.encode(), data) for name, data in chunks.items())
    return b"\x89PNG\r\n\x1a\n" + head + middle + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def palette():
    image = Image.new("P", (2, 1))
    image.putpalette([*RED, *GREEN])
    image.putpixel((1, 0), 1)
    return image


def two(first, second, size=(2, 1)):
    image = Image.new("RGB", size, first)
    image.putpixel((1, 0), second)
    return image


def noise(mode="RGB", size=(16, 12)):
    bands = [Image.effect_noise(size, 60) for _ in Image.new(mode, (1, 1)).getbands()]
    return Image.merge(mode, bands)


def frames(form, **options):
    return saved(
        two(RED, GREEN), form, save_all=True, append_images=[two(GREEN, WHITE)], duration=100, **options
    )


def without_adobe(data):
    start = data.index(b"\xff\xee")
    return data[:start] + data[start + 2 + struct.unpack(">H", data[start + 2 : start + 4])[0] :]


CYAN = saved(Image.new("CMYK", (8, 8), (255, 0, 0, 0)), "JPEG", quality=100)
CONVERTED = {
    "palette": (saved(palette(), "PNG"), [[RED, GREEN]]),
    "palette, alpha by entry": (
        saved(palette(), "PNG", transparency=b"\x80\x00"),
        [[(255, 127, 127), WHITE]],
    ),
    "palette, a transparent entry": (saved(palette(), "PNG", transparency=1), [[RED, WHITE]]),
    "RGBA": (saved(Image.new("RGBA", (1, 1), (255, 0, 0, 128)), "PNG"), [[(255, 127, 127)]]),
    "RGBA, hidden colour": (
        saved(Image.fromarray(np.array([[[*RED, 0], [*RED, 255]]], np.uint8)), "PNG"),
        [[WHITE, RED]],
    ),
    "grey and alpha": (saved(Image.new("LA", (1, 1), (0, 128)), "PNG"), [[(127, 127, 127)]]),
    "a transparent colour": (
        png(2, 1, 8, 2, b"\0\7\11\1\1\2\3", tRNS=b"\0\1\0\2\0\3"),
        [[(7, 9, 1), WHITE]],
    ),
    "a transparent grey": (png(2, 1, 8, 0, b"\0\7\11", tRNS=b"\0\11"), [[(7, 7, 7), WHITE]]),
    "16-bit grey PNG": (saved(Image.fromarray(GREY16), "PNG"), HIGH_BYTES),
    "16-bit PGM": (b"P5 2 2 65535\n" + GREY16.astype(">u2").tobytes(), HIGH_BYTES),
    "16-bit colour": (png(1, 1, 16, 2, b"\0\1\377\2\377\3\377"), [[(1, 2, 3)]]),
    "1-bit": (saved(Image.fromarray(np.array([[True, False]])), "PNG"), [[WHITE, BLACK]]),
    "4-bit grey": (png(2, 1, 4, 0, b"\0\x0f"), [[BLACK, WHITE]]),
    "grey": (saved(Image.new("L", (1, 1), 77), "PNG"), [[(77, 77, 77)]]),
    "CMYK JPEG of Adobe": (CYAN, [[(0, 255, 255)] * 8] * 8),
    "CMYK JPEG without its marker": (without_adobe(CYAN), [[(0, 255, 255)] * 8] * 8),
    # compressed, because Pillow 12 cannot read what it writes without compression
    "YCbCr TIFF": (
        saved(Image.new("YCbCr", (1, 1), (128,) * 3), "TIFF", compression="tiff_lzw"),
        [[(128,) * 3]],
    ),
    "GIF, first frame": (frames("GIF"), [[RED, GREEN]]),
    "animated PNG, first frame": (frames("PNG"), [[RED, GREEN]]),
    "animated WebP, first frame": (frames("WEBP", lossless=True), [[RED, GREEN]]),
    "TIFF, first page": (frames("TIFF"), [[RED, GREEN]]),
    "BMP": (saved(two(RED, GREEN), "BMP"), [[RED, GREEN]]),
}


@pytest.mark.parametrize("kind", CONVERTED)
def test_converted_by_the_rule(kind):
    data, expected = CONVERTED[kind]
    image = decode(data, "a.png")
    assert image.mode == "RGB"
    found = np.asarray(image)
    expected = np.array(expected)
    if expected.ndim == 2:  # grey
        expected = np.repeat(expected[..., None], 3, axis=-1)
    np.testing.assert_array_equal(found, expected)


def test_damaged_metadata_has_no_effect():
    data = saved(noise(), "JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\x09\0")
    assert decode(data, "a.jpg").size == (16, 12)


CUT = saved(noise(), "PNG")
REFUSED = {
    "empty": (b"", "a.png is empty (0 bytes)"),
    "text": (b"<html>404</html>", "a.png is no image with pixels"),
    "EPS, which would run Ghostscript": (saved(noise(), "EPS"), "a.png is no image with pixels"),
    "no width": (png(0, 5, 8, 2, b""), "a.png is no image with pixels"),
    "a PNG without its end": (CUT[:-12], "truncated: no end mark"),
    "8 bits in a 16-bit grey PNG": (saved(Image.fromarray(GREY16 >> 8), "PNG"), "no value above 255"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused_by_name(kind):
    data, said = REFUSED[kind]
    with pytest.raises(InputError) as caught:
        decode(data, "a.png")
    assert str(caught.value).startswith("a.png ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("side", [9460, 13377, 13378])
def test_a_decompression_bomb_is_not_decoded(side, monkeypatch):
    def decoded(self):
        raise AssertionError("decoded")

    monkeypatch.setattr(ImageFile.ImageFile, "load", decoded)
    with pytest.raises(InputError, match="more than 89,478,485 pixels"):
        decode(png(side, side, 8, 2, b""), "a.png")


WHOLE = {form: saved(noise(), form, **({"lossless": True} if form == "WEBP" else {})) for form in FORMATS}


@settings(max_examples=150)
@given(form=st.sampled_from(FORMATS), data=st.data())
def test_a_cut_file_is_refused_or_has_lost_no_pixel(form, data):
    whole = WHOLE[form]
    cut = data.draw(st.integers(0, len(whole) - 1))
    try:
        found = decode(whole[:cut], "a")
    except InputError:
        return
    assert cut > len(whole) - 200
    assert found.tobytes() == decode(whole, "a").tobytes()


@settings(max_examples=200)
@given(form=st.sampled_from(FORMATS), data=st.data())
def test_a_damaged_file_is_decoded_or_named(form, data):
    damaged = bytearray(WHOLE[form])
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    said = "a.png "
    try:
        assert decode(bytes(damaged), "a.png").mode == "RGB"
    except InputError as error:
        said = str(error)
    assert said.startswith("a.png ")


IN_MEMORY = {
    "CMYK": (Image.new("CMYK", (1, 1), (0, 0, 255, 128)), (127, 127, 0)),
    "I;16": (Image.fromarray(np.full((1, 1), 0x4D80, np.uint16)), (0x4D,) * 3),
    "I": (Image.new("I", (1, 1), 0x4D80), (0x4D,) * 3),
    "P": (palette().crop((0, 0, 1, 1)), RED),
    "RGBA": (Image.new("RGBA", (1, 1), (255, 0, 0, 128)), (255, 127, 127)),
    "RGBa": (Image.new("RGBA", (1, 1), (255, 0, 0, 128)).convert("RGBa"), (255, 127, 127)),
    "RGBX": (Image.new("RGBX", (1, 1), (*RED, 9)), RED),
}


def test_large_images_are_decoded_one_at_a_time(monkeypatch):
    held = []
    monkeypatch.setattr(images, "_loaded", lambda image, _: held.append(images._LARGE_LOCK.locked()) or image)
    for largest in (images.LARGE, 15):  # pixels; the image has 16
        monkeypatch.setattr(images, "LARGE", largest)
        images.converted(Image.new("RGB", (4, 4)), "a.png")
    assert held == [False, True]


@pytest.mark.parametrize("mode", IN_MEMORY)
def test_images_in_memory(mode):
    image, wanted = IN_MEMORY[mode]
    found = opened(image, "before")
    assert (image.mode, found.mode, found.getpixel((0, 0))) == (mode, "RGB", wanted)


@pytest.mark.parametrize("form", ["JPEG", "TIFF"])
def test_an_image_that_pillow_opened_equals_its_file(form):
    data = saved(noise("CMYK"), form)
    assert opened(Image.open(io.BytesIO(data))).tobytes() == decode(data, "x").tobytes()


@pytest.mark.parametrize(
    "image",
    [
        *(Image.new(mode, (2, 2)) for mode in ("LAB", "HSV", "La")),
        Image.new("L", (0, 2)),
        Image.open(io.BytesIO(saved(noise(), "PNG")[:200])),
        # of an unknown scale
        *(Image.new("I", (2, 2), value) for value in (-1, 255, 65536)),
        Image.new("F", (2, 2), 0.5),
        Image.fromarray(np.full((2, 2), 200, np.uint16)),
    ],
    ids=lambda image: f"{image.mode} {image.size}",
)
def test_images_in_memory_that_are_refused(image):
    with pytest.raises(InputError, match=r"^before [^\n]*$"):
        opened(image, "before")
