"""Collect the data to which a calibration is fitted, or on which it is measured.

The model writes a caption for each pair, and the caption is judged as correct or wrong. The data of
a caption are this judgement, the caption's signals (signals.py) and three distances (familiarity.py):
two from the pair to the training images, and one between the pair's two images.
P: pairs; S: number of signals of a caption.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import numpy as np
from torch import Tensor

from pipeline.confidence import familiarity
from pipeline.confidence.calibration import Meaning, correct
from pipeline.confidence.familiarity import Familiarity
from pipeline.confidence.signals import Reader, Signalled
from pipeline.datasets.schema import Pair
from pipeline.features.store import FeatureStore, feature_batches

MOST_IMAGES = 4000  # maximum number of training images to which familiarity is fitted
BATCH = 64  # pairs
Item = TypeVar("Item")
Grids = Iterable[tuple[Tensor, Tensor]]
"""Feature grids of batches of pairs: before and after images."""
Statistics = Mapping[str, np.ndarray]
"""Statistics of images' pixels: name of an image -> (SIZE,), from appearance.statistics_of."""


@dataclass(frozen=True)
class Collected:
    """Captions of P pairs, judged as correct or wrong, with numbers that help to predict the judgement.

    The signals of a caption are numbers such as the caption's log-probability (signals.py). Each pair
    has three distances (familiarity.py): two between the pair and the training images, and one between
    the two images.
    """

    pairs: list[Pair]
    captions: list[Signalled]
    correct: np.ndarray  # bool (P,)
    distances: np.ndarray  # DISTANCES of familiarity.py, (P, 3); (P, 0) if not computed

    @property
    def signals(self) -> np.ndarray:
        return np.stack([caption.numbers for caption in self.captions])

    @property
    def reports_change(self) -> np.ndarray:
        return np.array([caption.reports_change for caption in self.captions])

    @property
    def scenes(self) -> list[str]:
        return [pair.scene_id for pair in self.pairs]

    @property
    def log_probability(self) -> np.ndarray:
        return np.array([caption.signals.log_probability for caption in self.captions])


def collect(
    reader: Reader,
    pairs: Sequence[Pair],
    grids: Grids,
    meaning: Meaning,
    familiar: Familiarity | None,
    statistics: Statistics,
) -> Collected:
    """Generate and judge a caption of each pair; return the pairs whose captions could be judged.

    `grids` are in the pairs' order. `meaning`: see `meaning_of`. With `familiar`, the distances that
    recognise unfamiliar pairs are computed from the grids and from `statistics` of the pixels.
    """
    captions: list[Signalled] = []
    distances: list[np.ndarray] = []
    for before, after in grids:
        batch = pairs[len(captions) : len(captions) + len(before)]
        captions += reader.captions(before, after)
        if familiar is None:
            distances.append(np.empty((len(before), 0)))
            continue
        sides = [[pair.before for pair in batch], [pair.after for pair in batch]]
        both = [np.stack([statistics[name] for name in side]) for side in sides]
        distances.append(familiar.distances(before, after, *both))
    verdicts = [
        correct(caption.caption, pair, meaning, reader.own)
        for caption, pair in zip(captions, pairs, strict=True)
    ]
    judged = [position for position, verdict in enumerate(verdicts) if verdict is not None]
    return Collected(
        [pairs[position] for position in judged],
        [captions[position] for position in judged],
        np.array([verdicts[position] for position in judged], dtype=bool),
        np.concatenate(distances)[judged],
    )


def familiar_with(pairs: Sequence[Pair], store: FeatureStore, statistics: np.ndarray) -> Familiarity:
    """Fit a Familiarity, which accepts all pairs until with_thresholds, to MOST_IMAGES training images."""
    batches = feature_batches(spaced(pairs, MOST_IMAGES // 2), store, BATCH)
    channels = np.concatenate([familiarity.pooled(grids) for grids in chain.from_iterable(batches)])
    return familiarity.fitted(channels, statistics)


def spaced(items: Sequence[Item], most: int) -> Sequence[Item]:
    return items[:: max(1, -(-len(items) // most))]
