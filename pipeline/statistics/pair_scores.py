"""Numbers of each test pair and seed of a model, read from pairs.jsonl for the bootstrap.

The functions in SUMMED compute a corpus's scores from sums over pairs, as pycocoevalcap and METEOR 1.5 do.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, Field, FiniteFloat, NonNegativeInt

from pipeline.io.errors import InputError
from pipeline.io.records import read_records
from pipeline.scoring import metric_names as named
from pipeline.scoring import run_files
from pipeline.scoring.meteor_formula import from_statistics
from pipeline.scoring.metrics import SMALL, TINY

REMEDY = "run `dvc repro score` to make it"
Four = Annotated[list[NonNegativeInt], Field(min_length=4, max_length=4)]
Line = Annotated[list[Annotated[FiniteFloat, Field(ge=0)]], Field(min_length=23, max_length=23)]
Array = np.ndarray
MILLION = 1e6


def bleu_4(sums: Array) -> Array:
    """Return BLEU-4 from sums (..., 10): matched n-grams (4), all n-grams (4), length, reference length."""
    matches, guesses, length, reference = sums[..., :4], sums[..., 4:8], sums[..., 8], sums[..., 9]
    precision = np.prod((matches + TINY) / (guesses + SMALL), -1) ** 0.25
    ratio = (length + TINY) / (reference + SMALL)
    return precision * np.exp(np.minimum(1 - 1 / ratio, 0))


def mean(sums: Array) -> Array:
    """Return the mean from sums (..., 2): the sum of the values in millionths, and the number of values."""
    means = np.full(sums.shape[:-1], np.nan)
    return np.divide(sums[..., 0], sums[..., 1], means, where=sums[..., 1] > 0) / MILLION


SUMMED: dict[str, Callable[[Array], Array]] = {
    named.TRUE_CHANGES: mean,  # of the pairs with a change
    named.TRUE: mean,
    named.FITS: mean,
    named.AGREES_CHANGES: mean,  # of the pairs with a change
    named.AGREES: mean,
    named.BLEU_4: bleu_4,
    named.METEOR: from_statistics,
    named.ROUGE_L: mean,
    named.CIDER: mean,
    named.SPICE: mean,
    named.ACCURACY: mean,
}
"""Metric -> function from sums (..., numbers) to scores (...,), as fractions; NaN if no pair has a value."""


@dataclass(frozen=True)
class Evidence:
    """Numbers of a model for the bootstrap: metric -> integer array (seeds, pairs, numbers per pair).

    The sums of an array over the pairs are the input of the function SUMMED[metric], which returns the
    metric's score. Sums of integers are exact in any order, so a comparison gives the same bits on every
    machine.
    """

    pair_ids: tuple[str, ...]
    numbers: dict[str, Array]
    not_judged: int = 0  # captions of all seeds; if there are any, truth and agreement are left out
    scene_ids: tuple[str, ...] = ()  # of each pair; () if unknown: each pair then counts as its own scene

    @property
    def seeds(self) -> int:
        """Number of runs."""
        return len(next(iter(self.numbers.values())))

    @property
    def scenes(self) -> int:
        """Number of distinct scenes."""
        return len(set(self.scene_ids or self.pair_ids))

    def of_scenes(self) -> "Evidence":
        """Return the sums over each scene's pairs. Scenes are in the order of their first pairs."""
        places = {scene: place for place, scene in enumerate(dict.fromkeys(self.scene_ids))}
        if len(places) in (0, len(self.pair_ids)):
            return self
        rows = np.array([places[scene] for scene in self.scene_ids])
        sums = {name: _summed(own, rows, len(places)) for name, own in self.numbers.items()}
        return Evidence(tuple(places), sums, self.not_judged)

    def part(self, places: Sequence[int]) -> "Evidence":
        """Return the evidence of the pairs at these positions."""
        numbers = {name: own[:, places] for name, own in self.numbers.items()}
        scenes = [self.scene_ids[place] for place in places] if self.scene_ids else []
        return Evidence(
            tuple(self.pair_ids[place] for place in places), numbers, self.not_judged, tuple(scenes)
        )

    def counted(self, metric: str) -> int:
        """Return the number of pairs with a value of the metric."""
        own = self.numbers[metric]
        return int((own[0, :, 1] > 0).sum()) if SUMMED[metric] is mean else own.shape[1]


class _Bleu(BaseModel):
    matches: Four
    guesses: Four
    length: NonNegativeInt
    reference_length: NonNegativeInt


