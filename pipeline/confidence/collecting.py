"""Write and judge captions of pairs: data to which a calibration is fitted, or on which it is measured.

The data of a caption are its signals (signals.py), its pair's distances (familiarity.py), and the judgement.
P: pairs; S: signals; B: pairs of a batch; C, H, W: channels, rows and columns of a grid.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from models.common.captioner import Captioner
from pipeline.confidence import familiarity
from pipeline.confidence.calibration import Meaning, correct
from pipeline.confidence.familiarity import Familiarity
from pipeline.confidence.signals import Signalled, signalled
from pipeline.datasets.schema import Pair
from pipeline.decoding.decode_split import Search
from pipeline.features.store import FeatureStore, feature_batches
from pipeline.text.vocabularies import Vocabulary

MOST_IMAGES = 4000  # maximum number of training images to which familiarity is fitted
BATCH = 64  # pairs
Grids = Iterable[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Collected:
    """Judged captions of P pairs, with their signals and the distances of the pairs."""

    pairs: list[Pair]
    captions: list[Signalled]
    correct: np.ndarray  # bool (P,)
    distances: np.ndarray  # `unlike` and `scenes` of familiarity.py, (P, 2); without a Familiarity (P, 0)

    @property
    def signals(self) -> np.ndarray:
        """Signals of all captions, (P, S)."""
        return np.stack([each.numbers for each in self.captions])

    @property
    def reports_change(self) -> np.ndarray:
        """True for each caption that reports a change: bool (P,)."""
        return np.array([each.reports_change for each in self.captions])

    @property
    def scenes(self) -> list[str]:
        """Scene id of each pair."""
        return [pair.scene_id for pair in self.pairs]

    @property
    def log_probability(self) -> np.ndarray:
        """Log-probability that the captioning model gives to each caption, (P,)."""
        return np.array([each.signals.log_probability for each in self.captions])


@dataclass(frozen=True)
class Reader:
    """Writes captions with signals. It has a model, a vocabulary, a search, and rules to compare captions."""

    model: Captioner
    vocabulary: Vocabulary
    search: Search
    grammar: bool
    phrases: Sequence[str]

    @torch.inference_mode()
    def captions(self, before: Tensor, after: Tensor) -> list[Signalled]:
        """Write the captions of B pairs. `before` and `after` are feature grids or pixels, (B, C, H, W)."""
        device = next(self.model.parameters()).device
        first, second = (each.to(device).float() for each in (before, after))
        both = self.model.encode(first, second), self.model.encode(second, first)
        words = self.search(self.model, both[0]).words
        return signalled(self.model, self.vocabulary, self.search, words, *both, self.grammar, self.phrases)


def collect(
    reader: Reader, pairs: Sequence[Pair], grids: Grids, meaning: Meaning, familiar: Familiarity | None
) -> Collected:
    """Write and judge the captions of pairs. Pairs whose captions cannot be judged are left out.

    `grids` yields the feature grids of the pairs, in batches and in order. `familiar` computes the distances.
    """
    captions: list[Signalled] = []
    distances: list[np.ndarray] = []
    for before, after in grids:
        captions += reader.captions(before, after)
        distances.append(familiar.distances(before, after) if familiar else np.empty((len(before), 0)))
    judged = [
        correct(own.caption, pair, meaning, reader.phrases) for own, pair in zip(captions, pairs, strict=True)
    ]
    known = [place for place, verdict in enumerate(judged) if verdict is not None]
    return Collected(
        [pairs[place] for place in known],
        [captions[place] for place in known],
        np.array([judged[place] for place in known], dtype=bool),
        np.concatenate(distances)[known],
    )


def familiar_with(pairs: Sequence[Pair], store: FeatureStore) -> Familiarity:
    """Return a Familiarity that is fitted to the images of training pairs.

    If there are more than MOST_IMAGES images, only evenly spaced pairs are used.
    """
    chosen = pairs[:: max(1, -(-2 * len(pairs) // MOST_IMAGES))]
    batches = feature_batches(chosen, store, BATCH)
    return familiarity.fitted(
        np.concatenate([familiarity.pooled(each) for each in chain.from_iterable(batches)])
    )
