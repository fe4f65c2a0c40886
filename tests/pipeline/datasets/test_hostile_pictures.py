"""Pictures from strangers: what was tried (the tests' names), and what happened.

Damaged pictures of every format are in test_image_files.py; here it is what takes memory or time.
"""

import io
import struct
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from PIL import Image

from pipeline.captioning.features import opened
from pipeline.datasets import images
from tests.hostile import little_memory, refused


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(*chunks):
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def head(width, height, kind=2):
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))


def scanned(times):
    """A JPEG whose pixels are gone through so many times by scans of a few bytes; its comment has an end."""
    file = io.BytesIO()
    Image.new("L", (64, 64), 128).save(file, "JPEG", progressive=True, comment=b"\xff\xda\xff\xd9")
    data = file.getvalue()
    scan = data[data.rindex(b"\xff\xda") : -2]
    return data[:-2] + times * scan + data[-2:]


def behind_start(data, *segments):
    """A JPEG with further segments behind its first two bytes: marker, content."""
    more = b"".join(b"\xff" + mark + struct.pack(">H", len(said) + 2) + said for mark, said in segments)
    return data[:2] + more + data[2:]


def saved(form, **options):
    file = io.BytesIO()
    Image.new("L", (8, 8)).save(file, form, **options)
    return file.getvalue()


