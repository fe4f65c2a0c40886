"""Is one model significantly better than another on these test pairs?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from pipeline.io.errors import InputError
from pipeline.scoring.metric_names import AGREES, AGREES_CHANGES, HEADINGS, TRUE, TRUE_CHANGES
from pipeline.statistics.bootstrap import resampled, scores
from pipeline.statistics.corpus_sums import Array
from pipeline.statistics.pair_scores import Evidence, same_pairs

RESAMPLES = 10_000
SEED = 1
LEVEL = 0.05  # an interval holds 1 - LEVEL of the resamples
LEAST = 0.0005  # a difference that papers print as 0.0: two corpora without a 4-gram differ by less in BLEU-4
SPOKEN = {  # metrics whose name in a sentence is another
    TRUE: "points true",
    TRUE_CHANGES: f"points of “{HEADINGS[TRUE_CHANGES]}”",
    AGREES: "points agreeing",
    AGREES_CHANGES: f"points of “{HEADINGS[AGREES_CHANGES]}”",
}
DIGITS = 9  # of a difference; beyond them is rounding, which must not make a model differ from itself


@dataclass(frozen=True)
class Comparison:
    """The difference a - b of one corpus score (a fraction), and how sure it is over the test pairs."""

    metric: str
    difference: float
    low: float  # the 95 % percentile interval
    high: float
    p: float  # two-sided; of several models at once, Holm's correction is in it
    significant: bool
    compared: int = 1  # pairs of models among which p was corrected

    @property
    def printed(self) -> str:
        """The difference and its interval, x 100."""
        return f"{signed(self.difference)} [{signed(self.low)}, {signed(self.high)}]"

    def sentence(self, a_name: str, b_name: str) -> str:
        """What a reader may conclude, scores x 100 as papers print them."""
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
    """Metric -> the paired bootstrap of a - b, of the metrics that both have.

    Scenes are resampled with all their test pairs, which are alike; the same scenes for both models. A
    model's score is the mean over its seeds, which stay as they were trained. So the interval says how the
    difference would vary over other scenes of the kind, and nothing of how it would vary over other training
    runs. CIDEr-D keeps the document frequencies of all the test pairs. Raises InputError where the models'
    pairs differ.
    """
    return compare_all({"a": a, "b": b}, resamples, seed)["a", "b"]


def compare_all(
    models: Mapping[str, Evidence],
    resamples: int = RESAMPLES,
    seed: int = SEED,
    between: Sequence[tuple[str, str]] | None = None,
) -> dict[tuple[str, str], dict[str, Comparison]]:
    """Every two models, in their order, or those of `between` -> metric -> comparison, as `compare` has it.

    Of more than one comparison each metric's p values carry Holm's correction for the number of comparisons;
    the intervals are of each comparison alone. A difference is significant where the corrected p is below
    0.05, the interval does not hold 0, and the difference does not print as 0.0.
    """
    if resamples < 1:
        raise InputError(f"{resamples} resamples are too few; take at least 1")
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
    """Of the 1 observed difference over `pairs` and those of the resamples; NaN where one has no value."""
    drawn = np.round(differences[np.isfinite(differences)], DIGITS)
    if not len(drawn):
        raise InputError(f"no resample holds a pair that has {metric}; take more than {len(differences)}")
    low, high = np.quantile(drawn, [LEVEL / 2, 1 - LEVEL / 2])
    # the +1 counts the observed sample among those drawn, so that p is never 0
    tail = min((drawn <= 0).sum(), (drawn >= 0).sum()) + 1
    # of so few pairs even a win at each of them would be chance: no paired test gives less
    p = max(min(1.0, 2 * tail / (len(drawn) + 1)), 2.0 ** (1 - pairs))
    difference = round(float(observed[0]), DIGITS)
    told = bool(p < LEVEL and not low <= 0 <= high and abs(difference) >= LEAST)
    return Comparison(metric, difference, float(low), float(high), float(p), told)


def _corrected(
    found: dict[tuple[str, str], dict[str, Comparison]],
) -> dict[tuple[str, str], dict[str, Comparison]]:
    """The comparisons with Holm's step-down p values (1979), each metric a family of its own."""
    for metric in {metric: None for own in found.values() for metric in own}:
        pairs = sorted(
            (pair for pair in found if metric in found[pair]), key=lambda pair: found[pair][metric].p
        )
        least = 0.0
        for place, pair in enumerate(pairs):
            own = found[pair][metric]
            least = max(least, min(1.0, own.p * (len(pairs) - place)))
            told = own.significant and least < LEVEL
            found[pair][metric] = replace(own, p=least, significant=told, compared=len(pairs))
    return found


def signed(difference: float) -> str:
    """x 100 with its sign, a minus as long as the plus; 0.0 without."""
    return f"{100 * difference:+.1f}".replace("-", "−").replace("+0.0", "0.0").replace("−0.0", "0.0")


def p_value(p: float) -> str:
    """As it stands in sentences and tables."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
