"""The readers of all supported file layouts. Each reader returns a list of schema.Pair."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.datasets import (
    birds_to_words,
    clevr_change,
    clevr_dc,
    image_editing_request,
    levir_cc,
    pairs_csv,
    spot_the_diff,
)
from pipeline.datasets.schema import Pair
from pipeline.io.errors import InputError, listed


@dataclass(frozen=True)
class Reader:
    """Reader of one file layout.

    `read` has the dataset's folder as its argument. If the layout has protocols, a second argument names one.
    """

    read: Callable[..., list[Pair]]
    files: tuple[str, ...]  # required annotation files
    optional: tuple[str, ...]  # annotation files that are read if they exist
    protocols: tuple[str, ...] = ()  # names of the definitions of items and references; the default is first
    unknown_protocol: str = ""  # end of the error message for an unknown protocol
    faults: Callable[[Path], list[str]] | None = None  # returns all faults of a user's own folder


def _of(module: Any, **more: Any) -> Reader:
    return Reader(module.read, module.FILES, module.OPTIONAL, **more)


READERS: dict[str, Reader] = {
    "clevr_change": _of(clevr_change),
    "clevr_dc": _of(clevr_dc),
    "spot_the_diff": _of(
        spot_the_diff,
        protocols=spot_the_diff.PROTOCOLS,
        unknown_protocol=spot_the_diff.UNKNOWN_PROTOCOL,
    ),
    "image_editing_request": _of(image_editing_request),
    "birds_to_words": _of(birds_to_words),
    "levir_cc": _of(levir_cc),
    "table": _of(pairs_csv, faults=pairs_csv.faults),
}


def read(reader: str, root: Path, protocol: str | None = None) -> list[Pair]:
    """Return the pairs of the dataset in the folder `root`. Protocol None means the default protocol.

    Raises InputError for an unknown reader or protocol, and for a missing or wrong file.
    """
    own, protocol = _reader(reader), protocol_of(reader, protocol)
    if not root.is_dir():
        raise InputError(f"{root} is missing; put the dataset there (data/README.md says which files)")
    if missing := [name for name in own.files if not (root / name).exists()]:
        raise listed([f"{name} is missing" for name in missing], str(root), "data/README.md says what it is")
    return own.read(root) if protocol is None else own.read(root, protocol)


def faults(reader: str, root: Path) -> list[str]:
    """Return messages on all faults of a dataset's folder; no messages if the reader cannot list faults."""
    own = _reader(reader)
    return own.faults(root) if own.faults and root.is_dir() else []


def is_own(reader: str) -> bool:
    """Return True if the reader is for a user's own dataset, whose files the user can correct."""
    return _reader(reader).faults is not None


def protocol_of(reader: str, protocol: str | None) -> str | None:
    """Return `protocol`, or the reader's default protocol if `protocol` is None.

    The result is None for a reader without protocols. Raises InputError for an unknown protocol.
    """
    own = _reader(reader)
    if protocol is not None and protocol not in own.protocols:
        ways = ", ".join(own.protocols) or "null only"
        more = f"; {own.unknown_protocol}" if own.unknown_protocol else ""
        raise InputError(f"params.yaml: prepare.protocol {protocol!r} of {reader}: there is {ways}{more}")
    return protocol or next(iter(own.protocols), None)


def annotation_files(reader: str, root: Path) -> list[Path]:
    """Return the paths of the annotation files that exist: first required files, then optional files."""
    own = _reader(reader)
    return [root / name for name in (*own.files, *own.optional) if (root / name).is_file()]


def _reader(name: str) -> Reader:
    if name not in READERS:
        raise InputError(f"params.yaml: unknown reader {name!r}; there are {', '.join(READERS)}")
    return READERS[name]
