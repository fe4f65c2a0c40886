"""Compute how much the share of true captions varies over seeds.

This spread determines how many seeds are needed to show a difference between two models.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean

from pipeline.results.claims import LEAST_SEEDS
from pipeline.results.record_tables import Records
from pipeline.scoring.metric_names import TOTAL, TRUE_CHANGED
from pipeline.statistics.bootstrap import resampled

RESAMPLES, SEED = 2_000, 1
TARGET_DIFFERENCE = 0.02  # difference of the share of true captions to be shown: two points
Z, POWER = NormalDist().inv_cdf(0.975), NormalDist().inv_cdf(0.8)


def row(records: Records) -> list[str] | None:
    """Return a dataset's row: usable models, then standard deviations and differences in points.

    A model is usable if it is above chance and has at least LEAST_SEEDS seeds; None without one. The numbers:
    deviation over seeds, over pairs, 95th percentile between two runs of a model, smallest difference with
    five seeds, and seeds that show a difference of two points.
    """
    usable = [group for group in records.above_chance.groups if len(group) >= LEAST_SEEDS]
    if not usable:
        return None
    spreads = [group.score((TOTAL, TRUE_CHANGED)) for group in usable]
    sd = pooled([spread.sd or 0.0 for spread in spreads if spread])
    by_pairs = pooled([over_pairs(run) for group in usable for run in group.by_seed()])
    shares = [sd, by_pairs, Z * math.sqrt(2) * sd, smallest_difference(sd, 5)]
    return [str(len(usable)), *(f"{100 * share:.1f}" for share in shares), str(seeds_needed(sd))]


def pooled(deviations: Sequence[float]) -> float:
    return math.sqrt(fmean(deviation**2 for deviation in deviations))


def over_pairs(run: Records) -> float:
    """Return the deviation of a single run's share of true, changed over resampled test scenes."""
    (shares,) = resampled([run.evidence.of_scenes()], RESAMPLES, SEED)
    return float(shares[TRUE_CHANGED].std(ddof=1))


def seeds_needed(sd: float, difference: float = TARGET_DIFFERENCE) -> int:
    """Return n = 2 (z_0.975 + z_0.8)² sd² / difference² seeds per model, and at least 2."""
    return max(2, math.ceil((smallest_difference(sd, 1) / difference) ** 2))


def smallest_difference(sd: float, seeds: int) -> float:
    """Return what a two-sided test at 5 % finds in 80 % of cases: (z_0.975 + z_0.8) sd sqrt(2 / seeds)."""
    return (Z + POWER) * sd * math.sqrt(2 / seeds)
