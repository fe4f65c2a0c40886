"""Bootstrap resamples of the test pairs, scored from sums; all models get the same resamples.

Pairs of the same scene are not independent. So Evidence.of_scenes first sums over the pairs of each scene,
and then whole scenes are resampled.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.statistics.pair_scores import SUMMED, Array, Evidence

SHARE_RESAMPLES, SHARE_SEED = 2000, 0
AT_ONCE = 2**21  # drawn pairs per block: 16 MiB


def scores(models: Sequence[Evidence], counts: Array) -> list[dict[str, Array]]:
    """Return, for each model, metric -> corpus scores (resamples,), averaged over the model's seeds.

    `counts` (resamples, pairs) says how often each resample contains each pair.
    """
    blocks = [own for model in models for own in model.numbers.values()]  # each (seeds, pairs, numbers)
    columns = [np.moveaxis(own, 1, 0).reshape(counts.shape[1], -1) for own in blocks]
    # one wide matrix product is several times as fast as many narrow ones
    sums = np.split(counts @ np.hstack(columns), np.cumsum([own.shape[1] for own in columns])[:-1], axis=1)
    each = iter(zip(sums, blocks, strict=True))
    return [
        {
            metric: SUMMED[metric](own.reshape(len(counts), len(block), -1)).mean(1)
            for metric, (own, block) in zip(model.numbers, each, strict=False)  # as many as this model has
        }
        for model in models
    ]


def resampled(models: Sequence[Evidence], resamples: int, seed: int) -> list[dict[str, Array]]:
    """Return, for each model, metric -> scores (resamples,). All models get the same resamples."""
    parts = [scores(models, counts) for counts in draws(len(models[0].pair_ids), resamples, seed)]
    return [
        {metric: np.concatenate([part[place][metric] for part in parts]) for metric in model.numbers}
        for place, model in enumerate(models)
    ]


def draws(pairs: int, resamples: int, seed: int) -> Iterator[Array]:
    """Yield blocks of resamples, (resamples, pairs): how often each pair was drawn, with replacement."""
    random = np.random.default_rng(seed)
    rows = max(1, AT_ONCE // pairs)
    for first in range(0, resamples, rows):
        number = min(rows, resamples - first)
        drawn = random.integers(0, pairs, (number, pairs))
        drawn += pairs * np.arange(number)[:, None]  # distinct numbers per row, so that rows count separately
        yield np.bincount(drawn.ravel(), minlength=number * pairs).reshape(number, pairs).astype(float)


@dataclass(frozen=True)
class Share:
    """Share of captions with its 95 % interval, and the number of all captions."""

    value: float
    low: float
    high: float
    number: int

    @property
    def interval(self) -> str:
        """Bounds of the interval in percent."""
        return f"({100 * self.low:.0f} to {100 * self.high:.0f})"


def share(values: Sequence[bool], scenes: Sequence[str]) -> Share:
    """Return the share of True with its interval. Whole scenes, with all their captions, are resampled."""
    names = {scene: place for place, scene in enumerate(dict.fromkeys(scenes))}
    rows = [names[scene] for scene in scenes]
    sums = np.bincount(rows, weights=np.array(values, dtype=float), minlength=len(names))
    sizes = np.bincount(rows, minlength=len(names)).astype(float)
    drawn = np.concatenate(
        [(counts @ sums) / (counts @ sizes) for counts in draws(len(names), SHARE_RESAMPLES, SHARE_SEED)]
    )
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Share(float(np.mean(values)), float(low), float(high), len(values))
