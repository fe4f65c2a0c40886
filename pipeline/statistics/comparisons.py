"""Test whether two models differ significantly on the same test pairs, by a paired bootstrap."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from pipeline.io.errors import InputError
from pipeline.scoring.metric_names import AGREES, AGREES_CHANGES, HEADINGS, TRUE, TRUE_CHANGES
from pipeline.statistics.bootstrap import resampled, scores
from pipeline.statistics.pair_scores import Array, Evidence, same_pairs

RESAMPLES = 10_000
SEED = 1
LEVEL = 0.05  # an interval contains 1 - LEVEL of the resamples
LEAST = 0.0005  # smaller differences print as 0.0, such as those in BLEU-4 of two corpora without a 4-gram
SPOKEN = {  # metrics with another name in sentences
    TRUE: "points true",
    TRUE_CHANGES: f"points of “{HEADINGS[TRUE_CHANGES]}”",
    AGREES: "points agreeing",
    AGREES_CHANGES: f"points of “{HEADINGS[AGREES_CHANGES]}”",
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
        """100 times the difference, and its interval."""
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
    """Return metric -> paired bootstrap of a - b, for the metrics that both models have.

    Whole scenes are resampled, and both models get the same scenes. A model's score is the mean over its
    seeds, which are not resampled, so the interval does not cover the variation over training runs. CIDEr-D
    keeps the document frequencies of all test pairs. Raises InputError if the models' pairs differ.
    """
    return compare_all({"a": a, "b": b}, resamples, seed)["a", "b"]


def compare_all(
    models: Mapping[str, Evidence],
    resamples: int = RESAMPLES,
    seed: int = SEED,
    between: Sequence[tuple[str, str]] | None = None,
) -> dict[tuple[str, str], dict[str, Comparison]]:
    """Compare all pairs of models, or only the pairs in `between`; return (a, b) -> metric -> comparison.

    With several comparisons, the p values of each metric have Holm's correction; the intervals have none. A
    difference is significant if the corrected p is below 0.05, the interval excludes 0, and the difference
    does not print as 0.0.
    """
    names, every = list(models), list(models.values())
    if len(names) < 2:
        return {}
    for name in names[1:]:
        same_pairs(every[0].pair_ids, models[name].pair_ids, f"the scores of {names[0]} and {name}")
    scenes = next((own.scene_ids for own in every if own.scene_ids), ())
    every = [replace(own, scene_ids=scenes).of_scenes() for own in every]
    whole = scores(every, np.ones((1, len(every[0].pair_ids))))
    drawn = resampled(every, resamples, seed)
    asked = combinations(names, 2) if between is None else between
    found = {
        (names[a], names[b]): {
            metric: _comparison(
                metric,
                min(every[a].counted(metric), every[b].counted(metric)),
                whole[a][metric] - whole[b][metric],
                drawn[a][metric] - drawn[b][metric],
            )
            for metric in whole[a]
            if metric in whole[b]
        }
        for a, b in ((names.index(one), names.index(other)) for one, other in asked)
    }
    return _corrected(found)


def _comparison(metric: str, pairs: int, observed: Array, differences: Array) -> Comparison:
    """Compute interval and p of an observed difference from the differences of all resamples.

    pairs: number of pairs that have the metric
    differences: per resample; NaN if none of its pairs has the metric
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
    found: dict[tuple[str, str], dict[str, Comparison]],
) -> dict[tuple[str, str], dict[str, Comparison]]:
    """Correct the p values by Holm's step-down method (1979), for each metric separately."""
    for metric in {metric: None for own in found.values() for metric in own}:
        pairs = sorted(
            (pair for pair in found if metric in found[pair]), key=lambda pair: found[pair][metric].p
        )
        least = 0.0
        for place, pair in enumerate(pairs):
            own = found[pair][metric]
            least = max(least, min(1.0, own.p * (len(pairs) - place)))
            significant = own.significant and least < LEVEL
            found[pair][metric] = replace(own, p=least, significant=significant, compared=len(pairs))
    return found


def signed(difference: float) -> str:
    """Format 100 times a difference with its sign (− for minus); 0.0 has no sign."""
    return f"{100 * difference:+.1f}".replace("-", "−").replace("+0.0", "0.0").replace("−0.0", "0.0")


def p_value(p: float) -> str:
    """Format p for sentences and tables."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
