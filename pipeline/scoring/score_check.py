"""Have scores fallen against those that a git revision holds?"""

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
Score = Annotated[FiniteFloat, Strict()]  # JSON as Python reads it may hold NaN, which is less than nothing
RERUN = "run `dvc repro score constant` to make it"


@dataclass(frozen=True)
class Fall:
    """A score that is lower than the committed one by more than is allowed, or is gone."""

    cell: str  # dataset/model/seed, or dataset/constant
    metric: str
    before: float
    now: float | None  # None: it was not computed
    allowed: float

    def __str__(self) -> str:
        if self.now is None:
            return f"{self.cell}: {self.metric} is gone; it was {self.before:.4f}"
        return (
            f"{self.cell}: {self.metric} fell by {self.before - self.now:.4f}, from {self.before:.4f} to "
            f"{self.now:.4f}; {self.allowed:g} is allowed"
        )


def falls(root: Path, revision: str, tolerance: Mapping[str, float]) -> tuple[list[Fall], int]:
    """The scores in `root`'s working tree that fell, cell by cell, and how many scores were compared.

    The cells are those whose metrics.json the revision holds. Raises InputError where git cannot read the
    revision or it holds no cell, where a file is missing or no metrics.json, and where nothing compares.
    """
    cells = _cells(root, revision)
    found, compared = [], 0
    for cell in cells:
        path = f"{CELLS}/{cell}/{FILE}"
        before = _scores(_shown(root, revision, path), f"{revision}:{path}", tolerance)
        now = _scores(read_json(root / path, RERUN), path, tolerance)
        compared += len(before)
        for metric, score in before.items():
            if metric not in now or score - now[metric] > tolerance[metric] + 1e-9:
                found.append(Fall(cell, metric, score, now.get(metric), tolerance[metric]))
    if not compared:
        named = ", ".join(tolerance)
        raise InputError(f"{revision} has none of the scores {named}; name others in check.tolerance")
    return found, compared


def _cells(root: Path, revision: str) -> list[str]:
    listed = _git(root, "ls-tree", "-r", "-z", "--name-only", f"{revision}^{{commit}}", "--", CELLS)
    paths = [PurePosixPath(name) for name in listed.split("\0") if PurePosixPath(name).name == FILE]
    if not paths:
        raise InputError(f"{revision} holds no {CELLS}/…/{FILE}; name a revision whose scores are committed")
    return [str(path.parent.relative_to(CELLS)) for path in paths]


def _shown(root: Path, revision: str, path: str) -> Any:
    return json_of(_git(root, "show", f"{revision}:./{path}"), f"{revision}:{path}", "name another revision")


def _scores(tree: Any, where: str, tolerance: Mapping[str, float]) -> dict[str, float]:
    """What `tolerance` names, of the numbers of a metrics.json's total, of those beside it, and of truth.

    What is true of the changes is guarded by a name of its own: over all pairs, half of which want one
    sentence, a model makes it up by saying more often that nothing changed.
    """
    parts = (
        [tree.get("total"), *(tree.get(name, {}) for name, _ in PLACES.values())]
        if isinstance(tree, dict)
        else [None]
    )
    if not all(isinstance(part, dict) for part in parts):
        raise InputError(f"{where} is no metrics.json: it has no scores of total; {RERUN} again")
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
