"""Bootstrap over test pairs, mean and deviation over runs, and how well numbers separate two classes.

The bootstrap computes the scores of each resample from sums over its pairs. Pairs of the same scene are not
independent. So Evidence.of_scenes first sums over the pairs of each scene, and then whole scenes are
resampled.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np

from pipeline.io.errors import InputError
from pipeline.statistics.evidence import Array, Evidence, summed

SHARE_RESAMPLES, SHARE_SEED = 2000, 0
AT_ONCE = 2**21  # drawn pairs per block: 16 MiB


def scores(models: Sequence[Evidence], counts: Array) -> list[dict[str, Array]]:
    """Return each model's metrics, means over seeds, on resamples with `counts`, (resamples, pairs)."""
    numbers = [numbers for model in models for numbers in model.numbers.values()]
    columns = [np.moveaxis(of_metric, 1, 0).reshape(counts.shape[1], -1) for of_metric in numbers]
    # one wide matrix product is several times as fast as many narrow ones
    ends = np.cumsum([of_metric.shape[1] for of_metric in columns])
    sums = iter(np.split(counts @ np.hstack(columns), ends[:-1], axis=1))
    return [
        {
            metric: summed(metric)(next(sums).reshape(len(counts), model.seeds, -1)).mean(1)
            for metric in model.numbers
        }
        for model in models
    ]


def resampled(models: Sequence[Evidence], resamples: int, seed: int) -> list[dict[str, Array]]:
    """Return each model's metrics, (resamples,), on the same random resamples of the test pairs."""
    blocks = [scores(models, counts) for counts in draws(len(models[0].pair_ids), resamples, seed)]
    return [
        {metric: np.concatenate([block[metric] for block in of_model]) for metric in of_model[0]}
        for of_model in zip(*blocks, strict=True)
    ]


def draws(pairs: int, resamples: int, seed: int) -> Iterator[Array]:
    """Draw resamples of the pairs, with replacement; yield blocks of numbers of draws, (block, pairs)."""
    random = np.random.default_rng(seed)
    rows = max(1, AT_ONCE // pairs)
    for first in range(0, resamples, rows):
        count = min(rows, resamples - first)
        drawn = random.integers(0, pairs, (count, pairs))
        drawn += pairs * np.arange(count)[:, None]  # distinct numbers per row, so that rows count separately
        yield np.bincount(drawn.ravel(), minlength=count * pairs).reshape(count, pairs).astype(float)


@dataclass(frozen=True)
class Share:
    """Share of captions that have a property, with its 95 % interval."""

    value: float  # as low and high: 0 to 1
    low: float
    high: float
    number: int  # number of all captions

    @property
    def interval(self) -> str:
        return f"({100 * self.low:.0f} to {100 * self.high:.0f})"


def share(values: Sequence[bool], scenes: Sequence[str]) -> Share:
    """Return the share of True in `values`, with an interval over resampled whole scenes."""
    numbers = {scene: number for number, scene in enumerate(dict.fromkeys(scenes))}
    scene_numbers = [numbers[scene] for scene in scenes]
    sums = np.bincount(scene_numbers, weights=np.array(values, dtype=float))
    sizes = np.bincount(scene_numbers).astype(float)
    shares = np.concatenate(
        [(counts @ sums) / (counts @ sizes) for counts in draws(len(numbers), SHARE_RESAMPLES, SHARE_SEED)]
    )
    low, high = np.percentile(shares, [2.5, 97.5])
    return Share(float(np.mean(values)), float(low), float(high), len(values))


def ranks(values: np.ndarray) -> np.ndarray:
    """Return the rank of each value, from 1; equal values have their mean rank."""
    _, number, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[number]


def area_under_roc(values: np.ndarray, positive: np.ndarray) -> float | None:
    """Return how often a positive item has a higher value than a negative one; a tie counts half.

    None if all items are positive, or all are negative.
    """
    positives, negatives = int(positive.sum()), int((~positive).sum())
    if not positives or not negatives:
        return None
    rank_sum = ranks(values)[positive].sum()
    return float((rank_sum - positives * (positives + 1) / 2) / (positives * negatives))


@dataclass(frozen=True)
class MeanSd:
    """Mean and standard deviation of a score over the seeds of a model."""

    mean: float
    sd: float | None  # the sample standard deviation (n - 1); None for a single run
    runs: int

    def printed(self, factor: float = 100) -> str:
        """Format as in papers: 71.3, or 71.3 ± 0.8."""
        spread = "" if self.sd is None else f" ± {factor * self.sd:.1f}"
        return f"{factor * self.mean:.1f}{spread}"


def over_seeds(values: Sequence[float]) -> MeanSd:
    """Return the mean and the sample standard deviation. Raises InputError if there are no values."""
    if not values:
        raise InputError("there is no run to average; name at least one seed")
    return MeanSd(fmean(values), stdev(values) if len(values) > 1 else None, len(values))
