"""Compare scores with the scores at a git revision, and find scores that fell."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import FiniteFloat, Strict

from pipeline.io.errors import InputError
from pipeline.io.inputs import json_of, read_json
from pipeline.io.records import checked
from pipeline.scoring.metric_names import PLACES, of_parts

CELLS = "results/cells"
FILE = "metrics.json"
Score = Annotated[FiniteFloat, Strict()]  # Python's JSON reader accepts NaN, which compares as False
RERUN = "run `dvc repro score constant` to make it"


@dataclass(frozen=True)
class Fall:
    """A score that is lower than the committed score by more than the tolerance, or is missing now."""

    run: str  # dataset/model/seed, or dataset/constant
    metric: str
    before: float
    now: float | None  # None: not computed
    allowed: float

    def __str__(self) -> str:
        if self.now is None:
            return f"{self.run}: {self.metric} is gone; it was {self.before:.4f}"
        return (
            f"{self.run}: {self.metric} fell by {self.before - self.now:.4f}, from {self.before:.4f} to "
            f"{self.now:.4f}; {self.allowed:g} is allowed"
        )


def falls(root: Path, revision: str, tolerance: Mapping[str, float]) -> tuple[list[Fall], int]:
    """Return the scores in `root`'s working tree that fell, run by run, and the number of compared scores.

    The runs are those whose metrics.json the revision contains. Raises InputError if git cannot read the
    revision, if the revision has no run, if a metrics.json is missing or damaged, or if no score can be
    compared.
    """
    found, compared = [], 0
    for run in _runs(root, revision):
        path = f"{CELLS}/{run}/{FILE}"
        where, text = f"{revision}:{path}", _git(root, "show", f"{revision}:./{path}")
        before = _scores(json_of(text, where, "name another revision"), where, tolerance)
        now = _scores(read_json(root / path, RERUN), path, tolerance)
        compared += len(before)
        for metric, score in before.items():
            if metric not in now or score - now[metric] > tolerance[metric] + 1e-9:
                found.append(Fall(run, metric, score, now.get(metric), tolerance[metric]))
    if not compared:
        named = ", ".join(tolerance)
        raise InputError(f"{revision} has none of the scores {named}; name others in check.tolerance")
    return found, compared


def _runs(root: Path, revision: str) -> list[str]:
    listed = _git(root, "ls-tree", "-r", "-z", "--name-only", f"{revision}^{{commit}}", "--", CELLS)
    paths = [PurePosixPath(name) for name in listed.split("\0") if PurePosixPath(name).name == FILE]
    if not paths:
        raise InputError(f"{revision} has no {CELLS}/…/{FILE}; name a revision whose scores are committed")
    return [str(path.parent.relative_to(CELLS)) for path in paths]


def _scores(tree: Any, where: str, tolerance: Mapping[str, float]) -> dict[str, float]:
    """Return the scores in a metrics.json whose names are in `tolerance`.

    They are searched at the top level, in `total`, and at PLACES. The share of true captions of changed pairs
    has its own name. The share over all pairs would hide a fall, because half of the pairs are unchanged, and
    a model that reports "no change" more often gains on unchanged pairs.
    """
    parts = (
        [tree.get("total"), *(tree.get(name, {}) for name, _ in PLACES.values())]
        if isinstance(tree, dict)
        else [None]
    )
    if not all(isinstance(part, dict) for part in parts):
        raise InputError(f"{where} is no metrics.json: it lacks the key total; {RERUN} again")
    found = tree | tree["total"] | of_parts(tree)
    known = {name: found[name] for name in tolerance if found.get(name) is not None}
    return checked(dict[str, Score], known, where, f"{RERUN} again")


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise InputError("git is not installed; install it to read committed scores") from None
    if done.returncode:
        said = done.stderr.strip().splitlines()
        reason = said[0].removeprefix("fatal: ") if said else f"exit code {done.returncode}"
        raise InputError(f"git cannot read the committed scores ({reason}); name a commit with --against")
    return done.stdout
