"""What a TIFF's tags say of its pixels, and which kinds are read: Pillow decodes others wrongly.

EXIF has the same form, and its orientation is read here, too.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC, ORIENTATION = 256, 257, 258, 259, 262, 274
SAMPLES, PLANAR, EXTRA, SAMPLE_FORMAT, INK_SET = 277, 284, 338, 339, 332
OFFSETS, SIZES = (273, 324), (279, 325)  # of strips, of tiles
KEPT = {
    *(WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC, SAMPLES, PLANAR, EXTRA, SAMPLE_FORMAT, INK_SET),
    *(*OFFSETS, *SIZES, 266, 278, 292, 293, 317, 320, 322, 323, 347, 529, 530, 532),
}
"""Tags that decide how pixels are read."""
OTHER_TYPES = {347, 529, 532}  # JPEG's tables; fractions of YCbCr
NUMBERS = {1: "B", 3: "H", 4: "I", 16: "Q"}  # type -> how struct calls it
BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 6: 1, 7: 1, 8: 2, 9: 4, 11: 4, 13: 4}  # of a type; of others 8
ORDERS = {b"II": "<", b"MM": ">"}
MOST_TAGS = 0xFFFF
JPEG = 7
COMPRESSIONS = {1, 2, 3, 4, 5, JPEG, 8, 32773, 32946, 34925, 50000}
WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, PALETTE, CMYK, YCBCR = 0, 1, 2, 3, 5, 6
COLOURS = {WHITE_IS_ZERO: 1, BLACK_IS_ZERO: 1, RGB: 3, PALETTE: 1, CMYK: 4, YCBCR: 3}
"""Kinds of pixels that are read, and their bands without extra ones."""
DEPTHS = {WHITE_IS_ZERO: {1, 2, 4, 8}, BLACK_IS_ZERO: {1, 2, 4, 8, 16}, PALETTE: {1, 2, 4, 8}, YCBCR: {8}}
"""Bits of each band; 8 or 16 of other kinds."""
UNSIGNED = 1
UNSPECIFIED = 0  # an extra band: infrared, say
ALPHA = {1, 2}  # premultiplied, or not
MAGICK = "magick IN.tif[0] -colorspace sRGB -depth 8 OUT.png"
GDAL = (
    "gdal_translate -ot Byte {} -scale LOWEST HIGHEST 0 255 IN.tif OUT.png, with the same LOWEST "
    "and HIGHEST for all pictures"
)


@dataclass(frozen=True, slots=True)
class Tags:
    """The first directory of a file."""

    values: dict[int, tuple[int, ...]]  # tag -> whole numbers; no other values
    start: int  # of the directory in the file
    kept: bytes  # the directory with the tags of KEPT alone

    def one(self, tag: int, default: int) -> int:
        """A tag's first number."""
        return (self.values.get(tag) or (default,))[0]

    @property
    def orientation(self) -> int:
        """1 where nothing, or nothing valid, is said."""
        turn = self.one(ORIENTATION, 1)
        return turn if 1 <= turn <= 8 else 1

    def alone(self, data: bytes) -> bytes:
        """The file with the directory that has no other tags, and no further page."""
        return data[: self.start] + self.kept + data[self.start + len(self.kept) :]

    def pieces(self) -> list[tuple[int, int]]:
        """Return where strips or tiles begin, and their bytes. Raises ValueError where there are none."""
        kind = 0 if OFFSETS[0] in self.values else 1
        pieces = list(zip(self.values.get(OFFSETS[kind], ()), self.values.get(SIZES[kind], ()), strict=False))
        if not pieces:
            raise ValueError("it says nowhere where its pixels are")
        return pieces

    @property
    def extra(self) -> tuple[int, ...]:
        """The kinds of the bands beyond the colours; the file may name fewer than it has."""
        said = self.values.get(EXTRA, ())
        beyond = self.one(SAMPLES, 1) - COLOURS.get(self.one(PHOTOMETRIC, WHITE_IS_ZERO), 0)
        return (*said, *[UNSPECIFIED] * max(0, min(beyond, 9) - len(said)))

    @property
    def opaque(self) -> bool:
        """Return whether the file calls no band alpha; a fourth band may be infrared."""
        return not {*self.extra[:1]} & ALPHA

    def fault(self) -> str | None:
        """Why its pixels are not read; None where they are, as far as tags say."""
        colours, compression = self.one(PHOTOMETRIC, WHITE_IS_ZERO), self.one(COMPRESSION, 1)
        bits, form = self._bits(), set(self.values.get(SAMPLE_FORMAT) or (UNSIGNED,))
        if compression not in COMPRESSIONS:
            return f"compression {compression}"
        if colours not in COLOURS or (colours == CMYK and self.one(INK_SET, 1) != 1):
            return f"colours of another kind (PhotometricInterpretation {colours})"
        if form != {UNSIGNED}:
            return "numbers that are signed, floating or complex"
        if not bits <= DEPTHS.get(colours, {8, 16}):
            return f"a depth that is not read for its colours (PhotometricInterpretation {colours})"
        apart = self.one(PLANAR, 1) == 2
        if apart and (
            not self.opaque if colours != RGB else len(self.extra) > len(self.values.get(EXTRA, ()))
        ):
            # Pillow divides the colours by a band of which nothing is said
            return "alpha, or a band of which nothing is said, in a plane of its own"
        return None

    def _bits(self) -> set[int]:
        return set(self.values.get(BITS) or (1,))

    def described(self) -> str:
        """Describe the file, and the command that makes it readable, for a message."""
        bits = "/".join(map(str, sorted(self._bits())))
        simple = self._bits() <= {1, 2, 4, 8, 12, 16} and self.one(SAMPLES, 1) <= 5
        whole = set(self.values.get(SAMPLE_FORMAT) or (UNSIGNED,)) == {UNSIGNED}
        shown = "-b 1 -b 2 -b 3" if self.one(SAMPLES, 1) >= 3 else "-b 1"
        command = MAGICK if simple and whole else GDAL.format(shown)
        return f"{self.one(SAMPLES, 1)} band(s) of {bits} bits; convert it: {command}"


