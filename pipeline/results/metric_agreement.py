"""Measure how well each metric agrees with the truth of captions.

The agreement is Spearman's rank correlation: 1 for equal order, 0 for unrelated order. It is
computed over all runs: metric of a run with its share of true captions (changed pairs). It is also
computed within each run, over these captions: metric of a caption with its truth. The mean over the
runs is reported.

The interval of a correlation is the middle 95 % of a bootstrap. The bootstrap resamples models,
each with all its seeds, because the seeds of a model are alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

import numpy as np

from pipeline.reporting.score_table import Column
from pipeline.results.record_tables import Records
from pipeline.scoring.metric_names import ACCURACY, CIDER, CORPUS, RIGHT, TOTAL, TRUE, TRUE_CHANGED
from pipeline.statistics.bootstrap import area_under_roc, draws, ranks
from pipeline.statistics.evidence import Array, alike

RESAMPLES, SEED = 2_000, 1
LEAST = 4  # runs: with fewer, a rank correlation means nothing
CIDER_CHANGED = f"{CIDER}/changed"
METRICS: dict[str, tuple[Column, str | None]] = {  # metric -> score of a run, and column of a run's pairs
    **{metric: ((TOTAL, metric), metric) for metric in CORPUS if metric != CIDER},
    CIDER: ((TOTAL, CIDER), None),
    CIDER_CHANGED: (("change", CIDER), CIDER),
    ACCURACY: ((TOTAL, ACCURACY), RIGHT),
}
TINY = 1e-9
Values = Sequence[float]


@dataclass(frozen=True)
class Correlation:
    """A rank correlation with its 95 % interval, from `low` to `high`.

    `value` is None if the correlation is undefined, because one of the two quantities has only equal
    values. `low` and `high` are NaN if the correlation is undefined in all resamples.
    """

    value: float | None
    low: float
    high: float

    @property
    def printed(self) -> str:
        if self.value is None:
            return "–"
        text = f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"
        return text.replace("-", "−")


@dataclass(frozen=True)
class MetricAgreement:
    """Agreement of a metric with truth on a dataset.

    `runs` is a rank correlation over all runs: the run's value of the metric with the run's share of
    true captions of changed pairs. `pairs` is a rank correlation over the captions of changed pairs
    within a run: the caption's value of the metric with its truth (1 or 0).
    """

    metric: str
    runs: Correlation
    misranked: float | None  # share of pairs of runs that metric and truth rank differently; a tie is 1/2
    pairs: Correlation | None  # over a run's changed pairs, mean over runs; None: no score per pair
    preference: float | None  # share of a run's (true, false) captions in which the true one scores higher


def metric_agreements(groups: Sequence[Records]) -> list[MetricAgreement]:
    """Return the agreement of each metric with truth on one dataset; [] for fewer than LEAST runs.

    A metric that a record lacks is left out. Groups that were scored under different conditions are an
    InputError.
    """
    alike({group.name: group.evidence for group in groups})
    runs = sum(map(len, groups))
    if runs < LEAST:
        return []
    truth = [group.values((TOTAL, TRUE_CHANGED)) for group in groups]
    agreements = []
    for metric, (column, of_pairs) in METRICS.items():
        scores = [group.values(column) for group in groups]
        if sum(map(len, scores)) == runs:
            within = [values for group in groups for values in _within(group, of_pairs)]
            agreements.append(agreement_of(metric, scores, truth, within))
    return agreements


def _within(group: Records, metric: str | None) -> list[tuple[float, float]]:
    """Return the results of `within_run` for each run, over its changed pairs; [] without the metric."""
    if metric not in group.pairs or group.pairs[metric].isna().any():
        return []
    changed = group.pairs[group.pairs["changed"]]
    return [
        within_run(run[metric].to_numpy(float), run[TRUE].to_numpy() == 1)
        for _, run in changed.groupby("run", sort=False)
    ]


def agreement_of(
    metric: str,
    scores: Sequence[Values],
    truth: Sequence[Values],
    within: Sequence[tuple[float, float]],
) -> MetricAgreement:
    """Return the agreement of a metric with truth: values of each model's seeds in `scores` and `truth`.

    `within` has `within_run` of each run; it is empty if captions have no score of their own.
    """
    counts = _drawn([len(values) for values in scores])
    runs = _correlation(spearman(np.concatenate(scores), np.concatenate(truth), counts))
    pairs, preference = None, None
    if within:
        pairs = _correlation(_means(np.array([values[0] for values in within]), counts))
        preference = _finite_or_none(_means(np.array([values[1] for values in within]), counts)[0])
    return MetricAgreement(metric, runs, misranked(scores, truth), pairs, preference)


def within_run(values: Array, true: Array) -> tuple[float, float]:
    """Return rank correlation and area under the ROC curve of metric and truth, (captions,) each, or NaN."""
    own_ranks, preference = ranks(values), area_under_roc(values, true)
    if not np.ptp(own_ranks) or preference is None:
        return np.nan, np.nan if preference is None else preference
    return float(np.corrcoef(own_ranks, ranks(true.astype(float)))[0, 1]), preference


def misranked(scores: Sequence[Values], truth: Sequence[Values]) -> float | None:
    """Return the share of pairs of runs of different models that the metric orders differently than truth.

    A tie of the metric counts half, and a tie of truth is left out. None if all pairs of runs are left out.
    """
    errors = []
    for (scores_a, truths_a), (scores_b, truths_b) in combinations(list(zip(scores, truth, strict=True)), 2):
        for score_a, truth_a in zip(scores_a, truths_a, strict=True):
            for score_b, truth_b in zip(scores_b, truths_b, strict=True):
                if truth_a != truth_b:
                    signs = (score_a - score_b) * (truth_a - truth_b)
                    errors.append(0.5 if signs == 0 else float(signs < 0))
    return fmean(errors) if errors else None


def spearman(a: Array, b: Array, counts: Array) -> Array:
    """Return Spearman's correlation of a and b, (values,), per resample, (draws,); NaN if all are equal."""
    weights = counts / counts.sum(1, keepdims=True)
    x, y = (
        ranks - (weights * ranks).sum(1, keepdims=True) for ranks in (_ranks(a, counts), _ranks(b, counts))
    )
    xx, yy, xy = ((weights * product).sum(1) for product in (x * x, y * y, x * y))
    return np.divide(xy, np.sqrt(xx * yy), np.full(len(counts), np.nan), where=(xx > TINY) & (yy > TINY))


