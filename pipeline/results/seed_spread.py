"""Compute how much the share of true captions varies, and how many seeds show a difference.

The variation is over seeds, and over resampled test pairs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean

from pipeline.results.claims import LEAST_SEEDS
from pipeline.results.record_comparisons import Group
from pipeline.scoring.metric_names import TRUE, TRUE_CHANGES
from pipeline.statistics.bootstrap import resampled

RESAMPLES, SEED = 2_000, 1
WANTED = 0.02  # difference of the share of true captions to be shown: two points
Z, POWER = NormalDist().inv_cdf(0.975), NormalDist().inv_cdf(0.8)


@dataclass(frozen=True)
class SeedSpread:
    """Variation of the share of true captions, pooled over a dataset's models. Deviations are fractions."""

    models: int
    sd: float  # standard deviation over seeds
    over_pairs: float  # standard deviation of a single run over resampled test pairs

    @property
    def printed(self) -> list[str]:
        """Row of the table; the headings are in results_tables._seeds."""
        shares = [self.sd, self.over_pairs, Z * math.sqrt(2) * self.sd, shown(self.sd, 5)]
        return [str(self.models), *(f"{100 * share:.1f}" for share in shares), str(seeds_wanted(self.sd))]


def of_groups(groups: Sequence[Group]) -> SeedSpread | None:
    """Return the pooled variation of the models that are above chance and have at least LEAST_SEEDS seeds.

    Return None without such a model.
    """
    kept = [group for group in groups if len(group.records) >= LEAST_SEEDS and group.begun]
    if not kept:
        return None
    sd = pooled([group.score("change", TRUE).sd or 0.0 for group in kept])
    return SeedSpread(len(kept), sd, pooled([over_pairs(run) for group in kept for run in group.each()]))


def pooled(deviations: Sequence[float]) -> float:
    """Return the root mean square of standard deviations."""
    return math.sqrt(fmean(one**2 for one in deviations))


def over_pairs(group: Group) -> float:
    """Return the standard deviation of a run's share of true captions over resampled test pairs."""
    (found,) = resampled([group.evidence().of_scenes()], RESAMPLES, SEED)
    return float(found[TRUE_CHANGES].std(ddof=1))


def seeds_wanted(sd: float, difference: float = WANTED) -> int:
    """Return the number of seeds per model that is needed to show a difference between two models.

    The number is n = 2 (z_0.975 + z_0.8)² sd² / difference².
    """
    return max(2, math.ceil((shown(sd, 1) / difference) ** 2))


def shown(sd: float, seeds: int) -> float:
    """Return the smallest difference between two models that this number of seeds per model can show.

    This is the inverse function of `seeds_wanted`.
    """
    return (Z + POWER) * sd * math.sqrt(2 / seeds)
