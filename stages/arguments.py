"""Numbers of a command line, of a range: argparse refuses others with exit code 2."""

import argparse
from collections.abc import Callable

SEEDS = (0, 2**31 - 1)
PORTS = (1, 65_535)


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """A whole number from `least` on, up to `most`."""

    def number(text: str) -> int:
        if (
            text.isdecimal()
            and len(text) < 20
            and least <= int(text) <= (int(text) if most is None else most)
        ):
            return int(text)
        upto = "on" if most is None else f"to {most}"
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from {least} {upto}")

    return number