def of_pillow(found: Mapping[int, Any]) -> Tags:
    """Tags of a file that Pillow has opened."""
    values = {tag: found[tag] for tag in KEPT if tag in found}
    whole = {tag: value if isinstance(value, tuple) else (value,) for tag, value in values.items()}
    return Tags(whole, 0, b"")


def read(data: bytes) -> Tags:
    """Raises ValueError for what is no TIFF, and for tags that overlap or are said twice."""
    if data[:2] not in ORDERS:
        raise ValueError("it says no order of bytes")
    order = ORDERS[data[:2]]
    try:
        big = struct.unpack_from(f"{order}H", data, 2)[0] == 43
        (start,) = struct.unpack_from(f"{order}Q" if big else f"{order}I", data, 8 if big else 4)
        (count,) = struct.unpack_from(f"{order}Q" if big else f"{order}H", data, start)
        return _directory(data, order, big, start, count)
    except (struct.error, OverflowError):
        raise ValueError("its directory of tags is cut off") from None


def _directory(data: bytes, order: str, big: bool, start: int, count: int) -> Tags:
    """As `read`."""
    head, entry, offset = ("Q", "HHQ8s", "Q") if big else ("H", "HHI4s", "I")
    inline, size, place = struct.calcsize(offset), struct.calcsize(f"<{entry}"), start + struct.calcsize(head)
    if count > MOST_TAGS:
        raise ValueError(f"it has more than {MOST_TAGS:,} tags")
    values: dict[int, tuple[int, ...]] = {}
    kept, taken = [], 0
    for at in range(place, place + count * size, size):
        tag, kind, length, value = struct.unpack_from(order + entry, data, at)
        if tag not in KEPT and tag != ORIENTATION:
            continue
        if tag in values or (kind not in NUMBERS and tag not in OTHER_TYPES):
            raise ValueError(f"it says its tag {tag} twice, or not in whole numbers")
        taken += length * BYTES.get(kind, 8)
        if taken > len(data):
            raise ValueError("its tags overlap")
        short = length * BYTES.get(kind, 8) <= inline
        where = at + size - inline if short else struct.unpack(order + offset, value)[0]
        form = f"{order}{length}{NUMBERS[kind]}" if kind in NUMBERS else ""
        values[tag] = struct.unpack_from(form, data, where)
        kept += [data[at : at + size]] * (tag in KEPT)
    directory = struct.pack(order + head, len(kept)) + b"".join(kept) + bytes(inline)
    return Tags(values, start, directory)
