"""Read the TIFF tags that decide the pixels, and check that Pillow decodes this kind of TIFF correctly.

EXIF data has the same form as a TIFF, so this module also finds the orientation in EXIF data.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC, ORIENTATION = 256, 257, 258, 259, 262, 274
SAMPLES, PLANAR, EXTRA, SAMPLE_FORMAT, INK_SET = 277, 284, 338, 339, 332
OFFSETS, SIZES = (273, 324), (279, 325)  # the tag for strips, and the tag for tiles
KEPT = {
    *(WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC, SAMPLES, PLANAR, EXTRA, SAMPLE_FORMAT, INK_SET),
    *(*OFFSETS, *SIZES, 266, 278, 292, 293, 317, 320, 322, 323, 347, 529, 530, 532),
}
"""Numbers of the tags that decide how the pixels are decoded."""
OTHER_TYPES = {347, 529, 532}  # tags that are not integers: JPEG's tables, fractions of YCbCr
NUMBERS = {1: "B", 3: "H", 4: "I", 16: "Q"}  # integer type of TIFF -> letter of the struct module
BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 6: 1, 7: 1, 8: 2, 9: 4, 11: 4, 13: 4}  # type -> bytes; 8 for other types
ORDERS = {b"II": "<", b"MM": ">"}
MOST_TAGS = 0xFFFF
JPEG = 7
COMPRESSIONS = {1, 2, 3, 4, 5, JPEG, 8, 32773, 32946, 34925, 50000}
WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, PALETTE, CMYK, YCBCR = 0, 1, 2, 3, 5, 6
COLOURS = {WHITE_IS_ZERO: 1, BLACK_IS_ZERO: 1, RGB: 3, PALETTE: 1, CMYK: 4, YCBCR: 3}
"""Photometric interpretation that is read -> number of its bands, without extra bands."""
DEPTHS = {WHITE_IS_ZERO: {1, 2, 4, 8}, BLACK_IS_ZERO: {1, 2, 4, 8, 16}, PALETTE: {1, 2, 4, 8}, YCBCR: {8}}
"""Photometric interpretation -> bits per band that are read; 8 or 16 for other interpretations."""
UNSIGNED = 1
UNSPECIFIED = 0  # kind of an extra band that is not alpha, such as infrared
ALPHA = {1, 2}  # kinds of an alpha band: premultiplied or not
MAGICK = "magick IN.tif[0] -colorspace sRGB -depth 8 OUT.png"
GDAL = (
    "gdal_translate -ot Byte {} -scale LOWEST HIGHEST 0 255 IN.tif OUT.png, with the same LOWEST "
    "and HIGHEST for all images"
)


@dataclass(frozen=True, slots=True)
class Tags:
    """The tags in the first directory of a TIFF file."""

    values: dict[int, tuple[int, ...]]  # tag -> its integers; empty if its values are not integers
    start: int  # offset of the directory in the file
    kept: bytes  # the directory reduced to the tags of KEPT

    def one(self, tag: int, default: int) -> int:
        """Return the first number of a tag, or `default` if the tag is missing."""
        return (self.values.get(tag) or (default,))[0]

    @property
    def orientation(self) -> int:
        """The orientation, from 1 to 8; 1 if the tag is missing or invalid."""
        turn = self.one(ORIENTATION, 1)
        return turn if 1 <= turn <= 8 else 1

    def alone(self, data: bytes) -> bytes:
        """Return the TIFF file `data` with only its first page, and with only the tags in KEPT."""
        return data[: self.start] + self.kept + data[self.start + len(self.kept) :]

    def pieces(self) -> list[tuple[int, int]]:
        """Return (offset, size) in bytes of each strip or tile. Raises ValueError if there are none."""
        kind = 0 if OFFSETS[0] in self.values else 1
        pieces = list(zip(self.values.get(OFFSETS[kind], ()), self.values.get(SIZES[kind], ()), strict=False))
        if not pieces:
            raise ValueError("it does not say where its pixels are")
        return pieces

    @property
    def extra(self) -> tuple[int, ...]:
        """Kind of each band after the colour bands; UNSPECIFIED for a band whose kind is not stated."""
        named = self.values.get(EXTRA, ())
        beyond = self.one(SAMPLES, 1) - COLOURS.get(self.one(PHOTOMETRIC, WHITE_IS_ZERO), 0)
        return (*named, *[UNSPECIFIED] * max(0, min(beyond, 9) - len(named)))

    @property
    def opaque(self) -> bool:
        """True if the first extra band is not alpha, or if there is no extra band."""
        return not {*self.extra[:1]} & ALPHA

    @property
    def _bits(self) -> set[int]:
        return set(self.values.get(BITS) or (1,))

    @property
    def _formats(self) -> set[int]:
        return set(self.values.get(SAMPLE_FORMAT) or (UNSIGNED,))

    def fault(self) -> str | None:
        """Return why the pixels cannot be decoded; None if the tags show no reason."""
        colours, compression = self.one(PHOTOMETRIC, WHITE_IS_ZERO), self.one(COMPRESSION, 1)
        if compression not in COMPRESSIONS:
            return f"compression {compression}"
        if colours not in COLOURS or (colours == CMYK and self.one(INK_SET, 1) != 1):
            return f"colours of another kind (PhotometricInterpretation {colours})"
        if self._formats != {UNSIGNED}:
            return "numbers that are signed, floating or complex"
        if not self._bits <= DEPTHS.get(colours, {8, 16}):
            return f"a depth that is not read for its colours (PhotometricInterpretation {colours})"
        unnamed = len(self.extra) > len(self.values.get(EXTRA, ()))
        if self.one(PLANAR, 1) == 2 and (unnamed if colours == RGB else not self.opaque):
            # Pillow divides the colours by a band that the file does not name
            return "alpha, or a band without a kind, in a plane of its own"
        return None

    def described(self) -> str:
        """Return a description of the pixels, and a command that converts the file, for an error message."""
        bands, bits = self.one(SAMPLES, 1), "/".join(map(str, sorted(self._bits)))
        simple = self._bits <= {1, 2, 4, 8, 12, 16} and bands <= 5 and self._formats == {UNSIGNED}
        command = MAGICK if simple else GDAL.format("-b 1 -b 2 -b 3" if bands >= 3 else "-b 1")
        return f"{bands} band(s) of {bits} bits; convert it: {command}"


def of_pillow(found: Mapping[int, Any]) -> Tags:
    """Return the tags of a file that Pillow has opened."""
    values = {tag: found[tag] for tag in KEPT if tag in found}
    whole = {tag: value if isinstance(value, tuple) else (value,) for tag, value in values.items()}
    return Tags(whole, 0, b"")


def read(data: bytes) -> Tags:
    """Return the tags of a TIFF file. Raises ValueError if it is no TIFF, or its tags overlap or repeat."""
    if data[:2] not in ORDERS:
        raise ValueError("it has no byte order")
    order = ORDERS[data[:2]]
    try:
        big = struct.unpack_from(f"{order}H", data, 2)[0] == 43
        (start,) = struct.unpack_from(f"{order}Q" if big else f"{order}I", data, 8 if big else 4)
        (count,) = struct.unpack_from(f"{order}Q" if big else f"{order}H", data, start)
        return _directory(data, order, big, start, count)
    except (struct.error, OverflowError):
        raise ValueError("its directory of tags is cut off") from None


def _directory(data: bytes, order: str, big: bool, start: int, count: int) -> Tags:
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
            raise ValueError(f"its tag {tag} is repeated, or not an integer")
        length_in_bytes = length * BYTES.get(kind, 8)
        taken += length_in_bytes
        if taken > len(data):
            raise ValueError("its tags overlap")
        where = at + size - inline if length_in_bytes <= inline else struct.unpack(order + offset, value)[0]
        form = f"{order}{length}{NUMBERS[kind]}" if kind in NUMBERS else ""
        values[tag] = struct.unpack_from(form, data, where)
        kept += [data[at : at + size]] * (tag in KEPT)
    directory = struct.pack(order + head, len(kept)) + b"".join(kept) + bytes(inline)
    return Tags(values, start, directory)
