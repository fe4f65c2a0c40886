"""TIFF files by hand, of every kind that a test wants: most writers make only a few of them."""

import struct
import zlib

import numpy as np

WHITE_IS_ZERO, GREY, RGB, PALETTE, CMYK, YCBCR, LAB = 0, 1, 2, 3, 5, 6, 8


def tiff(samples, colours, *, order="<", planar=1, packed=False, tile=False, extra=(), **more):
    """A file of `samples`, H x W x bands, of a numpy type that says bits and sample format.

    `more`: numbers of further tags by name; they replace those that the samples say.
    """
    height, width, bands = samples.shape
    planes = [samples] if planar == 1 else [samples[..., band : band + 1] for band in range(bands)]
    pieces = [piece for plane in planes for piece in (_tiles(plane) if tile else [plane])]
    data = [piece.astype(samples.dtype.newbyteorder(order)).tobytes() for piece in pieces]
    data = [zlib.compress(piece) for piece in data] if packed else data
    tags = {
        256: [width],
        257: [height],
        258: [8 * samples.dtype.itemsize] * bands,
        259: [8 if packed else 1],
        262: [colours],
        277: [bands],
        284: [planar],
        339: [{"u": 1, "i": 2, "f": 3}[samples.dtype.kind]] * bands,
        **({322: [16], 323: [16]} if tile else {278: [height]}),
        **({338: list(extra)} if extra else {}),
        **{int(name.removeprefix("t")): numbers for name, numbers in more.items()},
    }
    return written(tags, data, order, (324, 325) if tile else (273, 279))


def _tiles(plane):
    height, width, bands = plane.shape
    whole = np.zeros((-(-height // 16) * 16, -(-width // 16) * 16, bands), plane.dtype)
    whole[:height, :width] = plane
    return [whole[y : y + 16, x : x + 16] for y in range(0, height, 16) for x in range(0, width, 16)]


def written(tags, data, order="<", places=(273, 279)):
    """The tags' numbers, as LONG, and the strips or tiles behind them."""
    tags = dict(
        sorted({**tags, places[0]: [0] * len(data), places[1]: [len(piece) for piece in data]}.items())
    )
    start = 8 + 2 + 12 * len(tags) + 4
    first = start + sum(4 * len(numbers) for numbers in tags.values() if len(numbers) > 1)
    tags[places[0]] = [first + sum(map(len, data[:number])) for number in range(len(data))]
    head, behind = b"", b""
    for tag, numbers in tags.items():
        value = numbers[0] if len(numbers) == 1 else start + len(behind)
        head += struct.pack(f"{order}HHII", tag, 4, len(numbers), value)
        if len(numbers) > 1:
            behind += struct.pack(f"{order}{len(numbers)}I", *numbers)
    mark = {"<": b"II", ">": b"MM"}[order]
    directory = struct.pack(f"{order}H", len(tags)) + head + bytes(4)
    return mark + struct.pack(f"{order}HI", 42, 8) + directory + behind + b"".join(data)
