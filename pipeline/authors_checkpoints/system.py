"""Describe the programs whose authors released checkpoints."""

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
# letters in the tables -> fields of our models' sizes
FIELDS = {"D": "width", "e": "word_width", "n": "layers", "m": "decoder_layers", "M": "maps", "H": "hidden"}


def named(_: Path, sizes: Sizes, intra: int) -> dict[str, int]:
    """Return name -> size, from `sizes`, which has the letter of each size in the tensor table.

    FIELDS gives the name for a letter. A letter that is not in FIELDS is itself the name.
    """
    return {FIELDS.get(letter, letter): size for letter, size in sizes.items()}


@dataclass(frozen=True)
class System:
    """Description of a paper's program, and of the checkpoint files from one of its training phases."""

    title: str
    model: str  # name of our model
    marks: tuple[str, ...]  # patterns; a file of this system has tensors that match each of them
    table: list[Row]
    settings: Mapping[str, Any]  # settings of our model; dropout is not used
    features: Spec | None  # features that the program reads; None: pixels
    unknown: tuple[str, ...] = ()  # keys of `features` that may have any value
    phase: str | None = None  # pre-training phase; None: captioning
    heads: int = 8  # default of --heads
    longest: int = 0  # default of --longest
    switches: Callable[[Sizes], dict[str, Any]] = lambda sizes: {}
    # row of each of our words in the authors' tables; None: the same rows
    order: Callable[["System", Path, Vocabulary], Sequence[int]] | None = None
    waves: Callable[[int, int], Tensor] = sinusoids
    alias: Callable[[str], str] = str  # name of a parameter -> its name in the table
    own: Callable[[Path, Sizes, int], dict[str, int]] = named  # sizes in the table, --intra -> our sizes

    @property
    def remedy(self) -> str:
        """Last part of error messages, which says what the user should do."""
        return f"name a released checkpoint of {self.title}"

    def is_of(self, names: Iterable[str]) -> bool:
        """Return True if a file with tensors of these names belongs to this system."""
        names = list(names)
        return all(any(re.match(mark, name) for name in names) for mark in self.marks)


def check_features(wanted: Spec, system: System) -> None:
    """Raise InputError if the authors' program used other image features than those in params.yaml.

    Imported features may have any weights and any way of resizing.
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
    """Return a function that finds the row of each of our words in the authors' tables, for System.order.

    marks: the authors' names of our special tokens that come before the words
    behind: the authors' names of our special tokens that come after the words
    """

    def order(system: System, path: Path, vocabulary: Vocabulary) -> list[int]:
        words: tuple[str, ...] = getattr(vocabulary, "words", ())
        return _rows(path, [*marks, *words[len(marks) :], *behind], system.title)

    return order


def _rows(path: Path, words: list[str], title: str) -> list[int]:
    """Return each word's id in the authors' vocabulary file `path`. Raises InputError for any other file."""
    ids: Mapping[str, int] = read_json(path, "name a JSON file of word -> id")
    if lacking := [word for word in words if word not in ids]:
        raise InputError(f"{path} lacks {lacking[0]}; name the vocabulary of the checkpoint of {title}")
    if sorted(rows := [ids[word] for word in words]) != list(range(len(ids))):
        raise InputError(f"{path}: ids must run from 0 without gaps; name the checkpoint's own vocabulary")
    return rows
