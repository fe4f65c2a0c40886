"""Which test pairs the page shows, and their pictures as it embeds them."""

import base64
import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.datasets.schema import CHANGE_TYPES, NO_CHANGE, Pair
from pipeline.errors import InputError
from pipeline.images import Indexed, decode, read_bytes

SIDE = 320  # pixels at most, of an embedded picture
QUALITY = 85  # of JPEG


@dataclass(frozen=True)
class Picture:
    """A picture that needs no file: its address holds its bytes."""

    address: str
    width: int  # as it is embedded
    height: int
    original: tuple[int, int]  # width and height of the file, which boxes refer to


def choose(pairs: Sequence[Pair], count: int) -> dict[str | None, list[Pair]]:
    """Up to `count` pairs by change type, as many of each type as can be, spread over the pairs' order.

    The types are in the schema's order, then no change, then unknown (None).
    """
    kinds = {kind: [p for p in pairs if p.change_type == kind] for kind in (*CHANGE_TYPES, NO_CHANGE, None)}
    shares = _shares({kind: len(members) for kind, members in kinds.items()}, count)
    return {kind: _spread(kinds[kind], share) for kind, share in shares.items() if share}


def _shares(sizes: dict[str | None, int], count: int) -> dict[str | None, int]:
    """How many of each kind, dealt out one by one."""
    shares = dict.fromkeys(sizes, 0)
    for _ in range(min(count, sum(sizes.values()))):
        # the first of those that have the fewest so far
        kind = min((kind for kind in sizes if shares[kind] < sizes[kind]), key=shares.__getitem__)
        shares[kind] += 1
    return shares


def _spread(members: list[Pair], count: int) -> list[Pair]:
    return [members[number * len(members) // count] for number in range(count)]


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
