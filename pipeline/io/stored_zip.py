"""Read zip files strictly, so that the bytes inspected here are the bytes that torch.load reads.

torch.save writes zip files of uncompressed records. A zip file states the position of each record several
times, and different programs use different statements. Therefore a file is refused if its statements
disagree. An accepted file has one directory, at its end, and has each record once.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

# binary forms of the parts of a zip file; each part begins with a mark
END, END64, LOCATOR = struct.Struct("<4s4H2IH"), struct.Struct("<4sQ2H2I4Q"), struct.Struct("<4sIQI")
ENTRY, LOCAL = struct.Struct("<4s6H3I5H2I"), struct.Struct("<4s5H3I2H")
WIDE = struct.Struct("<HH")  # number and length of an extra field
MOST_16, MOST_32 = 0xFFFF, 0xFFFFFFFF  # placeholders for numbers that are elsewhere in the file, in 64 bits
ENCRYPTED = 1  # flag of an encrypted record
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a zip file, as the file's directory describes it."""

    name: bytes
    size: int  # number of bytes in the file
    stored: bool  # True if the record is not compressed
    checksum: int
    start: int  # offset of the record's local header in the file
    data: int = 0  # offset of the record's bytes in the file


def records(file: BinaryIO) -> list[Record]:
    """Return the records of a zip file, in the order of its directory.

    Raises ValueError for a file that torch.save does not write, for example with overlapping records or two
    directories.
    """
    try:
        return _checked(file)
    except (struct.error, OverflowError):
        raise ValueError("it is cut off") from None


def _checked(file: BinaryIO) -> list[Record]:
    start, end, count = _directory(file)
    found = [_located(file, record) for record in _entries(_read(file, start, end - start))]
    if len(found) != count:
        raise ValueError("its directory has another number of records than it says")
    place = 0
    for record in sorted(found, key=lambda record: record.start):
        if record.start < place:
            raise ValueError("its records overlap, as torch.save's do not")
        place = record.data + record.size
    if place > start:
        raise ValueError("its records overlap its directory")
    if len({record.name.lower() for record in found}) < count:
        raise ValueError("it has two records of one name")  # upper and lower case are equal for torch
    return found


def _read(file: BinaryIO, start: int, size: int) -> bytes:
    file.seek(start)
    return file.read(size)


def _directory(file: BinaryIO) -> tuple[int, int, int]:
    """Find the directory of a zip file. Return its start offset, end offset, and number of records."""
    size = file.seek(0, 2)
    end = size - END.size
    mark, *disks, here, count, length, start, comment = END.unpack(_read(file, max(0, end), END.size))
    if mark != b"PK\5\6" or comment or any(disks) or here != count:
        raise ValueError("it is cut off, or has something behind its directory")
    place = end - LOCATOR.size
    if place >= 0 and (found := _read(file, place, LOCATOR.size)).startswith(b"PK\6\7"):
        said = (count, length, start)
        end = place - END64.size
        if end < 0 or LOCATOR.unpack(found)[1:] != (0, end, 1):
            raise ValueError("it has two directories")
        mark, rest, _, _, *disks, here, count, length, start = END64.unpack(_read(file, end, END64.size))
        wide = (count, length, start)
        most = (MOST_16, MOST_32, MOST_32)
        agree = all(short in (number, limit) for short, number, limit in zip(said, wide, most, strict=True))
        if mark != b"PK\6\6" or rest != END64.size - 12 or any(disks) or here != count or not agree:
            raise ValueError("its two ends say different things")
    if start + length != end:
        raise ValueError("its directory is not where it says")
    return start, end, count


def _entries(directory: bytes) -> Iterator[Record]:
    place = 0
    while place < len(directory):
        entry = ENTRY.unpack_from(directory, place)
        mark, flags, method = entry[0], entry[3], entry[4]
        checksum, packed, size, name, extra, comment, disk, *_, start = entry[7:]
        place += ENTRY.size
        names = directory[place : place + name]
        fields = directory[place + name : place + name + extra]
        place += name + extra + comment
        size, packed, start = _wide(fields, (size, packed, start))
        if mark != b"PK\1\2" or place > len(directory) or b"\0" in names or disk or flags & ENCRYPTED:
            raise ValueError("its directory is damaged")
        yield Record(names, packed, not method and size == packed, checksum, start)


def _wide(fields: bytes, numbers: tuple[int, ...]) -> list[int]:
    """Return `numbers`. A number that is a placeholder is replaced by a 64-bit value in the extra fields.

    Raises ValueError unless the extra fields have exactly these values.
    """
    found, place = [], 0
    while place < len(fields):
        kind, length = WIDE.unpack_from(fields, place)
        place += WIDE.size + length
        if kind == 1:
            found.append(fields[place - length : place])
    missing = numbers.count(MOST_32)
    if place != len(fields) or [len(each) for each in found] != [8 * missing] * bool(missing):
        raise ValueError("it says sizes twice, or not at all")
    wide = iter(struct.unpack(f"<{missing}Q", found[0]) if found else ())
    return [next(wide) if number == MOST_32 else number for number in numbers]


def _located(file: BinaryIO, record: Record) -> Record:
    """Return the record with the offset of its bytes, which is computed from its local header."""
    mark, *_, name, extra = LOCAL.unpack(_read(file, record.start, LOCAL.size))
    if mark != b"PK\3\4" or file.read(name) != record.name:
        raise ValueError("its directory names a record that is not where it says")
    return replace(record, data=record.start + LOCAL.size + name + extra)


def read(file: BinaryIO, record: Record) -> bytes:
    """Return the bytes of a record."""
    return _read(file, record.data, record.size)


def damaged(file: BinaryIO, record: Record) -> bool:
    """Return True if a record's bytes are incomplete or do not match its checksum."""
    file.seek(record.data)
    left, checksum = record.size, 0
    while left and (part := file.read(min(left, CHUNK))):
        left -= len(part)
        checksum = zlib.crc32(part, checksum)
    return left > 0 or checksum != record.checksum
