"""The readers of all supported file layouts. Each reader returns a list of schema.Pair."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from pipeline.datasets import (
    birds_to_words,
    clevr_change,
    clevr_dc,
    image_editing_request,
    levir_cc,
    pair_checks,
    pairs_csv,
    similar_names,
    spot_the_diff,
)
from pipeline.datasets.manifest import LeftOut
from pipeline.datasets.schema import Pair
from pipeline.io.errors import InputError, listed

OWN = "table"  # the reader of users' own datasets
READERS: dict[str, ModuleType] = {
    "clevr_change": clevr_change,
    "clevr_dc": clevr_dc,
    "spot_the_diff": spot_the_diff,
    "image_editing_request": image_editing_request,
    "birds_to_words": birds_to_words,
    "levir_cc": levir_cc,
    OWN: pairs_csv,
}
"""Modules with a function `read(root) -> list[Pair]`, which raises InputError naming a wrong file and entry.

FILES are the annotation files that a reader needs. A module may also have: OPTIONAL, further files that are
read if they exist; PROTOCOLS, the values of the second argument of `read`, with the default first; and a
function `left_out(root, protocol)`, which returns the pairs that `read` drops (manifest.LeftOut).
"""


def read(reader: str, root: Path, protocol: str | None = None) -> list[Pair]:
    """Return the pairs of the dataset in `root`, formed by `protocol`; None: the reader's default."""
    module, protocol = _reader(reader), protocol_of(reader, protocol)
    if not root.is_dir():
        raise InputError(f"{root} is missing; put the dataset there (data/README.md says which files)")
    missing = [name for name in module.FILES if not (root / name).exists()]
    if missing:
        faults = [f"{name} is missing{similar_names.hint(root / name, root)}" for name in missing]
        raise listed(faults, str(root), "data/README.md says what it is")
    pairs: list[Pair] = module.read(root) if protocol is None else module.read(root, protocol)
    if reader != OWN:  # which names the boxes of a table by their lines
        pair_checks.check_boxes(root, pairs)
    return pairs


def left_out(reader: str, root: Path, protocol: str | None) -> LeftOut:
    """Return the published pairs that `read` drops, because they have no reference."""
    of_reader: Callable[[Path, str | None], LeftOut] | None = getattr(_reader(reader), "left_out", None)
    return {split: pairs for split, pairs in of_reader(root, protocol).items() if pairs} if of_reader else {}


def protocol_of(reader: str, protocol: str | None) -> str | None:
    """Return a valid protocol, the default if `protocol` is None, or None if the reader has no protocols."""
    protocols = getattr(_reader(reader), "PROTOCOLS", ())
    if protocol is not None and protocol not in protocols:
        choices = ", ".join(protocols) or "null only"
        raise InputError(f"params.yaml: prepare.protocol {protocol!r} of {reader}: there is {choices}")
    return protocol or next(iter(protocols), None)


def annotation_files(reader: str, root: Path) -> list[Path]:
    """Return the paths of the annotation files that exist: first required files, then optional files."""
    module = _reader(reader)
    names = (*module.FILES, *getattr(module, "OPTIONAL", ()))
    return [root / name for name in names if (root / name).is_file()]


def _reader(name: str) -> ModuleType:
    if name not in READERS:
        raise InputError(f"params.yaml: unknown reader {name!r}; there are {', '.join(READERS)}")
    return READERS[name]
