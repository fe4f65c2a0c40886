"""Read the sizes and orientations of images from their headers. No pixel is decoded."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from io import SEEK_CUR, BufferedReader
from pathlib import Path

from PIL import Image, PngImagePlugin, TiffImagePlugin

from pipeline.datasets.images import FORMATS, orientation_of
from pipeline.io.inputs import opened
from pipeline.io.prefetch import prefetch
from pipeline.io.progress import track

WIDTH, HEIGHT = 256, 257  # numbers of TIFF tags
THREADS = os.cpu_count() or 1
PNG_SIGNATURE = 8  # bytes before a PNG's first chunk
PNG_ORIENTED = (b"Raw profile type exif\0", b"XML:com.adobe.xmp\0")
"""Keywords of the text chunks of a PNG in which Pillow finds an orientation, besides the chunk eXIf."""


@dataclass(frozen=True, slots=True)
class Header:
    """Size of an image in stored pixels, and its EXIF orientation (1: upright)."""

    width: int
    height: int
    orientation: int = 1

    def __str__(self) -> str:
        return f"{self.width} x {self.height}"


def read(path: Path) -> Header | None:
    """Return an image's header; None for a missing file or no image, which other checks name."""
    try:
        with opened(path) as file, Image.open(file, formats=FORMATS) as image:
            width, height = image.size
            if isinstance(image, TiffImagePlugin.TiffImageFile):  # Pillow turns the size of a TIFF
                width, height = int(image.tag_v2[WIDTH]), int(image.tag_v2[HEIGHT])
            is_png = isinstance(image, PngImagePlugin.PngImageFile)
            # Pillow decodes all pixels of a PNG to find metadata behind them
            upright = is_png and not _may_have_orientation(file)
            return Header(width, height, 1 if upright else orientation_of(image))
    except Exception:  # Pillow raises any exception on damaged files
        return None


def _may_have_orientation(png: BufferedReader) -> bool:
    """Return True if a PNG file has a chunk that may contain an EXIF orientation."""
    longest = max(map(len, PNG_ORIENTED))
    position = png.tell()
    png.seek(PNG_SIGNATURE)
    try:
        while len(head := png.read(8)) == 8:  # length and type of a chunk
            length, kind = int.from_bytes(head[:4]), head[4:]
            start = png.read(min(length, longest))
            if kind == b"eXIf" or (kind in (b"tEXt", b"zTXt", b"iTXt") and start.startswith(PNG_ORIENTED)):
                return True
            png.seek(length - len(start) + 4, SEEK_CUR)  # 4: the chunk's checksum
        return False
    finally:
        png.seek(position)


def read_all(root: Path, names: Iterable[str], label: str | None = None) -> dict[str, Header]:
    """Return the header of each image below `root` that has one; `label`: shown by a progress bar."""
    paths = list(dict.fromkeys(names))
    found = prefetch(partial(_below, root), paths, THREADS, 16 * THREADS)
    headers = found if label is None else track(found, label, "images", len(paths))
    return {name: header for name, header in zip(paths, headers, strict=True) if header}


def _below(root: Path, name: str) -> Header | None:
    return read(root / name)
