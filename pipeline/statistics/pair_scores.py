"""Read the scores of each test pair from pairs.jsonl, as an Evidence (evidence.py)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field, FiniteFloat, NonNegativeInt, model_validator

from pipeline.io.errors import InputError
from pipeline.io.records import read_records
from pipeline.scoring import metric_names as named
from pipeline.scoring import run_files
from pipeline.scoring.conditions import Conditions
from pipeline.scoring.mean_metrics import MEANS
from pipeline.statistics.evidence import Array, Evidence, alike, mean, millionths, summed

REMEDY = "run `dvc repro score` to make it"
NgramCounts = Annotated[list[NonNegativeInt], Field(min_length=4, max_length=4)]  # n-grams of 1 to 4 words
MeteorCounts = Annotated[list[Annotated[FiniteFloat, Field(ge=0)]], Field(min_length=23, max_length=23)]


class _Bleu(BaseModel):
    matches: NgramCounts
    guesses: NgramCounts
    length: NonNegativeInt
    reference_length: NonNegativeInt

    @property
    def counts(self) -> list[int]:
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
    means: dict[str, FiniteFloat]  # the metrics in MEANS, such as ROUGE-L
    cider_d: FiniteFloat = Field(alias="CIDEr-D")  # a fraction; document frequencies of all the test pairs
    spice: FiniteFloat | None = Field(alias="SPICE")
    right: bool | None  # correct about change or no change; None if the truth is unknown
    changed: bool | None = None
    true: bool | None = None  # by the scene, if it is known
    fits: bool | None = None
    agrees: bool | None = None  # with the references, if the scene is unknown
    faults: str | None = None  # the false parts of the caption, as letters of verdicts.FAULTS
    caption: str = ""
    scored: Conditions
    references: str  # hash of the pair's references

    @model_validator(mode="before")
    @classmethod
    def _collect_means(cls, line: Any) -> Any:
        if not isinstance(line, dict):
            return line
        return line | {"means": {metric: line.get(metric) for metric in MEANS}}


def _mean_of(metric: str, pair: ScoredPair) -> float:
    return pair.means[metric]


VALUES: dict[str, Callable[[ScoredPair], Any]] = {
    named.TRUE_CHANGED: lambda pair: pair.true if pair.changed else None,
    named.TRUE: attrgetter("true"),
    named.FITS: attrgetter("fits"),
    named.AGREES_CHANGED: lambda pair: pair.agrees if pair.changed else None,
    named.AGREES: attrgetter("agrees"),
    named.BLEU_4: lambda pair: pair.bleu.counts,
    named.METEOR: attrgetter("meteor"),
    **{metric: partial(_mean_of, metric) for metric in MEANS},
    named.CIDER: attrgetter("cider_d"),
    named.SPICE: attrgetter("spice"),
    named.ACCURACY: attrgetter("right"),
}
"""Metric -> function that returns a pair's value: a fraction, None, or the numbers for BLEU-4 and METEOR."""


def read(paths: Sequence[Path]) -> Evidence:
    return evidence({str(path): read_pairs(path) for path in paths})


def evidence(runs: Mapping[str, Sequence[ScoredPair]]) -> Evidence:
    """Combine all seeds (name for messages -> scored pairs) into one Evidence of the common metrics."""
    seeds = alike({name: _of_seed(run) for name, run in runs.items()})
    first = next(iter(seeds.values()))
    numbers = [seed.numbers for seed in seeds.values()]
    common = [metric for metric in numbers[0] if all(metric in of_seed for of_seed in numbers)]
    stacked = {metric: np.concatenate([of_seed[metric] for of_seed in numbers]) for metric in common}
    return replace(first, numbers=stacked)


def _of_seed(run: Sequence[ScoredPair]) -> Evidence:
    conditions = {pair.scored for pair in run}
    return Evidence(
        tuple(pair.pair_id for pair in run),
        {metric: values[None] for metric, values in _numbers(run).items()},
        _known([pair.scene_id for pair in run]),
        conditions.pop() if len(conditions) == 1 else None,
        _known([pair.references for pair in run]),
    )


def _known(texts: Sequence[str | None]) -> tuple[str, ...]:
    """Return the texts; () if one of them is None."""
    known = tuple(text for text in texts if text is not None)
    return known if len(known) == len(texts) else ()


def read_pairs(path: Path) -> list[ScoredPair]:
    """Read a pairs.jsonl. Raises InputError if it is missing or was not written by stages.score."""
    run_files.check_per_pair(path)
    pairs = list(read_records(path, ScoredPair, REMEDY, "pair_id", extra="ignore"))
    if not pairs:
        raise InputError(f"{path} has no pairs; remove it and {REMEDY} again")
    return pairs


def _numbers(run: Sequence[ScoredPair]) -> dict[str, Array]:
    """Return metric -> (pairs, numbers per pair), for the metrics that a pair of the run has."""
    numbers = {}
    for metric, value in VALUES.items():
        values = [value(pair) for pair in run]
        if summed(metric) is not mean:
            numbers[metric] = np.array(values, float)
        elif any(number is not None for number in values):
            numbers[metric] = millionths(values)
    return numbers
