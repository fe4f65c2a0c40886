"""Batches of NABirds class pairs, without captions: the task class_pairs of IDC-PCL."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from pipeline.datasets.schema import ClassPair, images_of
from pipeline.features.memory_cache import images
from pipeline.features.store import FeatureStore
from pipeline.io.errors import InputError
from pipeline.training.sampling import Batch, pinned

CLASS_PAIRS = "class_pairs"  # the task


@dataclass(frozen=True)
class ClassItems:
    """Class pairs of a split, and the store of their images.

    `classes` is the number of classes of the model. Raises InputError if a pair has a class beyond it.
    """

    pairs: Sequence[ClassPair]
    store: FeatureStore
    classes: int

    def __post_init__(self) -> None:
        most = max((max(pair.before_class, pair.after_class) for pair in self.pairs), default=0)
        if most >= self.classes:
            raise InputError(f"NABirds has {self.classes} classes, not {most + 1}; prepare its own files")

    def batch(self, chosen: Sequence[ClassPair]) -> Batch:
        """Return the pairs as one batch with empty captions."""
        names = images_of(chosen)
        row = {name: number for number, name in enumerate(names)}
        tensors = (
            images(self.store, names),
            torch.tensor([row[pair.before] for pair in chosen]),
            torch.tensor([row[pair.after] for pair in chosen]),
            torch.zeros(len(chosen), 1, dtype=torch.int64),
            torch.full((len(chosen),), -1),
            torch.tensor([[p.before_class for p in chosen], [p.after_class for p in chosen]]),
        )
        features, before, after, tokens, changed, classes = map(pinned, tensors)
        return Batch(features, before, after, tokens, 1, changed, CLASS_PAIRS, classes)
