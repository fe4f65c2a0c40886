"""Remove the metadata of image files. The bytes that decide the pixels stay, and the orientation is returned.

Pillow parses metadata in Python when it opens a file. Many comments or EXIF segments take time that grows
with the square of the file's size. TIFF tags that share their values take more memory than the file's size.
No pixel depends on this metadata, so it is removed before Pillow opens the file. A JPEG file with several
images (MPO) becomes a plain JPEG file.
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.datasets import tiff_tags

MOST_SEGMENTS = 10_000  # a file may have this many parts (segments, chunks, blocks), and one more per KB
MOST_COMMENTS = 1000  # an ASCII PPM may have this many comments; each costs as much time as a block
# PNG chunks that Pillow unpacks, keeps or counts, although they change no pixel of the first frame
PNG_METADATA = {b"tEXt", b"zTXt", b"iTXt", b"iCCP", b"eXIf", b"acTL", b"fcTL", b"fdAT"}
# APP1 to APP13, APP15 and comments; APP0 (JFIF) and APP14 (Adobe) define the colours
JPEG_METADATA = {*range(0xE1, 0xEE), 0xEF, 0xFE}
# JPEG markers that a length follows; a stuffed FF, a restart and a start of image have no length
JPEG_MARKER = re.compile(rb"\xff[^\x00\x01\xd0-\xd8\xff]")
SCAN, END = 0xDA, 0xD9
GIF_BLOCK = re.compile(rb"[!,;]")
EXIF = b"Exif\0\0"


@dataclass(frozen=True, slots=True)
class Bare:
    """An image file without metadata, and facts about the original file."""

    data: bytes
    orientation: int = 1  # 1 to 8, as in EXIF and TIFF
    scans: int = 1  # passes over a JPEG's pixels
    tags: tiff_tags.Tags | None = None  # only for a TIFF


def bare(data: bytes) -> Bare:
    """Return an image file without its metadata. A file of an unknown format is returned unchanged.

    Raises ValueError for a damaged TIFF, and for a file with so many parts or comments that parsing takes
    long.
    """
    if data.startswith(b"\xff\xd8\xff"):
        return _jpeg(data)
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return _png(data)
    if data.startswith(b"GIF8"):
        return Bare(_gif(data))
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return Bare(data, _webp_orientation(data))
    if data[:2] in (b"II", b"MM"):
        return _tiff(data)
    if data[:2] in (b"P1", b"P2", b"P3") and data.count(b"#") > MOST_COMMENTS:
        raise ValueError(f"it has more than {MOST_COMMENTS} comments")
    return Bare(data)


def _steps(size: int) -> Iterator[None]:
    """Yield None for each part that a file of `size` bytes may have. Then raise ValueError."""
    most = MOST_SEGMENTS + size // 1024
    for _ in range(most):
        yield
    raise ValueError(f"it has more than {most:,} parts")


def _jpeg(data: bytes) -> Bare:
    kept, exif, scans, place = [data[:2]], b"", 0, 2
    steps = _steps(len(data))
    while found := JPEG_MARKER.search(data, place):
        next(steps)
        start, place, marker = found.start(), found.end(), data[found.end() - 1]
        if marker == END:
            break
        place += int.from_bytes(data[place : place + 2])
        if marker == SCAN:
            if not scans:
                kept.append(data[start:])
            scans += 1
        elif not scans and marker not in JPEG_METADATA:
            kept.append(data[start:place])
        elif not exif and data.startswith(EXIF, start + 4):
            exif = data[start + 4 + len(EXIF) : place]
    return Bare(b"".join(kept), _orientation(exif), scans)


def _png(data: bytes) -> Bare:
    kept, exif, place, kind = [data[:8]], b"", 8, b""
    steps = _steps(len(data))
    while place + 8 <= len(data) and kind != b"IEND":
        next(steps)
        length, kind = struct.unpack_from(">I4s", data, place)
        start, place = place, place + 12 + length
        if kind not in PNG_METADATA:
            kept.append(data[start:place])
        elif kind == b"eXIf":
            exif = data[start + 8 : place - 4]
    return Bare(b"".join(kept), _orientation(exif))


def _gif(data: bytes) -> bytes:
    """Return a GIF without the extensions before its first frame. Graphic control extensions are kept."""
    flags = data[10] if len(data) > 10 else 0
    place = 13 + (3 << ((flags & 7) + 1) if flags & 0x80 else 0)  # after the palette
    kept = [data[:place]]
    steps = _steps(len(data))
    while (found := GIF_BLOCK.search(data, place)) and found[0] == b"!":
        next(steps)
        start, place = found.start(), found.end() + 1
        while place < len(data) and data[place]:
            place += 1 + data[place]
        place += 1
        if data[start + 1 : start + 2] == b"\xf9":
            kept.append(data[start:place])
    return b"".join([*kept, data[found.start() :] if found else b""])


def _webp_orientation(data: bytes) -> int:
    place = 12
    steps = _steps(len(data))
    while place + 8 <= len(data):
        next(steps)
        kind, length = struct.unpack_from("<4sI", data, place)
        if kind == b"EXIF":
            return _orientation(data[place + 8 : place + 8 + length].removeprefix(EXIF))
        place += 8 + length + length % 2
    return 1


def _orientation(exif: bytes) -> int:
    """Return the orientation in EXIF data, which has the form of a TIFF; 1 if it is damaged or empty."""
    try:
        return tiff_tags.read(exif).orientation if exif else 1
    except ValueError:
        return 1


def _tiff(data: bytes) -> Bare:
    """Return a TIFF with only its first page, and with only the tags that decide the pixels."""
    tags = tiff_tags.read(data)
    pieces = tags.pieces()
    scans = 1
    if tags.one(tiff_tags.COMPRESSION, 1) == tiff_tags.JPEG:
        if sum(size for _, size in pieces) > len(data) or not all(size for _, size in pieces):
            raise ValueError("its strips overlap, or have no bytes")
        scans = max(_jpeg(data[start : start + size]).scans for start, size in pieces)
    return Bare(tags.alone(data), tags.orientation, scans, tags)
