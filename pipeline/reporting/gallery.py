"""The gallery's pictures as the page embeds them; which pairs: decoding/gallery_pairs.py."""

import base64
import hashlib
import io
from dataclasses import dataclass
from pathlib import Path

from pipeline.datasets.images import Indexed, decode, read_bytes
from pipeline.errors import InputError

SIDE = 480  # pixels at most, of an embedded picture
QUALITY = 85  # of JPEG


@dataclass(frozen=True)
class Picture:
    """A picture that needs no file: its address holds its bytes."""

    address: str
    width: int  # as it is embedded
    height: int
    original: tuple[int, int]  # width and height of the file, which boxes refer to


def picture(root: Path, image: Indexed) -> Picture:
    """An image of the dataset at `root`, made small, as JPEG in a data address.

    Raises InputError where the file is not the one that was prepared.
    """
    path = root / image.name
    data = read_bytes(path)
    if hashlib.sha256(data).hexdigest() != image.sha256:
        raise InputError(f"{path} has changed since the dataset was prepared; run `dvc repro`")
    small = decode(data, str(path))
    original = small.size
    small.thumbnail((SIDE, SIDE))
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=QUALITY, optimize=True)
    coded = base64.b64encode(buffer.getvalue()).decode()
    return Picture(f"data:image/jpeg;base64,{coded}", *small.size, original)
