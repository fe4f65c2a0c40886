"""Draw batches for a pretraining with several tasks (IDC-PCL).

Each iteration has a single task, drawn at random by the tasks' weights. An item of a batch is a caption with
its pair; in the task class_pairs, it is a pair of images with their classes. Each task passes through all
items in a separate random order. All draws depend only on the seed and the iteration number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from pipeline.compute import devices
from pipeline.datasets.negatives import REMEDY
from pipeline.datasets.schema import ClassPair, Pair, images_of
from pipeline.features.memory_cache import images
from pipeline.features.store import FeatureStore
from pipeline.io.errors import InputError
from pipeline.training.sampling import Batch, Draws, image_indices
from pipeline.training.scenes import Scene

TASK, PASS = 3, 4  # numbers of separate random streams; sampling.py uses 0 to 2
FDA = "fda"  # the task that contrasts a pair's caption with its negatives
CLASS_PAIRS = "class_pairs"  # the task on pairs of NABirds' images with classes, without captions


@dataclass(frozen=True)
class ClassItems:
    """Pairs of NABirds' images with their bird classes: the items of the pre-training task class_pairs.

    `store` has the features of the images. `classes` is the number of classes. Raises InputError if an
    image's class, counted from 0, is not below `classes`.
    """

    pairs: Sequence[ClassPair]
    store: FeatureStore
    classes: int

    def __post_init__(self) -> None:
        largest = max((max(pair.before_class, pair.after_class) for pair in self.pairs), default=0)
        if largest >= self.classes:
            raise InputError(f"NABirds has {self.classes} classes, not {largest + 1}; prepare its own files")

    def batch(self, pairs: Sequence[ClassPair]) -> Batch:
        """Return a batch of the given pairs, with empty captions."""
        names = images_of(pairs)
        tensors = (
            images(self.store, names),
            *image_indices(pairs, names),
            torch.zeros(len(pairs), 1, dtype=torch.int64),
            torch.full((len(pairs),), -1),
            torch.tensor([[p.before_class for p in pairs], [p.after_class for p in pairs]]),
        )
        features, before, after, tokens, changed, classes = map(devices.upload, tensors)
        return Batch(features, before, after, tokens, 1, changed, CLASS_PAIRS, classes)


class TaskSampler(Draws):
    """Sampler of batches for a pretraining with several tasks.

    settings: the phase's settings, in the form of params.Pretrain
    tasks: names of the tasks
    negatives: pair id -> wrong captions, for the task fda
    classes: image pairs of NABirds with the class of each image, for the task class_pairs

    Raises InputError if a task has fewer items than a batch needs, or if a pair has no negatives.
    """

    def __init__(
        self,
        pairs: Sequence[Pair],
        settings: Mapping[str, Any],
        tasks: Sequence[str],
        seed: int,
        negatives: Mapping[str, Sequence[str]],
        classes: ClassItems | None = None,
    ):
        self.scenes: list[Scene] = [
            (replace(pair, captions=(caption,)),) for pair in pairs for caption in pair.captions
        ]
        self.batch, self.seed, self.negatives = settings["batch"], seed, negatives
        self.sizes = {task: settings["fda_pairs"] if task == FDA else self.batch for task in tasks}
        if (largest := max(self.sizes.values())) > len(self.scenes):
            raise InputError(
                f"a pre-training batch has {largest} captions, but the train split has {len(self.scenes)}; "
                "lower its batch or fda_pairs"
            )
        if FDA in tasks:
            check_negatives(pairs, negatives)
        self.classes = classes
        if classes and self.batch > len(classes.pairs):
            raise InputError(
                f"a pre-training batch has {self.batch} pairs, but NABirds' train split has "
                f"{len(classes.pairs)}; lower its batch"
            )
        weights = np.array([settings["tasks"][task] for task in tasks])
        random = np.random.default_rng([seed, TASK])
        self.drawn = random.choice(len(tasks), settings["iterations"], p=weights / weights.sum())
        self.tasks = list(tasks)
        # for each iteration, the number of earlier iterations with the same task
        self.earlier = np.zeros_like(self.drawn)
        for task in range(len(tasks)):
            has_task = self.drawn == task
            self.earlier[has_task] = np.arange(has_task.sum())

    def task(self, iteration: int) -> str:
        return self.tasks[self.drawn[iteration]]

    def draw(self, iteration: int) -> tuple[list[Scene], list[list[list[str]]]]:
        task = self.task(iteration)
        scenes = [self.scenes[i] for i in self._indices(iteration, len(self.scenes))]
        return scenes, [[captions_of(pair, task, self.negatives)] for (pair,) in scenes]

    def wordless(self, iteration: int) -> Batch | None:
        if self.classes is None or self.task(iteration) != CLASS_PAIRS:
            return None
        pairs = self.classes.pairs
        return self.classes.batch([pairs[i] for i in self._indices(iteration, len(pairs))])

    def _indices(self, iteration: int, items: int) -> np.ndarray:
        """Return the indices of the items in an iteration's batch; `items` is the number of all items."""
        size = self.sizes[self.task(iteration)]
        passes, position = divmod(int(self.earlier[iteration]), items // size)
        random = np.random.default_rng([self.seed, PASS, self.drawn[iteration], passes])
        return random.permutation(items)[position * size : (position + 1) * size]


def captions_of(pair: Pair, task: str, negatives: Mapping[str, Sequence[str]]) -> list[str]:
    return [pair.captions[0], *(negatives[pair.pair_id] if task == FDA else ())]


def check_negatives(pairs: Sequence[Pair], negatives: Mapping[str, Sequence[str]]) -> None:
    """Raise InputError if a pair has no negatives. The message names the pair."""
    if missing := next((pair.pair_id for pair in pairs if pair.pair_id not in negatives), None):
        raise InputError(f"the pair {missing!r} has no negatives; {REMEDY}")
