"""Fail if a score is lower than the committed score by more than check.tolerance in params.yaml.

python -m commands.check_scores --against HEAD
    exit code 0: no score fell; 1: scores fell, with a line for each; 2: the scores cannot be compared
"""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import FiniteFloat, Strict

from commands import run
from pipeline.cli.arguments import new_parser, parsed, word
from pipeline.config import params
from pipeline.io.errors import InputError, printable
from pipeline.io.inputs import json_of, read_json
from pipeline.io.records import checked
from pipeline.scoring import conditions

RUNS = "results/runs"
FILE = "metrics.json"
Score = Annotated[FiniteFloat, Strict()]  # Python's JSON reader accepts NaN, which compares as False
RERUN = "run `dvc repro score constant` to make it"


def main() -> None:
    parser = new_parser("python -m commands.check_scores", __doc__)
    parser.add_argument("--against", type=word, default="HEAD", help="git revision (default: HEAD)")
    arguments = parsed(parser)
    fallen, compared = fallen_scores(arguments.against, params.load().check.tolerance)
    for line in fallen:
        print(printable(line), file=sys.stderr)
    if fallen:
        sys.exit(1)
    print(printable(f"none of {compared} scores fell since {arguments.against}"))


def fallen_scores(revision: str, tolerance: Mapping[str, float]) -> tuple[list[str], int]:
    """Return a line for each score that fell since the revision, and the number of compared scores.

    `tolerance` has the names of the scores to compare: name -> largest allowed fall. A score that is
    missing now counts as fallen. The runs are those whose metrics.json the revision contains. Raises
    InputError if git cannot read the revision, if a metrics.json is missing or damaged, or if there is
    nothing to compare.
    """
    fallen, compared = [], 0
    for path in _committed(revision):
        source, text = f"{revision}:{path}", _git("show", f"{revision}:./{path}")
        committed = json_of(text, source, "name another revision")
        before = _scores(committed, source, tolerance)
        run_name = Path(*path.parent.parts[2:])  # without results/runs
        file = RUNS / run_name / FILE
        tree = read_json(file, RERUN)
        scores = _scores(tree, str(file), tolerance)
        _check_conditions(committed, source, tree, str(file))
        compared += len(before)
        for metric, score in before.items():
            label = f"{run_name}: {metric}"
            if metric not in scores:
                fallen.append(f"{label} is gone; it was {score:.4f}")
            elif (fall := score - scores[metric]) > tolerance[metric] + 1e-9:
                change = f"fell by {fall:.4f}, from {score:.4f} to {scores[metric]:.4f}"
                fallen.append(f"{label} {change}; {tolerance[metric]:g} is allowed")
    if not compared:
        named = ", ".join(tolerance)
        raise InputError(f"{revision} has none of the scores {named}; name others in check.tolerance")
    return fallen, compared


def _check_conditions(before: Any, source: str, now: Any, file: str) -> None:
    """Raise InputError if two metrics.json were scored with other tokenisers, references or numbers of pairs.

    A condition that one of them does not state is not compared.
    """
    words = {"tokeniser": "tokenisers", "pairs": "numbers of pairs", conditions.HASH: "references"}
    values = conditions.stated(before), conditions.stated(now)
    for name in words:
        old, new = (value[name] for value in values)
        if None not in (old, new) and old != new:
            raise InputError(
                f"{source} and {file} were scored with different {words[name]}: {old!r} and {new!r}; "
                "name a revision that was scored alike"
            )


def _committed(revision: str) -> list[Path]:
    listed = _git("ls-tree", "-r", "-z", "--name-only", f"{revision}^{{commit}}", "--", RUNS)
    if paths := [Path(name) for name in listed.split("\0") if Path(name).name == FILE]:
        return paths
    raise InputError(f"{revision} has no {RUNS}/…/{FILE}; name a revision whose scores are committed")


def _scores(tree: Any, source: str, tolerance: Mapping[str, float]) -> dict[str, float]:
    """Return the scores that `tolerance` names; "true" can hide a loss of "true/changed"."""
    if not isinstance(tree, dict) or not isinstance(tree.get("total"), dict):
        raise InputError(f"{source} is no metrics.json: it lacks the key total; {RERUN} again")
    all_scores = tree | tree["total"]
    scores = {name: all_scores[name] for name in tolerance if all_scores.get(name) is not None}
    return checked(dict[str, Score], scores, source, f"{RERUN} again")


def _git(*arguments: str) -> str:
    try:
        process = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise InputError("git is not installed; install it to read committed scores") from None
    if process.returncode:
        reason = [*process.stderr.splitlines(), f"exit code {process.returncode}"][0].removeprefix("fatal: ")
        raise InputError(f"git cannot read the committed scores ({reason}); name a commit with --against")
    return process.stdout


if __name__ == "__main__":
    run(main)
