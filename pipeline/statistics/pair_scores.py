"""Read the scores of each test pair from pairs.jsonl, in a form from which the bootstrap computes scores.

The functions in SUMMED compute the score of a corpus from sums over its pairs, as pycocoevalcap and METEOR
1.5 do.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field, FiniteFloat, NonNegativeInt

from pipeline.io.errors import InputError
from pipeline.io.records import read_records
from pipeline.scoring import metric_names as named
from pipeline.scoring import run_files
from pipeline.scoring.meteor import from_statistics
from pipeline.scoring.metrics import SMALL, TINY

REMEDY = "run `dvc repro score` to make it"
NgramCounts = Annotated[list[NonNegativeInt], Field(min_length=4, max_length=4)]  # n-grams of 1 to 4 words
MeteorCounts = Annotated[list[Annotated[FiniteFloat, Field(ge=0)]], Field(min_length=23, max_length=23)]
Array = np.ndarray
MILLION = 1e6


def bleu_4(sums: Array) -> Array:
    """Return BLEU-4, (...), from sums, (..., 10).

    The 10 sums are matched n-grams (4), all n-grams (4), and the words of captions and of references.
    """
    matches, guesses, length, reference = sums[..., :4], sums[..., 4:8], sums[..., 8], sums[..., 9]
    precision = np.prod((matches + TINY) / (guesses + SMALL), -1) ** 0.25
    ratio = (length + TINY) / (reference + SMALL)
    return precision * np.exp(np.minimum(1 - 1 / ratio, 0))


def mean(sums: Array) -> Array:
    """Return the means, (...), of values whose sums and numbers are in `sums`, (..., 2).

    `sums[..., 0]` is the sum of the values, in millionths, and `sums[..., 1]` is their number. The mean
    of no values is NaN.
    """
    means = np.full(sums.shape[:-1], np.nan)
    return np.divide(sums[..., 0], sums[..., 1], means, where=sums[..., 1] > 0) / MILLION


@dataclass(frozen=True)
class Evidence:
    """Scores of the test pairs, from the runs of one model with different seeds.

    For each metric, `numbers` has an array of whole numbers, (seeds, pairs, n). The length n depends on
    the metric. The function SUMMED[metric] computes the score from the sums of this array over the pairs.
    Sums of whole numbers are exact in any order, so a comparison gives the same bits on every machine.
    """

    pair_ids: tuple[str, ...]
    numbers: dict[str, Array]
    not_judged: int = 0  # number of captions that were not judged; if above 0, `numbers` has no truth
    scene_ids: tuple[str, ...] = ()  # scene of each pair; () if unknown: each pair is then its own scene

    @property
    def seeds(self) -> int:
        """Number of seeds."""
        return len(next(iter(self.numbers.values())))

    @property
    def scenes(self) -> int:
        """Number of different scenes."""
        return len(set(self.scene_ids or self.pair_ids))

    def of_scenes(self) -> "Evidence":
        """Return evidence with one item per scene: the sums over the pairs of the scene.

        The scenes are in the order of their first pairs.
        """
        rows = {scene: row for row, scene in enumerate(dict.fromkeys(self.scene_ids))}
        if len(rows) in (0, len(self.pair_ids)):
            return self
        row_of_pair = np.array([rows[scene] for scene in self.scene_ids])
        scene_numbers = {}
        for metric, numbers in self.numbers.items():
            sums = np.zeros((len(rows), len(numbers), numbers.shape[2]))
            np.add.at(sums, row_of_pair, np.moveaxis(numbers, 1, 0))
            scene_numbers[metric] = np.moveaxis(sums, 0, 1)
        return Evidence(tuple(rows), scene_numbers, self.not_judged)

    def part(self, positions: Sequence[int]) -> "Evidence":
        """Return an Evidence with only the pairs at the indices `positions`, in that order."""
        pair_ids = tuple(self.pair_ids[position] for position in positions)
        numbers = {metric: values[:, positions] for metric, values in self.numbers.items()}
        scene_ids = tuple(self.scene_ids[position] for position in positions) if self.scene_ids else ()
        return Evidence(pair_ids, numbers, self.not_judged, scene_ids)

    def counted(self, metric: str) -> int:
        """Return the number of pairs with a value of the metric."""
        numbers = self.numbers[metric]
        return int((numbers[0, :, 1] > 0).sum()) if SUMMED[metric] is mean else numbers.shape[1]


class _Bleu(BaseModel):
    matches: NgramCounts
    guesses: NgramCounts
    length: NonNegativeInt
    reference_length: NonNegativeInt

    @property
    def counts(self) -> list[int]:
        """The 10 counts of a caption for BLEU-4; `bleu_4` computes the score from their sums over pairs.

        The counts are: matched n-grams of 1 to 4 words (4), all n-grams of 1 to 4 words (4), the words of
        the caption, and the words of the reference closest in length.
        """
        return [*self.matches, *self.guesses, self.length, self.reference_length]


class ScoredPair(BaseModel):
    """A line of pairs.jsonl: the scores of one caption.

    `right` judges only whether the caption correctly reports a change or no change. `true` judges all
    parts of the caption by the scene; an ambiguous caption, which also fits another object, is not true.
    `fits` is the same, but accepts ambiguous captions. `agrees` judges all parts by the references, if
    the scene is unknown. None: unknown.
    """

    pair_id: str
    scene_id: str | None = None
    bleu: _Bleu
    meteor: MeteorCounts
    rouge_l: FiniteFloat = Field(alias="ROUGE-L")
    cider_d: FiniteFloat = Field(alias="CIDEr-D")  # a fraction; document frequencies of all the test pairs
    spice: FiniteFloat | None = Field(alias="SPICE")
    right: bool | None  # correct about change or no change; None if the truth is unknown
    changed: bool | None = None
    true: bool | None = None  # by the scene, if it is known
    fits: bool | None = None
    agrees: bool | None = None  # with the references, if the scene is unknown
    faults: str | None = None  # the false parts of the caption, as letters of truth.FAULTS
    not_judged: bool = False  # True for a caption of another program that is not parseable
    caption: str = ""


VALUES: dict[str, Callable[[ScoredPair], Any]] = {
    named.TRUE_CHANGES: lambda pair: pair.true if pair.changed else None,
    named.TRUE: attrgetter("true"),
    named.FITS: attrgetter("fits"),
    named.AGREES_CHANGES: lambda pair: pair.agrees if pair.changed else None,
    named.AGREES: attrgetter("agrees"),
    named.BLEU_4: lambda pair: pair.bleu.counts,
    named.METEOR: attrgetter("meteor"),
    named.ROUGE_L: attrgetter("rouge_l"),
    named.CIDER: attrgetter("cider_d"),
    named.SPICE: attrgetter("spice"),
    named.ACCURACY: attrgetter("right"),
}
"""Metric -> function that returns a pair's value: a fraction, None, or the numbers for BLEU-4 and METEOR."""

