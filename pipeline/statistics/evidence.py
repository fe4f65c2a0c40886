"""Scores of test pairs in a form from which the bootstrap computes scores, and when two are comparable.

The functions that `summed` returns compute the score of a corpus from sums over its pairs, as pycocoevalcap
and METEOR 1.5 do.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.io.errors import InputError
from pipeline.scoring import metric_names as named
from pipeline.scoring.conditions import Conditions
from pipeline.scoring.meteor import from_statistics
from pipeline.scoring.metrics import bleu

Array = np.ndarray
MILLION = 1e6


def bleu_4(sums: Array) -> Array:
    """Return BLEU-4 from sums, (..., 10): matched n-grams (4), n-grams (4), words and reference words."""
    rows = sums.reshape(-1, sums.shape[-1])
    return np.array([bleu(counts)[3] for counts in rows]).reshape(sums.shape[:-1])


def mean(sums: Array) -> Array:
    """Return the means of sums in millionths and numbers of values: (..., 2) -> (...); NaN of no values."""
    means = np.full(sums.shape[:-1], np.nan)
    return np.divide(sums[..., 0], sums[..., 1], means, where=sums[..., 1] > 0) / MILLION


NOT_MEANS: dict[str, Callable[[Array], Array]] = {named.BLEU_4: bleu_4, named.METEOR: from_statistics}


def summed(metric: str) -> Callable[[Array], Array]:
    return NOT_MEANS.get(metric, mean)


@dataclass(frozen=True)
class Evidence:
    """Scores of the test pairs, from the runs of one model with different seeds.

    For each metric, `numbers` has an array of whole numbers, (seeds, pairs, n). The length n depends on
    the metric. The function `summed(metric)` computes the score from the sums of this array over the pairs.
    Sums of whole numbers are exact in any order, so a comparison gives the same bits on every machine.
    """

    pair_ids: tuple[str, ...]
    numbers: dict[str, Array]
    scene_ids: tuple[str, ...] = ()  # scene of each pair; () if unknown: each pair is then its own scene
    conditions: Conditions | None = None  # None if unknown: such evidence is not compared
    references: tuple[str, ...] = ()  # hash of each pair's references; () if unknown, as above

    @property
    def seeds(self) -> int:
        return len(next(iter(self.numbers.values())))

    @property
    def scenes(self) -> int:
        return len(set(self.scene_ids or self.pair_ids))

    def of_scenes(self) -> "Evidence":
        """Return evidence with one item per scene: the sums over its pairs, in order of first pairs."""
        rows = {scene: row for row, scene in enumerate(dict.fromkeys(self.scene_ids))}
        if len(rows) in (0, len(self.pair_ids)):
            return self
        row_of_pair = np.array([rows[scene] for scene in self.scene_ids])
        scene_numbers = {}
        for metric, numbers in self.numbers.items():
            sums = np.zeros((len(rows), len(numbers), numbers.shape[2]))
            np.add.at(sums, row_of_pair, np.moveaxis(numbers, 1, 0))
            scene_numbers[metric] = np.moveaxis(sums, 0, 1)
        return Evidence(tuple(rows), scene_numbers)

    def part(self, positions: Sequence[int]) -> "Evidence":
        """Return an Evidence with only the pairs at the indices `positions`, in that order."""
        pair_ids = tuple(self.pair_ids[position] for position in positions)
        numbers = {metric: values[:, positions] for metric, values in self.numbers.items()}
        scene_ids = tuple(self.scene_ids[position] for position in positions) if self.scene_ids else ()
        hashes = tuple(self.references[position] for position in positions) if self.references else ()
        return Evidence(pair_ids, numbers, scene_ids, self.conditions, hashes)

    def in_order(self, pair_ids: Sequence[str]) -> "Evidence":
        """Return this evidence with its pairs in the order of `pair_ids`, which are the same pairs."""
        if tuple(pair_ids) == self.pair_ids:
            return self
        rows = {pair_id: row for row, pair_id in enumerate(self.pair_ids)}
        return self.part([rows[pair_id] for pair_id in pair_ids])

    def counted(self, metric: str) -> int:
        """Return the number of pairs with a value of the metric."""
        numbers = self.numbers[metric]
        return int((numbers[0, :, 1] > 0).sum()) if summed(metric) is mean else numbers.shape[1]


def alike(
    models: Mapping[str, Evidence], between: Iterable[tuple[str, str]] | None = None
) -> dict[str, Evidence]:
    """Return the evidence of all models with the pairs in the order of the first model.

    Raises InputError for other pairs, or if two models of `between` (default: any two) were scored under
    other or unknown conditions: tokeniser, references, or reader of captions.
    """
    first = next(iter(models), None)
    if first is None:
        return {}
    for name, model in models.items():
        same_pairs(models[first].pair_ids, model.pair_ids, f"{first} and {name}")
    ordered = {name: model.in_order(models[first].pair_ids) for name, model in models.items()}
    for a, b in [(first, name) for name in models if name != first] if between is None else between:
        _same_conditions(a, ordered[a], b, ordered[b])
    return ordered


def _same_conditions(a_name: str, a: Evidence, b_name: str, b: Evidence) -> None:
    remedy = "score both alike with stages.score"
    for name, model in ((a_name, a), (b_name, b)):
        if model.conditions is None:
            raise InputError(
                f"{name} does not state the tokeniser of its scores, so it is not compared; {remedy}"
            )
    if a.conditions and b.conditions and (difference := a.conditions.difference(b.conditions)):
        raise InputError(f"{a_name} and {b_name} were scored with different {difference}; {remedy}")
    for name, model in ((a_name, a), (b_name, b)):
        if not model.references:
            raise InputError(
                f"{name} does not state the references of its scores, so it is not compared; {remedy}"
            )
    other = [
        pair
        for pair, *hashes in zip(a.pair_ids, a.references, b.references, strict=True)
        if len({*hashes}) > 1
    ]
    if other:
        raise InputError(
            f"{a_name} and {b_name} were scored with different references of {len(other):,} of "
            f"{len(a.pair_ids):,} pairs, the first {other[0]!r}; {remedy}"
        )


def same_pairs(ids_a: Sequence[str], ids_b: Sequence[str], tables: str) -> None:
    """Raise InputError, which begins with `tables`, unless two tables have the same pair ids in any order."""
    known_a, known_b = set(ids_a), set(ids_b)
    in_one = [pair_id for pair_id in (*ids_a, *ids_b) if (pair_id in known_a) != (pair_id in known_b)]
    if in_one:
        raise InputError(
            f"{tables} are not of the same pairs: {len(ids_a):,} and {len(ids_b):,} pairs, of which "
            f"{len(in_one):,} are in one only, the first {in_one[0]!r}; compare models scored on one test "
            "split"
        )


def millionths(values: Sequence[float | None] | Sequence[float]) -> Array:
    """Return [the number in whole millionths, 1] for each value, [0, 0] for None: (pairs, 2)."""
    return np.array(
        [(0.0, 0.0) if value is None else (float(np.rint(value * MILLION)), 1.0) for value in values]
    )