def _ranks(values: Array, counts: Array) -> Array:
    """Return mean ranks in each resample: values (values,), how often each occurs (draws, values)."""
    below, equal = values[:, None] < values, values[:, None] == values
    return np.asarray(counts @ (below + equal / 2))


def _drawn(seeds: Sequence[int]) -> Array:
    """Draw models; return how often each run's model is drawn, (1 + RESAMPLES, runs), first 1 for all."""
    draws_of_models = np.concatenate(list(draws(len(seeds), RESAMPLES, SEED)))
    return np.repeat(np.vstack([np.ones(len(seeds)), draws_of_models]), seeds, axis=1)


def _means(values: Array, counts: Array) -> Array:
    """Return the means of finite `values`, weighted by each row of `counts`; NaN without weight."""
    weights = counts * np.isfinite(values)
    sums = weights.sum(1)
    return np.divide(weights @ np.nan_to_num(values), sums, np.full(len(counts), np.nan), where=sums > 0)


def _correlation(correlations: Array) -> Correlation:
    """Return the correlation of all runs (the first) with the 95 % interval of the resamples (the others)."""
    finite = correlations[1:][np.isfinite(correlations[1:])]
    low, high = np.quantile(finite, [0.025, 0.975]) if len(finite) else (np.nan, np.nan)
    return Correlation(_finite_or_none(correlations[0]), float(low), float(high))


def _finite_or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
