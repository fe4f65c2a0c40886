"""What is known of a system whose authors released checkpoints, beside its table of tensors."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from torch import Tensor

from models.common.decoder import sinusoids
from pipeline.authors_checkpoints.tensor_table import Row, Sizes
from pipeline.config.store_contents import IMPORTED, Spec
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_json
from pipeline.text.vocabularies import Vocabulary

KEYS = tuple(each.name for each in fields(Spec))
# letters of the tables -> fields of our models' classes of sizes
FIELDS = {"D": "width", "e": "word_width", "n": "layers", "m": "decoder_layers", "M": "maps", "H": "hidden"}


def named(_: Path, sizes: Sizes, intra: int) -> dict[str, int]:
    """Name the sizes that a table has letters for; others have their names there."""
    return {FIELDS.get(letter, letter): size for letter, size in sizes.items()}


@dataclass(frozen=True)
class System:
    """One paper's program, and the phase that its file is of."""

    title: str
    model: str  # ours
    marks: tuple[str, ...]  # patterns of names, all of which its files have
    table: list[Row]
    settings: Mapping[str, Any]  # of our model; dropout does not count, it is off
    features: Spec | None  # what its program reads; None: pixels
    unknown: tuple[str, ...] = ()  # keys of `features` that may be any
    phase: str | None = None  # before captioning
    heads: int = 8  # where the command names no number
    longest: int = 0  # the same of the longest caption's tokens
    switches: Callable[[Sizes], dict[str, Any]] = lambda sizes: {}
    # the row of each of our words in their tables; None: the same rows
    order: Callable[["System", Path, Vocabulary], Sequence[int]] | None = None
    waves: Callable[[int, int], Tensor] = sinusoids
    alias: Callable[[str], str] = str  # of a parameter's name, in the table
    own: Callable[[Path, Sizes, int], dict[str, int]] = named  # sizes by our names; the number is --intra

    @property
    def remedy(self) -> str:
        """What its user should do."""
        return f"name a released checkpoint of {self.title}"

    def is_of(self, names: Iterable[str]) -> bool:
        """Whether a file with tensors of these names is one of its."""
        names = list(names)
        return all(any(re.match(mark, name) for name in names) for mark in self.marks)


def check_features(wanted: Spec, system: System) -> None:
    """Raise InputError where params.yaml's features are not those that the program read.

    Features that were imported have the weights and the resizing that they have.
    """
    for key in KEYS:
        found, theirs = getattr(wanted, key), getattr(system.features, key)
        if found == theirs or key in system.unknown or (key in ("weights", "resize") and found == IMPORTED):
            continue
        raise InputError(
            f"params.yaml: features.{key} is {found!r}, the checkpoint was trained with {theirs!r}; "
            f"set it, or the dataset's features.npy"
        )


def order_by(
    marks: tuple[str, ...], behind: tuple[str, ...] = ()
) -> Callable[[System, Path, Vocabulary], list[int]]:
    """Order words by their vocabulary's file, where it has these marks, and others `behind` our words."""

    def order(system: System, path: Path, vocabulary: Vocabulary) -> list[int]:
        words: tuple[str, ...] = getattr(vocabulary, "words", ())
        return _rows(path, [*marks, *words[len(marks) :], *behind], system.title)

    return order


def _rows(path: Path, words: list[str], title: str) -> list[int]:
    """Return the id of each word. Raises InputError where the file is no vocabulary of theirs."""
    ids: Mapping[str, int] = read_json(path, "name a JSON file of word -> id")
    if lacking := [word for word in words if word not in ids]:
        raise InputError(f"{path} lacks {lacking[0]}; name the vocabulary of the checkpoint of {title}")
    if sorted(rows := [ids[word] for word in words]) != list(range(len(ids))):
        raise InputError(f"{path}: ids must run from 0 without gaps; name the checkpoint's own vocabulary")
    return rows
