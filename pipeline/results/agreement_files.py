"""Compute how well a metric agrees with the truth of captions, from files with a score per caption.

Any program may write these files, for example an LLM that judges captions.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, Field

from pipeline.datasets.schema import Pair
from pipeline.io.errors import InputError
from pipeline.io.records import read_records
from pipeline.results.metric_agreement import MetricAgreement, agreement_of, within_run
from pipeline.scoring.caption_files import read_scores
from pipeline.scoring.metric_names import CIDER, ROUGE_L
from pipeline.statistics.pair_scores import Array

REMEDY = "write it with python -m commands.judge --out, or python -m stages.score --per-pair"


class Line(BaseModel):
    """A caption's verdict, and the caption's scores if stages.score wrote the file."""

    pair_id: str
    scene_id: str | None = None
    changed: bool | None
    true: bool | None
    rouge_l: float | None = Field(default=None, alias="ROUGE-L")
    cider_d: float | None = Field(default=None, alias="CIDEr-D")


@dataclass(frozen=True)
class Run:
    """The judged captions of a run, and its model."""

    path: Path
    model: str
    lines: Sequence[Line]

    @property
    def places(self) -> list[int]:
        """Positions, in the list `lines`, of the changed pairs whose captions were judged."""
        return [at for at, line in enumerate(self.lines) if line.changed and line.true is not None]

    @property
    def true(self) -> Array:
        """Truth of the captions at the positions in `places`."""
        return np.array([bool(self.lines[at].true) for at in self.places])


def read_run(path: Path, model: str | None = None) -> Run:
    """Read the verdicts of a run. Raises InputError for a file without judged captions of changed pairs.

    model: name that all seeds of a model share; None: the run is the only one of its model
    """
    file = path / "pairs.jsonl" if path.is_dir() else path
    run = Run(file, model or str(file), list(read_records(file, Line, REMEDY, "pair_id", "ignore")))
    if not run.places:
        raise InputError(f"{file} has no judged caption of a changed pair; {REMEDY}")
    return run


def of_files(name: str, runs: Sequence[Run], files: Sequence[Path]) -> MetricAgreement:
    """Return how well the metric `name` agrees with truth. `files` has a file of scores for each run."""
    if len(files) != len(runs):
        raise InputError(
            f"{name} has {len(files)} file(s) of scores for {len(runs)} run(s); name one per run"
        )
    found = []
    for run, file in zip(runs, files, strict=True):
        pairs = [_pair(line) for line in run.lines]
        scores = read_scores(file, pairs)
        found.append(np.array([scores[run.lines[at].pair_id] for at in run.places]))
    return _agreement(name, runs, found)


def of_verdicts(runs: Sequence[Run]) -> list[MetricAgreement]:
    """Return how well ROUGE-L and CIDEr-D agree with truth, if the verdicts of all runs contain them."""
    found = []
    for name, key in ((ROUGE_L, "rouge_l"), (CIDER, "cider_d")):
        values: list[list[Any]] = [[getattr(run.lines[at], key) for at in run.places] for run in runs]
        if all(value is not None for own in values for value in own):
            found.append(_agreement(name, runs, [np.array(own, float) for own in values]))
    return found


def _agreement(name: str, runs: Sequence[Run], values: Sequence[Array]) -> MetricAgreement:
    scores, truth = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    within = defaultdict[str, list[tuple[float, float]]](list)
    for run, own in zip(runs, values, strict=True):
        scores[run.model].append(float(own.mean()))
        truth[run.model].append(float(run.true.mean()))
        within[run.model].append(within_run(own, run.true))
    flat = [each for own in within.values() for each in own]
    return agreement_of(name, [*scores.values()], [*truth.values()], flat)


def _pair(line: Line) -> Pair:
    return Pair(line.pair_id, line.scene_id or line.pair_id, "test", "", "", ())
