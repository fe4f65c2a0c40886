"""Which models the test pairs can tell apart, in numbers and in words."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.reporting.dataset_results import Results
from pipeline.reporting.overview_table import HEADINGS
from pipeline.scoring.metric_names import AGREES_CHANGES, CIDER, TRUE_CHANGES
from pipeline.statistics import Comparison, compare_all

# the metrics whose differences are told in sentences: truth first, where it is known
SPOKEN = (TRUE_CHANGES, AGREES_CHANGES, CIDER)


@dataclass(frozen=True)
class Difference:
    """Between two models, by every metric that both have."""

    names: str
    by_metric: dict[str, Comparison]

    def printed(self, metric: str) -> str:
        """The difference x 100 and its interval; – where one of the two lacks the metric."""
        if metric not in self.by_metric:
            return "–"
        found = self.by_metric[metric]
        low, high = (signed(bound) for bound in (found.low, found.high))
        return f"{signed(found.difference)} [{low}, {high}]"

    def told(self, metric: str) -> list[str]:
        """How sure that is, and in words where it is no difference."""
        if metric not in self.by_metric:
            return []
        found = self.by_metric[metric]
        p = "p < .001" if found.p < 0.001 else f"p = {found.p:.3f}".replace("0.", ".")
        return [p] if found.significant else [p, "not significant"]


@dataclass(frozen=True)
class Significance:
    """Every two models of a dataset."""

    metrics: list[tuple[str, str]]  # and its heading
    differences: list[Difference]
    sentences: list[str]


def significance(results: Results) -> Significance | None:
    """None where there is one model alone. Raises InputError where two models' pairs differ."""
    if len(results.evidence) < 2:
        return None
    # the later model of params.yaml less the earlier one: there the baselines stand first
    models = dict(reversed(results.evidence.items()))
    found = compare_all(models)
    metrics = dict.fromkeys(metric for own in found.values() for metric in own)
    return Significance(
        [(metric, HEADINGS.get(metric, metric)) for metric in metrics],
        [Difference(f"{a} − {b}", own) for (a, b), own in found.items()],
        _sentences(found, list(metrics)),
    )


def _sentences(found: dict[tuple[str, str], dict[str, Comparison]], metrics: Sequence[str]) -> list[str]:
    return [
        own[metric].sentence(a, b)
        for metric in SPOKEN
        if metric in metrics
        for (a, b), own in found.items()
        if metric in own
    ]


def signed(value: float) -> str:
    """x 100 with its sign, a minus as long as the plus; 0.0 without."""
    return f"{100 * value:+.1f}".replace("-", "−").replace("+0.0", "0.0").replace("−0.0", "0.0")