class ScoredPair(BaseModel):
    """A line of pairs.jsonl: the scores of one caption."""

    pair_id: str
    scene_id: str | None = None
    bleu: _Bleu
    meteor: Line
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


def read(paths: Sequence[Path]) -> Evidence:
    """Read the pairs.jsonl of each seed of a model.

    Raises InputError in the cases in which `read_pairs` does, or if the files have different pairs.
    """
    return evidence({str(path): read_pairs(path) for path in paths})


def evidence(runs: Mapping[str, Sequence[ScoredPair]]) -> Evidence:
    """Combine the pairs of all seeds (file -> pairs). Metrics that a seed lacks are left out."""
    ids = {name: tuple(pair.pair_id for pair in run) for name, run in runs.items()}
    first = next(iter(ids))
    for name, own in ids.items():
        same_pairs(ids[first], own, f"{first} and {name}")
    each = [_numbers(run) for run in runs.values()]
    common = [metric for metric in each[0] if all(metric in numbers for numbers in each)]
    not_judged = sum(pair.not_judged for run in runs.values() for pair in run)
    if not_judged:
        common = [metric for metric in common if metric not in (*named.JUDGED, *named.PLACES)]
    numbers = {metric: np.stack([own[metric] for own in each]) for metric in common}
    scenes = [pair.scene_id for pair in runs[first] if pair.scene_id is not None]
    return Evidence(ids[first], numbers, not_judged, tuple(scenes) if len(scenes) == len(ids[first]) else ())


def read_pairs(path: Path) -> list[ScoredPair]:
    """Read a pairs.jsonl. Raises InputError if it is missing or was not written by stages.score."""
    run_files.check_per_pair(path)
    found = list(read_records(path, ScoredPair, REMEDY, "pair_id", extra="ignore"))
    if not found:
        raise InputError(f"{path} has no pairs; remove it and {REMEDY} again")
    return found


def same_pairs(a: Sequence[str], b: Sequence[str], what: str) -> None:
    """Raise InputError, which begins with `what`, unless two tables have the same pairs in the same order."""
    if tuple(a) != tuple(b):
        place = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        named = [repr(ids[place]) if place < len(ids) else "none" for ids in (a, b)]
        raise InputError(
            f"{what} are not of the same pairs: number {place + 1} is {named[0]} in one and {named[1]} in "
            "the other; compare models scored on one test split"
        )


def _summed(numbers: Array, rows: Array, count: int) -> Array:
    """Return the sums of `numbers`, (seeds, pairs, n), over groups of pairs: (seeds, count, n).

    `rows` has the number of each pair's group. `count` is the number of groups.
    """
    sums = np.zeros((count, len(numbers), numbers.shape[2]))
    np.add.at(sums, rows, np.moveaxis(numbers, 1, 0))
    return np.moveaxis(sums, 0, 1)


def _numbers(run: Sequence[ScoredPair]) -> dict[str, Array]:
    """Return metric -> array (pairs, numbers per pair); a metric that no pair has is left out."""
    bleu = [[*b.matches, *b.guesses, b.length, b.reference_length] for b in (pair.bleu for pair in run)]
    means: dict[str, Sequence[float | None]] = {
        named.TRUE_CHANGES: [pair.true if pair.changed else None for pair in run],
        named.TRUE: [pair.true for pair in run],
        named.FITS: [pair.fits for pair in run],
        named.AGREES_CHANGES: [pair.agrees if pair.changed else None for pair in run],
        named.AGREES: [pair.agrees for pair in run],
        named.ROUGE_L: [pair.rouge_l for pair in run],
        named.CIDER: [pair.cider_d for pair in run],
        named.SPICE: [pair.spice for pair in run],
        named.ACCURACY: [pair.right for pair in run],
    }
    known = {name: _millionths(own) for name, own in means.items() if any(v is not None for v in own)}
    found = known | {
        named.BLEU_4: np.array(bleu, float),
        named.METEOR: np.array([pair.meteor for pair in run]),
    }
    return {name: found[name] for name in SUMMED if name in found}


def _millionths(values: Sequence[float | None] | Sequence[float]) -> Array:
    """Return an array (pairs, 2): each value in millionths, and 1; for None, 0 and 0.

    Values in millionths are integers, because files have 6 decimals.
    """
    return np.array([(0.0, 0.0) if v is None else (float(np.rint(v * MILLION)), 1.0) for v in values])
