"""Readers: each turns one published layout into the schema of schema.py."""

from collections.abc import Callable
from pathlib import Path

from pipeline.datasets import clevr_change
from pipeline.datasets.schema import Pair
from pipeline.errors import InputError

READERS: dict[str, Callable[[Path], list[Pair]]] = {
    "clevr_change": clevr_change.read,
}


def read(reader: str, root: Path) -> list[Pair]:
    """The pairs of the dataset in the folder `root`, by the reader of that name."""
    if reader not in READERS:
        raise InputError(f"params.yaml: unknown reader {reader!r}; there are {', '.join(READERS)}")
    if not root.is_dir():
        raise InputError(f"{root} is missing; put the dataset there (data/README.md says which files)")
    return READERS[reader](root)
