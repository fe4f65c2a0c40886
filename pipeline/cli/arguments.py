"""What a command line may say: numbers of a range, a split that has pairs, outputs that are no inputs."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from pipeline.datasets.manifest import read_pairs
from pipeline.datasets.schema import Pair, of_split
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_yaml
from pipeline.io.outputs import Contents, file_to_write

SEEDS = (0, 2**31 - 1)
PORTS = (1, 65_535)
MOST_PARTS = 10_000  # each is a process, and a row of the live table
WRITTEN = (file_to_write.__name__, Contents.to_write.__name__)  # what the arguments of outputs are read by


def whole(least: int, most: int) -> Callable[[str], int]:
    """A whole number from `least` to `most`, which is all that the program can do."""

    def number(text: str) -> int:
        if text.isdecimal() and len(text) < 20 and least <= int(text) <= most:
            return int(text)
        raise argparse.ArgumentTypeError(f"{text[:40]} is not a whole number from {least} to {most}")

    return number


def real(least: float, most: float) -> Callable[[str], float]:
    """A number from `least` to `most`; NaN is none."""

    def number(text: str) -> float:
        try:
            if least <= float(text) <= most:
                return float(text)
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(f"{text[:40]} is not a number from {least} to {most}")

    return number


parts = whole(1, MOST_PARTS)
jobs = whole(1, MOST_PARTS)
beam = whole(1, 64)  # hypotheses of each pair, all in memory at once
resamples = whole(1, 1_000_000)  # their scores are in memory at once
cells = whole(1, 1_000_000)  # 8 GB of features of 2,048 channels
heads = whole(1, 1024)
blocks = whole(0, 100)
longest = whole(1, 1024)  # the tokens of a caption
length_penalty = real(0.0, 10.0)
seconds = real(0.001, 1_000_000.0)


def part_of(text: str) -> tuple[int, int]:
    """`I/N`, the I-th of N parts, counted from 0."""
    index, _, count = text.partition("/")
    if not (
        len(text) < 20 and index.isdecimal() and count.isdecimal() and int(index) < int(count) <= MOST_PARTS
    ):
        raise argparse.ArgumentTypeError(
            f"{text[:40]} is not I/N, the I-th of N parts, counted from 0, of {MOST_PARTS} at most"
        )
    return int(index), int(count)


def word(text: str) -> str:
    """An argument that names no file: a dataset, a model, a revision, a sentence."""
    return text


def to_read(text: str) -> Path:
    """An argument that names a file or a folder which the command only reads."""
    return Path(text)


def address_to_read(text: str) -> str:
    """An argument that names a folder of stores which the command only reads, or their address."""
    return text


def is_output(action: argparse.Action) -> bool:
    """Whether an argument names what the command writes: its type is `file_to_write` or some `to_write`."""
    return getattr(action.type, "__name__", "") in WRITTEN


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The command line. Raise InputError where an output is a file that is read, or another output.

    The type of each argument says what it is: an output, a path to read, or a word; a plain Path does not.
    """
    arguments = parser.parse_args()
    written: list[Path] = []
    read: list[str | Path] = []
    for action in parser._actions:
        value = getattr(arguments, action.dest, None)
        values = [
            each for each in (value if isinstance(value, list | tuple) else [value]) if each is not None
        ]
        if is_output(action):
            written += values
        elif action.type in (to_read, address_to_read):
            read += values
    check_apart(written, read)
    return arguments


def check_apart(written: Sequence[Path | None], read: Sequence[str | Path | None]) -> None:
    """Raises InputError where an output is a file that is read, or another output."""
    taken = {
        place for path in read if path is not None for place in (_place(Path(path)), Path(path).resolve())
    }
    for path in filter(None, written):
        if (place := _place(path)) in taken:
            raise InputError(f"{path} is named twice, and would be lost; name another file to write")
        taken.add(place)


def pairs_of(path: str | Path, split: str) -> list[Pair]:
    """The prepared pairs of a split. Raises InputError where there are none."""
    if not (pairs := of_split(read_pairs(path), split)):
        raise InputError(f"{path} has no pair of the split {split}; choose another split")
    return pairs


def _place(path: Path) -> Path:
    """Where a name stands: a link is replaced itself."""
    return path.parent.resolve() / path.name


def needed(path: Path | None) -> bool:
    """What one of the stage plan's files says, true without one. Raises InputError where it is missing."""
    return path is None or bool(read_yaml(path, "run `dvc repro plan` to make it"))