SUMMED: dict[str, Callable[[Array], Array]] = {
    **dict.fromkeys(VALUES, mean),
    named.BLEU_4: bleu_4,
    named.METEOR: from_statistics,
}
"""Metric -> function from sums (..., numbers) to scores (...,), as fractions; NaN if no pair has a value."""


def read(paths: Sequence[Path]) -> Evidence:
    """Read the scores of a model from the pairs.jsonl of each of its seeds, and return them as an Evidence.

    Raises InputError if the files have different pairs, and in the cases in which `read_pairs` raises it.
    """
    return evidence({str(path): read_pairs(path) for path in paths})


def evidence(runs: Mapping[str, Sequence[ScoredPair]]) -> Evidence:
    """Combine the scored pairs of all seeds of a model into one Evidence.

    `runs` has an entry per seed: a name, which error messages use, and the seed's scored pairs. Metrics
    that a seed lacks are left out. Raises InputError if the seeds have different pairs.
    """
    ids = {name: tuple(pair.pair_id for pair in run) for name, run in runs.items()}
    first = next(iter(ids))
    for name, pair_ids in ids.items():
        same_pairs(ids[first], pair_ids, f"{first} and {name}")
    numbers = [_numbers(run) for run in runs.values()]
    common = [metric for metric in numbers[0] if all(metric in of_seed for of_seed in numbers)]
    not_judged = sum(pair.not_judged for run in runs.values() for pair in run)
    if not_judged:
        common = [metric for metric in common if metric not in (*named.JUDGED, *named.PLACES)]
    stacked = {metric: np.stack([of_seed[metric] for of_seed in numbers]) for metric in common}
    scenes = [pair.scene_id for pair in runs[first] if pair.scene_id is not None]
    scene_ids = tuple(scenes) if len(scenes) == len(ids[first]) else ()
    return Evidence(ids[first], stacked, not_judged, scene_ids)


def read_pairs(path: Path) -> list[ScoredPair]:
    """Read a pairs.jsonl. Raises InputError if it is missing or was not written by stages.score."""
    run_files.check_per_pair(path)
    pairs = list(read_records(path, ScoredPair, REMEDY, "pair_id", extra="ignore"))
    if not pairs:
        raise InputError(f"{path} has no pairs; remove it and {REMEDY} again")
    return pairs


def same_pairs(ids_a: Sequence[str], ids_b: Sequence[str], tables: str) -> None:
    """Raise InputError unless two tables of scores have the same pair ids in the same order.

    `tables` names both tables at the beginning of the message.
    """
    for number, (id_a, id_b) in enumerate(zip_longest(ids_a, ids_b), 1):
        if id_a != id_b:
            raise InputError(
                f"{tables} are not of the same pairs: number {number} is {id_a!r} in one and {id_b!r} in the "
                "other; compare models scored on one test split"
            )


def _numbers(run: Sequence[ScoredPair]) -> dict[str, Array]:
    """Return the numbers from which each metric is computed, for the pairs of one run.

    The result is a dictionary: metric -> array (pairs, numbers per pair). A metric is left out if no
    pair has a value of it.
    """
    numbers = {}
    for metric, value in VALUES.items():
        values = [value(pair) for pair in run]
        if SUMMED[metric] is not mean:
            numbers[metric] = np.array(values, float)
        elif any(number is not None for number in values):
            numbers[metric] = millionths(values)
    return numbers


def millionths(values: Sequence[float | None] | Sequence[float]) -> Array:
    """Return an array, (pairs, 2), with one row for each value.

    The row of a number is [the number in millionths, 1]. The row of None is [0, 0]. Millionths are
    rounded to whole numbers. This loses nothing, because the values in files have 6 decimals.
    """
    return np.array(
        [(0.0, 0.0) if value is None else (float(np.rint(value * MILLION)), 1.0) for value in values]
    )
