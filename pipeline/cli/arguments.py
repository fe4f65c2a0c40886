"""Types and checks of command-line arguments. One check is that no output is also an input."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from pipeline.datasets.schema import Pair, of_split
from pipeline.io.errors import InputError
from pipeline.io.outputs import Contents, file_to_write

SEEDS = (0, 2**31 - 1)
PORTS = (1, 65_535)
MOST_PARTS = 10_000  # each part (shard of a job) is a process and a row of the live table
# types of arguments that name outputs
WRITTEN = (file_to_write.__name__, Contents.to_write.__name__)


def whole(lowest: int, highest: int) -> Callable[[str], int]:
    """Return an argument type for whole numbers from `lowest` to `highest`."""

    def number(text: str) -> int:
        if text.isdecimal() and len(text) < 20 and lowest <= int(text) <= highest:
            return int(text)
        raise argparse.ArgumentTypeError(f"{text[:40]} is not a whole number from {lowest} to {highest}")

    return number


def real(lowest: float, highest: float) -> Callable[[str], float]:
    """Return an argument type for numbers from `lowest` to `highest`; NaN is refused."""

    def number(text: str) -> float:
        try:
            if lowest <= float(text) <= highest:
                return float(text)
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(f"{text[:40]} is not a number from {lowest} to {highest}")

    return number


parts = jobs = whole(1, MOST_PARTS)
beam = whole(1, 64)  # hypotheses per pair, all in memory
length_penalty = real(0.0, 10.0)
probability = real(0.0, 1.0)


def part_of(text: str) -> tuple[int, int]:
    """Parse the text `I/N`, which means part I of N parts. I counts from 0."""
    index, _, count = text.partition("/")
    if len(text) < 20 and index.isdecimal() and count.isdecimal() and int(index) < int(count) <= MOST_PARTS:
        return int(index), int(count)
    raise argparse.ArgumentTypeError(f"{text[:40]} is not I/N with 0 <= I < N <= {MOST_PARTS}")


def word(text: str) -> str:
    """Argument type for text that is not the name of a file: a dataset, a model, a revision, a sentence."""
    return text


def to_read(text: str) -> Path:
    """Argument type for an input: a file or a folder. Does not check that the input exists."""
    return Path(text)


def address_to_read(text: str) -> str:
    """Argument type for an input: a folder of one or more feature stores, or its address (http, s3, gs)."""
    return text


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}; {self.prog} --help explains the arguments\n")


def new_parser(program: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser of the arguments of `program`. Its help shows the description with its line breaks."""
    layout = argparse.RawDescriptionHelpFormatter
    return _Parser(prog=program, description=description, formatter_class=layout)


def is_output(action: argparse.Action) -> bool:
    return getattr(action.type, "__name__", "") in WRITTEN


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the command line. Raise InputError if an output is also an input or another output.

    Outputs and inputs are recognised by the types of the arguments, which must be types of this module.
    """
    arguments = parser.parse_args()
    written: list[Path] = []
    read: list[str | Path] = []
    for action in parser._actions:
        value = getattr(arguments, action.dest, None)
        values = value if isinstance(value, list | tuple) else [value]
        if is_output(action):
            written += filter(None, values)
        elif action.type in (to_read, address_to_read):
            read += filter(None, values)
    check_apart(written, read)
    return arguments


def check_apart(written: Sequence[Path], read: Sequence[str | Path]) -> None:
    """Raise InputError if an output is also an input or another output."""
    used = {location for path in read for location in (_location(Path(path)), Path(path).resolve())}
    for path in written:
        if (location := _location(path)) in used:
            raise InputError(f"{path} is named twice and would be overwritten; name another file to write")
        used.add(location)


def check_exist(paths: Sequence[Path | None], remedy: str) -> None:
    """Raise InputError if a path (or None) to read does not exist, before slow imports."""
    for path in filter(None, paths):
        if not path.exists():
            raise InputError(f"{path} does not exist; {remedy}")


def pairs_of(path: str | Path, split: str) -> list[Pair]:
    return pairs_and_others(path, split)[0]


def pairs_and_others(path: str | Path, split: str) -> tuple[list[Pair], list[str]]:
    """Return the pairs of a split, at least one, and the ids of the file's other pairs."""
    from pipeline.datasets.manifest import read_pairs

    everything = read_pairs(path)
    if not (pairs := of_split(everything, split)):
        raise InputError(f"{path} has no pair of the split {split}; choose another split")
    return pairs, [pair.pair_id for pair in everything if pair.split != split]


def _location(path: Path) -> Path:
    """Return the path with links resolved in its folders only; writing replaces a link at its end."""
    return path.parent.resolve() / path.name
