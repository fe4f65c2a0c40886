"""Batches of a pre-training of several tasks: an iteration has one of them, drawn by weight (IDC-PCL).

An item is a caption with its pair, of every pair; of the task class_pairs a pair of classes. Each task goes
through all items in passes of its own, shuffled. All is drawn from the seed and the iteration's number, so a
run goes on anywhere as if never interrupted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pipeline.datasets.negatives import REMEDY
from pipeline.datasets.schema import Pair
from pipeline.io.errors import InputError
from pipeline.training.augmentation import Moved
from pipeline.training.class_pairs import CLASS_PAIRS, ClassItems
from pipeline.training.sampling import Batch, Scene

TASK, PASS = 3, 4  # separate streams of random numbers, beside those of sampling.py
FDA = "fda"  # the task that shows a pair's negatives beside its caption


class TaskSampler:
    """Draws the batches of one pre-training, with the interface of Sampler.

    `settings`: params.Pretrain; `classes`: the items of class_pairs. Raises InputError where a task has fewer
    items than a batch, or a pair no negatives.
    """

    references = 1

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
        if (most := max(self.sizes.values())) > len(self.scenes):
            raise InputError(
                f"a batch of the pre-training is {most} captions, the train split has {len(self.scenes)}; "
                "lower its batch or fda_pairs"
            )
        if FDA in tasks:
            check(pairs, negatives)
        self.classes = classes
        if classes and self.batch > len(classes.pairs):
            raise InputError(
                f"a batch of the pre-training is {self.batch} pairs, NABirds' train split has "
                f"{len(classes.pairs)}; lower its batch"
            )
        weights = np.array([settings["tasks"][task] for task in tasks])
        random = np.random.default_rng([seed, TASK])
        self.drawn = random.choice(len(tasks), settings["iterations"], p=weights / weights.sum())
        self.tasks = list(tasks)
        # of each iteration, how many before it had the same task
        self.earlier = np.zeros_like(self.drawn)
        for task in range(len(tasks)):
            own = self.drawn == task
            self.earlier[own] = np.arange(own.sum())

    @property
    def epoch(self) -> int:
        """Iterations of a task whose batch is the whole one's that show every item once."""
        return len(self.scenes) // self.batch

    def task(self, iteration: int) -> str:
        """The iteration's task."""
        return self.tasks[self.drawn[iteration]]

    def draw(self, iteration: int) -> tuple[list[Scene], list[list[list[str]]]]:
        """The items of an iteration, and their captions: in FDA a pair's own, then its negatives."""
        task = self.task(iteration)
        chosen = [self.scenes[i] for i in self._places(iteration, len(self.scenes))]
        return chosen, [[captions_of(pair, task, self.negatives)] for (pair,) in chosen]

    def wordless(self, iteration: int) -> Batch | None:
        """That of an iteration of class_pairs."""
        if self.classes is None or self.task(iteration) != CLASS_PAIRS:
            return None
        pairs = self.classes.pairs
        return self.classes.batch([pairs[i] for i in self._places(iteration, len(pairs))])

    def _places(self, iteration: int, items: int) -> np.ndarray:
        """Which of so many items the iteration has."""
        size = self.sizes[self.task(iteration)]
        number, place = divmod(int(self.earlier[iteration]), items // size)
        random = np.random.default_rng([self.seed, PASS, self.drawn[iteration], number])
        return random.permutation(items)[place * size : (place + 1) * size]

    def moves(self, iteration: int, scenes: Sequence[Scene]) -> dict[str, Moved]:
        """Nothing is moved."""
        return {}


def captions_of(pair: Pair, task: str, negatives: Mapping[str, Sequence[str]]) -> list[str]:
    """What a task reads of an item: its first caption, in FDA with the pair's negatives behind it."""
    return [pair.captions[0], *(negatives[pair.pair_id] if task == FDA else ())]


def check(pairs: Sequence[Pair], negatives: Mapping[str, Sequence[str]]) -> None:
    """Raises InputError naming a pair without negatives."""
    if missing := next((pair.pair_id for pair in pairs if pair.pair_id not in negatives), None):
        raise InputError(f"the pair {missing!r} has no negatives; {REMEDY}")
