"""Read the sizes and orientations of images from their headers. No pixel is decoded."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from PIL import Image, TiffImagePlugin

from pipeline.datasets.images import FORMATS, orientation_of
from pipeline.io.inputs import opened
from pipeline.io.prefetch import prefetch
from pipeline.io.progress import track

WIDTH, HEIGHT = 256, 257  # numbers of TIFF tags
THREADS = os.cpu_count() or 1


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
            return Header(width, height, orientation_of(image))
    except Exception:  # Pillow raises any exception on damaged files
        return None


def read_all(root: Path, names: Iterable[str], label: str | None = None) -> dict[str, Header]:
    """Return the header of each image below `root` that has one; `label`: shown by a progress bar."""
    paths = list(dict.fromkeys(names))
    found = prefetch(partial(_below, root), paths, THREADS, 16 * THREADS)
    headers = found if label is None else track(found, label, "images", len(paths))
    return {name: header for name, header in zip(paths, headers, strict=True) if header}


def _below(root: Path, name: str) -> Header | None:
    return read(root / name)
