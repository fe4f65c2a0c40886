"""Test whether two models differ significantly on the same test pairs, by a paired bootstrap."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from pipeline.io.errors import InputError
from pipeline.scoring.metric_names import AGREES, AGREES_CHANGED, TRUE, TRUE_CHANGED
from pipeline.statistics.bootstrap import resampled, scores
from pipeline.statistics.evidence import Array, Evidence, alike

RESAMPLES = 10_000
SEED = 1
LEVEL = 0.05  # an interval contains 1 - LEVEL of the resamples
LEAST = 0.0005  # smaller differences print as 0.0, such as those in BLEU-4 of two corpora without a 4-gram
SPOKEN = {  # metrics with another name in sentences
    TRUE: "points true",
    TRUE_CHANGED: f"points of “{TRUE_CHANGED}”",
    AGREES: "points agreeing",
    AGREES_CHANGED: f"points of “{AGREES_CHANGED}”",
}
DIGITS = 9  # digits of a difference; rounding errors beyond them must not make a model differ from itself


@dataclass(frozen=True)
class Comparison:
    """Difference a - b of two models' corpus scores (fractions), and its uncertainty over the test pairs."""

    metric: str
    difference: float
    low: float  # the 95 % percentile interval
    high: float
    p: float  # two-sided; with Holm's correction for several comparisons
    significant: bool
    compared: int = 1  # number of comparisons in Holm's correction

    @property
    def printed(self) -> str:
        return f"{signed(self.difference)} [{signed(self.low)}, {signed(self.high)}]"

    def sentence(self, a_name: str, b_name: str) -> str:
        """Return the conclusion as a sentence. Scores are multiplied by 100, as in papers."""
        name = SPOKEN.get(self.metric, self.metric.replace("_", " "))
        interval = f"95 % interval {signed(self.low)} to {signed(self.high)}, {p_value(self.p)}"
        if self.compared > 1:
            interval += f" after Holm's correction for {self.compared} comparisons"
        if not self.significant:
            return f"{a_name} − {b_name}: {signed(self.difference)} {name}, not significant ({interval})."
        better, worse = (a_name, b_name) if self.difference > 0 else (b_name, a_name)
        size = f"{100 * abs(self.difference):.1f}"
        return f"{better} is better than {worse} by {size} {name} ({a_name} − {b_name}: {interval})."


def compare(a: Evidence, b: Evidence, resamples: int = RESAMPLES, seed: int = SEED) -> dict[str, Comparison]:
    return compare_all({"a": a, "b": b}, resamples, seed)["a", "b"]


def compare_all(
    models: Mapping[str, Evidence],
    resamples: int = RESAMPLES,
    seed: int = SEED,
    between: Sequence[tuple[str, str]] | None = None,
) -> dict[tuple[str, str], dict[str, Comparison]]:
    """Compare all models, or those in `between`, by a paired bootstrap: (name, name) -> metric -> result.

    Scenes are resampled, seeds are not. p values of a metric are corrected by Holm's method, intervals are
    not. A difference is significant if the corrected p is below 0.05, the interval excludes 0, and the
    difference does not print as 0.0.
    """
    if len(models) < 2:
        return {}
    pairs_of_models = [*combinations(models, 2)] if between is None else between
    models = alike(models, pairs_of_models)
    scene_ids = next((model.scene_ids for model in models.values() if model.scene_ids), ())
    by_scene = {name: replace(model, scene_ids=scene_ids).of_scenes() for name, model in models.items()}
    evidence = [*by_scene.values()]
    all_scenes = np.ones((1, len(evidence[0].pair_ids)))
    observed = dict(zip(models, scores(evidence, all_scenes), strict=True))
    drawn = dict(zip(models, resampled(evidence, resamples, seed), strict=True))
    comparisons = {
        (a, b): {
            metric: _comparison(
                metric,
                min(by_scene[a].counted(metric), by_scene[b].counted(metric)),
                observed[a][metric] - observed[b][metric],
                drawn[a][metric] - drawn[b][metric],
            )
            for metric in observed[a]
            if metric in observed[b]
        }
        for a, b in pairs_of_models
    }
    return _corrected(comparisons)


def _comparison(metric: str, pairs: int, observed: Array, differences: Array) -> Comparison:
    """Return the comparison of two models over `pairs` pairs (or scenes) that have the metric.

    observed: the difference of the scores over all pairs, (1,); differences: of each resample, (resamples,),
        or NaN
    """
    drawn = np.round(differences[np.isfinite(differences)], DIGITS)
    if not len(drawn):
        raise InputError(f"no resample has a pair with {metric}; take more than {len(differences)}")
    low, high = np.quantile(drawn, [LEVEL / 2, 1 - LEVEL / 2])
    # the +1 adds the observed sample to the drawn ones, so that p is never 0
    tail = min((drawn <= 0).sum(), (drawn >= 0).sum()) + 1
    # with few pairs, p is at least the sign test's least p: the chance that one model wins at every pair
    p = max(min(1.0, 2 * tail / (len(drawn) + 1)), 2.0 ** (1 - pairs))
    difference = round(float(observed[0]), DIGITS)
    significant = bool(p < LEVEL and not low <= 0 <= high and abs(difference) >= LEAST)
    return Comparison(metric, difference, float(low), float(high), float(p), significant)


def _corrected(
    comparisons: dict[tuple[str, str], dict[str, Comparison]],
) -> dict[tuple[str, str], dict[str, Comparison]]:
    """Correct p values and `significant` in place, for each metric, by Holm's method (1979)."""
    for metric in dict.fromkeys(metric for by_metric in comparisons.values() for metric in by_metric):
        of_metric = [by_metric for by_metric in comparisons.values() if metric in by_metric]
        least_p = 0.0
        for rank, by_metric in enumerate(sorted(of_metric, key=lambda by_metric: by_metric[metric].p)):
            comparison = by_metric[metric]
            least_p = max(least_p, min(1.0, comparison.p * (len(of_metric) - rank)))
            significant = comparison.significant and least_p < LEVEL
            by_metric[metric] = replace(
                comparison, p=least_p, significant=significant, compared=len(of_metric)
            )
    return comparisons


def signed(difference: float) -> str:
    return f"{100 * difference:+.1f}".replace("-", "−").replace("+0.0", "0.0").replace("−0.0", "0.0")


def p_value(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
