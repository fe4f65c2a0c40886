"""Mean and standard deviation of a score over training runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from pipeline.io.errors import InputError


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
