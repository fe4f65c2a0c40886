"""Resamples of the test pairs, scored from sums: the same resamples for every model that is given.

Pairs of one scene show the same objects, so they are not independent: Evidence.of_scenes adds them up first.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from pipeline.statistics.corpus_sums import SUMMED, Array
from pipeline.statistics.pair_scores import Evidence

AT_ONCE = 2**21  # drawn pairs at once: 16 MiB of them


def scores(models: Sequence[Evidence], counts: Array) -> list[dict[str, Array]]:
    """Each model's metric -> the mean over its seeds of the corpus score, one for each row of `counts`.

    `counts` is resamples x pairs: how often a resample holds a pair.
    """
    blocks = [own for model in models for own in model.numbers.values()]  # each seeds x pairs x numbers
    columns = [np.moveaxis(own, 1, 0).reshape(counts.shape[1], -1) for own in blocks]
    # one product for all: narrow ones would take several times as long
    sums = np.split(counts @ np.hstack(columns), np.cumsum([own.shape[1] for own in columns])[:-1], axis=1)
    each = iter(zip(sums, blocks, strict=True))
    return [
        {
            metric: SUMMED[metric](own.reshape(len(counts), len(block), -1)).mean(1)
            for metric, (own, block) in zip(model.numbers, each, strict=False)  # as many as it has metrics
        }
        for model in models
    ]


def resampled(models: Sequence[Evidence], resamples: int, seed: int) -> list[dict[str, Array]]:
    """Each model's metric -> its score on every resample of the pairs, which the models share."""
    parts = [scores(models, counts) for counts in draws(len(models[0].pair_ids), resamples, seed)]
    return [
        {metric: np.concatenate([part[place][metric] for part in parts]) for metric in model.numbers}
        for place, model in enumerate(models)
    ]


def draws(pairs: int, resamples: int, seed: int) -> Iterator[Array]:
    """`resamples` draws of as many pairs as there are, with replacement, as counts; some rows at once."""
    random = np.random.default_rng(seed)
    rows = max(1, AT_ONCE // pairs)
    for first in range(0, resamples, rows):
        number = min(rows, resamples - first)
        drawn = random.integers(0, pairs, (number, pairs))
        drawn += pairs * np.arange(number)[:, None]  # each row counts into numbers of its own
        yield np.bincount(drawn.ravel(), minlength=number * pairs).reshape(number, pairs).astype(float)
