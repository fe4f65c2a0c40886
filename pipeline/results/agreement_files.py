"""Compute how well a metric agrees with the truth of captions, from files with a score per caption.

Any program may write these files, for example an LLM that judges captions.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, model_validator

from pipeline.datasets.schema import Pair
from pipeline.io.errors import InputError
from pipeline.io.records import read_records
from pipeline.results.metric_agreement import MetricAgreement, agreement_of, within_run
from pipeline.scoring.caption_files import read_scores
from pipeline.scoring.conditions import Conditions
from pipeline.scoring.mean_metrics import MEANS
from pipeline.scoring.metric_names import CIDER
from pipeline.statistics.evidence import Array, Evidence, alike, same_pairs

METRICS = (*MEANS, CIDER)  # metrics with a score per caption, in files of stages.score
REMEDY = "write it with python -m commands.judge --out, or python -m stages.score --per-pair"


class Line(BaseModel):
    """One line of an agreement file: the verdict on the caption of a pair.

    `changed` says whether the pair has a change, and is None if this is unknown. `true` says whether
    the caption is correct, and is None if the caption was not judged. The scores, and their conditions, are
    there if stages.score wrote the file.
    """

    pair_id: str
    scene_id: str | None = None
    changed: bool | None
    true: bool | None
    scores: dict[str, float | None]  # metrics in METRICS
    scored: Conditions | None = None
    references: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _collect_scores(cls, line: Any) -> Any:
        return (
            line | {"scores": {name: line.get(name) for name in METRICS}} if isinstance(line, dict) else line
        )


@dataclass(frozen=True)
class JudgedRun:
    """The judged captions of a run, and its model."""

    model: str
    file: Path
    lines: Sequence[Line]

    @property
    def judged(self) -> list[Line]:
        return [line for line in self.lines if line.changed and line.true is not None]

    @property
    def evidence(self) -> Evidence:
        """The pairs and the conditions of the scores, without scores."""
        conditions = {line.scored for line in self.lines}
        hashes = [line.references for line in self.lines if line.references is not None]
        return Evidence(
            tuple(line.pair_id for line in self.lines),
            {},
            conditions=conditions.pop() if len(conditions) == 1 else None,
            references=tuple(hashes) if len(hashes) == len(self.lines) else (),
        )

    @property
    def true(self) -> Array:
        return np.array([bool(line.true) for line in self.judged])


def read_run(path: Path, model: str | None = None) -> JudgedRun:
    """Read the verdicts of a run, named by the path if `model`, the name for all its seeds, is None."""
    file = path / "pairs.jsonl" if path.is_dir() else path
    run = JudgedRun(model or str(file), file, list(read_records(file, Line, REMEDY, "pair_id", "ignore")))
    if not run.judged:
        raise InputError(f"{file} has no judged caption of a changed pair; {REMEDY}")
    return run


def check_pairs(runs: Sequence[JudgedRun]) -> None:
    """Raise InputError if the runs have different pairs. The pairs decide the runs' shares of truth."""
    ids = [[line.pair_id for line in run.lines] for run in runs]
    for run, pair_ids in zip(runs[1:], ids[1:], strict=True):
        same_pairs(ids[0], pair_ids, f"{runs[0].file} and {run.file}")


def of_files(
    name: str, runs: Sequence[JudgedRun], files: Sequence[Path], key: str | None = None
) -> MetricAgreement:
    """Return how well the metric `name` agrees with truth; `files` has a file of scores for each run.

    `key` names the key of the scores (default: one of caption_files.SCORES).
    """
    if len(files) != len(runs):
        raise InputError(
            f"{name} has {len(files)} file(s) of scores for {len(runs)} run(s); name one per run"
        )
    scores_of_runs = []
    for run, file in zip(runs, files, strict=True):
        pairs = [_pair(line) for line in run.lines]
        scores = read_scores(file, pairs, key)
        scores_of_runs.append(np.array([scores[line.pair_id] for line in run.judged]))
    return _agreement(name, runs, scores_of_runs)


def of_verdicts(runs: Sequence[JudgedRun]) -> list[MetricAgreement]:
    """Return how well METRICS agree with the truth of the judged captions of changed pairs in `runs`.

    A metric that a caption lacks is left out. Runs that were scored under different conditions are an
    InputError.
    """
    agreements: list[MetricAgreement] = []
    if all(line.scores[CIDER] is not None for run in runs for line in run.judged):
        alike({str(run.file): run.evidence for run in runs})
    for name in METRICS:
        values: list[list[Any]] = [[line.scores[name] for line in run.judged] for run in runs]
        if all(value is not None for scores in values for value in scores):
            agreements.append(_agreement(name, runs, [np.array(scores, float) for scores in values]))
    return agreements


def _agreement(name: str, runs: Sequence[JudgedRun], scores_of_runs: Sequence[Array]) -> MetricAgreement:
    by_model = defaultdict[str, list[tuple[JudgedRun, Array]]](list)
    for run, run_scores in zip(runs, scores_of_runs, strict=True):
        by_model[run.model].append((run, run_scores))
    groups = [*by_model.values()]
    scores = [[float(run_scores.mean()) for _, run_scores in group] for group in groups]
    truth = [[float(run.true.mean()) for run, _ in group] for group in groups]
    within = [within_run(run_scores, run.true) for group in groups for run, run_scores in group]
    return agreement_of(name, scores, truth, within)


def _pair(line: Line) -> Pair:
    return Pair(line.pair_id, line.scene_id or line.pair_id, "test", "", "", ())