def of_tags(*tags):
    """A TIFF of 8 x 8 with these tags besides."""
    own = [(256, 4, 1, 8), (257, 4, 1, 8), (258, 4, 1, 8), (262, 4, 1, 1), (273, 4, 1, 0), (279, 4, 1, 64)]
    entries = b"".join(struct.pack("<HHII", *tag) for tag in sorted((*own, *tags)))
    return b"II*\0" + struct.pack("<IH", 8, len(entries) // 12) + entries + bytes(1_000_000)


GIF = saved("GIF")
SMALL = saved("JPEG")
# "MPF", as of cameras that store several images in one file, which names two of them
SEVERAL = (
    b"MPF\0II*\0\x08\0\0\0\x03\0\0\xb0\x07\0\x04\0\0\x000100"
    b"\x01\xb0\x04\0\x01\0\0\0\x02\0\0\0\x02\xb0\x07\0\x20\0\0\0\x32\0\0\0\0\0\0\0" + bytes(32)
)
MARK = b"\xff\xda\0\2"  # the head of a scan
END = chunk(b"IEND", b"")
PACKED = zlib.compress(bytes(100_000_000), 9)
ZEROS = chunk(b"IDAT", PACKED)
PICTURES = {
    "a PNG of 2 ** 31 - 1 pixels a side": (
        png(head(2**31 - 1, 2**31 - 1), END),
        "has more than 89,478,485 pixels",
    ),
    "a PNG of 100 million pixels in 100 kB": (
        png(head(10_000, 10_000, 0), ZEROS, END),
        "has more than 89,478,485",
    ),
    "a PNG of 64 pixels that unpacks to 100 MB": (png(head(8, 8, 0), ZEROS), "no end mark"),
    "a PNG of 100 MB of packed text": (
        png(head(8, 8), chunk(b"zTXt", b"a\0\0" + PACKED), END),
        "does not open",
    ),
    "a PNG of 100 MB of a packed colour profile": (
        png(head(8, 8), chunk(b"iCCP", b"a\0\0" + PACKED), END),
        "does not open",
    ),
    "a PNG chunk of 4 GB": (png(head(8, 8), struct.pack(">I", 2**32 - 1) + b"IDAT"), "does not open"),
    "a BMP of 2 ** 31 - 1 pixels a side": (
        b"BM"
        + struct.pack("<IHHIIiiHHIIiiII", 54, 0, 0, 54, 40, 2**31 - 1, 2**31 - 1, 1, 24, 0, 0, 0, 0, 0, 0),
        "has more than 89,478,485 pixels",
    ),
    "a GIF of 65535 pixels a side": (b"GIF89a" + struct.pack("<HHBBB", 65_535, 65_535, 0, 0, 0), "pixels"),
    "a PPM of a billion pixels a side": (
        b"P6 1000000000 1000000000 255\n",
        "has more than 89,478,485 pixels",
    ),
    "a PPM whose width has 5000 digits": (b"P6 " + b"9" * 5000 + b" 1 255\n", "replace the file"),
    "a JPEG of 10000 scans in 300 kB": (scanned(10_000), "has more than 100 scans"),
    "a JPEG of 10000 scans that calls itself MPO": (
        behind_start(scanned(10_000), (b"\xe2", SEVERAL)),
        "has more than 100 scans",
    ),
    "a JPEG of 40000 EXIF segments": (
        behind_start(SMALL, *[(b"\xe1", b"Exif\0\0" + bytes(90))] * 40_000),
        "has more than 13,",
    ),
    "a JPEG of 40000 comments": (behind_start(SMALL, *[(b"\xfe", bytes(9))] * 40_000), "has more than 10,"),
    "a GIF of 40000 comments": (
        GIF[:13] + 40_000 * (b"!\xfe\xff" + bytes([65]) * 255 + b"\0") + GIF[13:],
        "has more than 20,",
    ),
    "a PNG of 100000 empty chunks": (
        png(head(8, 8, 0), *[chunk(b"IDAT", b"")] * 100_000, END),
        "has more than 11,",
    ),
    "a PPM of 300000 comments": (b"P2 8 8 255\n" + b"#\n" * 300_000, "has more than 1000 comments"),
    "a TIFF with three tags that are all of its megabyte": (
        of_tags(*[(tag, 3, 500_000, 8) for tag in (320, 338, 530)]),
        "its tags overlap",
    ),
    "a TIFF whose 10000 strips are one JPEG": (
        of_tags((259, 4, 1, 7), (278, 4, 1, 1)).replace(
            struct.pack("<HHII", 279, 4, 1, 64), struct.pack("<HHII", 279, 4, 1, 2_000_000)
        ),
        "its strips overlap",
    ),
    "a TIFF that begins nowhere": (b"II*\0" + struct.pack("<I", 2**32 - 1), "replace the file"),
    "a TIFF that leads back to itself": (
        b"II*\0" + struct.pack("<IHHHIII", 8, 1, 256, 4, 1, 8, 8),
        "replace the file",
    ),
}


@pytest.mark.parametrize(("data", "said"), PICTURES.values(), ids=PICTURES)
def test_a_picture_is_refused_for(tmp_path, data, said):
    (tmp_path / "a.png").write_bytes(data)
    start = time.process_time()
    found = refused(lambda: opened(tmp_path / "a.png"))
    assert said in found
    assert str(tmp_path / "a.png") in found
    assert said in refused(lambda: opened(data, "the upload"))
    assert time.process_time() - start < 2  # seconds; a fault of the kind takes many times that


SOUND = {
    "20 MB of EXIF in 300 segments": behind_start(SMALL, *[(b"\xe1", b"Exif\0\0" + bytes(65_000))] * 300),
    "20 MB of a comment in a GIF": GIF[:13]
    + b"!\xfe"
    + 80_000 * (b"\xff" + bytes([65]) * 255)
    + b"\0"
    + GIF[13:],
    "a TIFF whose 2000 unread tags are all of its megabyte": of_tags(
        *[(tag, 7, 1_000_000, 8) for tag in range(40_000, 42_000)]
    ),
    "an MPO": behind_start(SMALL, (b"\xe2", SEVERAL)),
}


@pytest.mark.parametrize("data", SOUND.values(), ids=list(SOUND))
def test_metadata_cost_no_time_and_no_memory(data):
    start = time.process_time()
    with little_memory():
        assert opened(data, "x").size == (8, 8)
    assert time.process_time() - start < 2


@pytest.mark.parametrize("progressive", [False, True])
def test_a_sound_jpeg_with_marks_of_scans_in_what_is_no_pixel_opens(progressive):
    """In a thumbnail, say: only what is decoded counts. Noise has FF in its pixels."""
    noise = Image.effect_noise((300, 300), 90).convert("RGB")
    file = io.BytesIO()
    noise.save(file, "JPEG", progressive=progressive, quality=99, exif=b"Exif\0\0" + 200 * MARK)
    data = file.getvalue()
    assert data.count(MARK) >= 200
    assert opened(data + bytes(4) + 200 * MARK, "x").size == (300, 300)


def test_large_pictures_are_decoded_one_at_a_time(monkeypatch):
    """Each takes up to 16 bytes a pixel, and there are as many threads as cores."""
    monkeypatch.setattr(images, "LARGE", 63)
    at_once, most, patience = 0, [], 0.0
    together = threading.Barrier(2)

    def rgb(image, data, name):
        nonlocal at_once
        at_once += 1
        most.append(at_once)
        with suppress(threading.BrokenBarrierError):
            together.wait(patience)
        at_once -= 1
        return image

    monkeypatch.setattr(images, "_rgb", rgb)

    def decoded(side, seconds):
        nonlocal patience
        patience = seconds
        most.clear()
        together.reset()
        data = png(head(side, side), END)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: images.decode(data, "x"), range(2)))
        return max(most)

    assert decoded(7, 30.0) == 2
    assert decoded(8, 0.2) == 1
