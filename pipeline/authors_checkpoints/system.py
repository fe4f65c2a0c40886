"""Describe the programs whose authors released checkpoints."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from models.common.decoder import sinusoids
from pipeline.authors_checkpoints.tensor_table import Row, Sizes
from pipeline.config.store_contents import Spec
from pipeline.text.vocabularies import Vocabulary

# letters in the tables -> fields of our models' sizes
FIELDS = {"D": "width", "e": "word_width", "n": "layers", "m": "decoder_layers", "M": "maps", "H": "hidden"}


def sizes_by_name(_: Path, sizes: Sizes, intra: int) -> dict[str, int]:
    """Rename the sizes that were read from a checkpoint: return name -> size.

    The keys of `sizes` are letters, for example "D". FIELDS translates a letter to the name of our
    model's size, for example "width". A letter that FIELDS lacks stays as it is.
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
    # file of the authors' vocabulary, our vocabulary -> row of each of our words in the authors' tables
    order: Callable[[Path, Vocabulary], Sequence[int] | None] = lambda path, vocabulary: None
    waves: Callable[[int, int], Tensor] = sinusoids  # length, width -> fixed position embeddings
    alias: Callable[[str], str] = str  # name of a parameter -> its name in the table
    # sizes of the table, --intra -> sizes of our model
    our_sizes: Callable[[Path, Sizes, int], dict[str, int]] = sizes_by_name

    @property
    def remedy(self) -> str:
        """Last part of error messages, which says what the user should do."""
        return f"name a released checkpoint of {self.title}"

    def is_of(self, names: Iterable[str]) -> bool:
        """Return True if a file with tensors of these names belongs to this system."""
        names = list(names)
        return all(any(re.match(mark, name) for name in names) for mark in self.marks)
