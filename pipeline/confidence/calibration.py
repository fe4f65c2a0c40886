"""The file confidence.json: a fitted probability that a caption is correct, and limits for refusing images.

The probability is computed from the caption's signals (signals.py). `commands.calibrate` writes the file,
which can be part of a package of weights. The file has only numbers and names, no code.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, StringConstraints, model_validator

from pipeline.confidence.appearance import SIZE
from pipeline.confidence.familiarity import Familiarity
from pipeline.confidence.probability import Method, Probability
from pipeline.confidence.signals import NAMES
from pipeline.config.dataset_params import Strict
from pipeline.datasets.schema import Pair
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_json
from pipeline.io.records import plain
from pipeline.judging.strict import agrees, judge
from pipeline.scoring.accuracy import right

FILE = "confidence.json"
LARGEST = 1 << 20  # maximum size of the file in bytes
REMEDY = "run python -m commands.calibrate to make it again"
Meaning = Literal["true", "agrees", "change"]
"""Criterion of a correct caption; see CRITERIA."""
CRITERIA = {
    "true": "the caption is true",
    "agrees": "the caption agrees with the references",
    "change": "the caption is right about change or no change",
}  # in messages


class Calibration(Strict):
    """Content of confidence.json: the probability that a caption is correct, and when to refuse images.

    `signals` are the names of the probability's inputs. `meaning` is the criterion of a correct caption
    (CRITERIA). `measured` has measures of the probability on the test pairs: {"test": {name: value}}.
    """

    weights: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]  # sha256 of the weights' file
    signals: list[str]
    meaning: Meaning
    grammar: bool  # captions follow the grammar of coloured solids
    phrases: list[str]  # sentences of the dataset that report no change, besides those in English
    beam: Annotated[int, Field(ge=1, le=64)]
    length_penalty: Annotated[float, Field(ge=0)]
    pairs: int  # number of pairs to which the probability was fitted
    method: Method
    refitted: int = 0  # number of labelled pairs of other images to which slope and shift were refitted
    probability: Probability
    familiarity: Familiarity | None = None  # None for a model that reads pixels
    measured: dict[str, dict[str, float | None]] = Field(default_factory=dict)  # split -> measure -> value

    def of(self, beam: int, length_penalty: float) -> bool:
        return (self.beam, self.length_penalty) == (beam, length_penalty)

    def chances(self, signals: np.ndarray, reports_change: np.ndarray, distances: np.ndarray) -> np.ndarray:
        """Return the probability of a familiar pair with a correct caption, (P,); `distances` are (P, 3)."""
        correct_if_familiar = self.probability(signals, reports_change)
        if self.familiarity is None:
            return correct_if_familiar
        return correct_if_familiar * self.familiarity.probability(distances)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if tuple(self.signals) != NAMES:
            raise ValueError(f"signals are not {', '.join(NAMES)}")
        for regression in (self.probability.change, self.probability.no_change):
            sizes = {len(regression.mean), len(regression.deviation), len(regression.weights)}
            if sizes != {len(NAMES)} or min(regression.deviation) <= 0:
                raise ValueError("a regression has not one positive deviation and one weight for each signal")
        if self.familiarity:
            self._check(self.familiarity)
        return self

    @staticmethod
    def _check(familiar: Familiarity) -> None:
        statistics = familiar.statistics
        rows = {len(statistics.mean), len(statistics.deviation), len(statistics.whitening)}
        if rows | {len(row) for row in statistics.whitening} != {SIZE}:
            raise ValueError(f"familiarity has not {SIZE} statistics of pixels")
        if len(familiar.mean) != len(familiar.deviation):
            raise ValueError("familiarity has not one deviation for each mean")
        if min([*familiar.deviation, *statistics.deviation, familiar.appearance]) <= 0:
            raise ValueError("familiarity has a deviation or a threshold `appearance` that is not above 0")


def read(path: Path, weights: str) -> Calibration:
    """Read a confidence.json. Raises InputError if it is not for weights with the SHA-256 `weights`."""
    calibration = plain(path, Calibration, read_json(path, REMEDY, LARGEST), REMEDY)
    if calibration.weights != weights:
        raise InputError(f"{path} was calibrated for other weights; {REMEDY}")
    return calibration


def meaning_of(pairs: Sequence[Pair], grammar: bool) -> Meaning | None:
    """Return the criterion by which captions of these pairs count as correct.

    `grammar` is True if captions follow the grammar of coloured solids (pipeline/judging/strict.py).

    "true": the caption is true; used if the scenes of all pairs are known.
    "agrees": the caption agrees with the references; used otherwise if `grammar` is True.
    "change": the caption is right about change or no change; used in the other cases.

    Returns None if "change" would be used, but no pair says whether something changed.
    """
    if all(pair.scene for pair in pairs):
        return "true"
    if grammar:
        return "agrees"
    return "change" if any(pair.changed is not None for pair in pairs) else None


def correct(caption: str, pair: Pair, meaning: Meaning, own: Collection[str]) -> bool | None:
    """Return True for a correct caption; None if the pair lacks the facts. `own`: sentences of no change."""
    if meaning == "true":
        verdict = judge(caption, pair)
        return None if verdict is None else verdict.true
    return agrees(caption, pair) if meaning == "agrees" else right(caption, pair.changed, own)
