"""Recovery of dvc.lock after a kill: DVC writes the file in place, so a kill may leave only its beginning.

A file that is cut at a line's end may still be valid YAML, and DVC then silently forgets stages. So a good
copy is kept whenever DVC runs a stage and after `make repro`, and the file is compared with it.
"""

import fcntl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import Any

import yaml

from pipeline.io.errors import InputError, writing
from pipeline.io.inputs import conflict_in
from pipeline.io.outputs import write_text

NAME, KEPT = "dvc.lock", Path(".scratch/dvc.lock")
MERGE = "run `git checkout --ours dvc.lock` or `git checkout --theirs dvc.lock`, then `dvc repro`"
PATIENCE = 10.0  # seconds to wait until another DVC has written
Stages = dict[str, dict[str, Any]]


def check(root: Path, reference: Path | None = None) -> str | None:
    """Keep a copy of a complete dvc.lock; replace an incomplete one by the last good copy and return a note.

    `reference`: a good copy in place of the kept one. Raises InputError if there is no good copy, or if git
    left conflict markers, which the user must resolve.
    """
    if problem(root, reference) is None:
        keep(root)
        return None
    with writing(root / NAME), _no_dvc(root):
        if (found := problem(root, reference)) is None:
            return None  # DVC was writing it
        if _conflict(root):
            raise InputError(f"{root / NAME} {found}")
        if (good := _good(root, reference)) is None:
            raise InputError(
                f"{root / NAME} {found}, and there is no good copy of it; run `git checkout dvc.lock`, or "
                "remove it: `dvc repro` then takes what it finds from DVC's cache"
            )
        numbered = (root / KEPT.with_name(f"{NAME}.cut{number}") for number in chain([""], count(2)))
        aside = next(path for path in numbered if not path.exists())
        aside.parent.mkdir(exist_ok=True)
        aside.write_bytes((root / NAME).read_bytes())
        write_text(root / NAME, good)
    stages = len(_stages(good) or {})
    replaced = f"the last good copy ({stages} stages) replaces it, and {aside} is the cut file"
    return f"note: {root / NAME} {found}; {replaced}"


def problem(root: Path, reference: Path | None = None) -> str | None:
    """Return the fault of dvc.lock; None if it is complete or missing."""
    if not (root / NAME).is_file():
        return None
    text = (root / NAME).read_text(encoding="utf-8", errors="replace")
    if (stages := _stages(text)) is None:
        return _conflict(root) or "is cut off"
    good = _good(root, reference)
    if good is None or text in (good, _committed(root)):
        return None
    if lost := _lost(stages, _stages(good) or {}):
        return f"is cut off and lacks {len(lost)} stages ({lost[0]} is the first)"
    return None


def remedy(root: Path) -> str:
    """Return the remedy for a faulty dvc.lock, for a note."""
    return "" if _conflict(root) else "; `make repro` brings back the last good copy"


def keep(root: Path) -> None:
    """Copy dvc.lock to the place of the last good copy."""
    if (root / NAME).is_file():
        write_text(root / KEPT, (root / NAME).read_text(encoding="utf-8"))


def _conflict(root: Path) -> str | None:
    """Describe git's conflict markers in an incomplete dvc.lock, and the remedy; None without markers."""
    text = (root / NAME).read_text(encoding="utf-8", errors="replace")
    if _stages(text) is not None or (found := conflict_in(text)) is None:
        return None
    return f"{found}; {MERGE}"


def _stages(text: str) -> Stages | None:
    """Return the stages of a dvc.lock; None if it is incomplete."""
    if not text.endswith("\n"):
        return None
    try:
        tree = yaml.load(text, yaml.CSafeLoader)
    except yaml.YAMLError:
        return None
    stages = tree.get("stages") if isinstance(tree, dict) else None
    if not isinstance(stages, dict) or not all(isinstance(stage, dict) for stage in stages.values()):
        return None
    return stages if not stages or _complete([*stages.values()][-1]) else None


def _complete(stage: dict[str, Any]) -> bool:
    """Return whether a stage's entry is complete: DVC writes the outputs last, each with hash and size."""
    outs = stage.get("outs")
    if not isinstance(outs, list) or not outs or not isinstance(outs[-1], dict):
        return False
    last = outs[-1]
    return {"path", "md5", "size"} <= {*last} and (not str(last["md5"]).endswith(".dir") or "nfiles" in last)


def _lost(stages: Stages, good: Stages) -> list[str]:
    """Return the stages of the good copy that are missing or incomplete at the file's end.

    DVC only appends stages. If stages are missing elsewhere than at the end, the file is no cut-off version
    of the good copy, and the result is empty.
    """
    names, wanted = list(stages), list(good)
    if names and len(stages[names[-1]]["outs"]) < len(good.get(names[-1], {}).get("outs", [])):
        return wanted[len(names) - 1 :]
    return wanted[len(names) :] if names == wanted[: len(names)] else []


def _good(root: Path, reference: Path | None) -> str | None:
    """Return the text of the last good copy: the kept copy, else the copy in the last commit."""
    path = reference or root / KEPT
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    for each in (text, _committed(root) if _stages(text) is None else None):
        if each and _stages(each) is not None:
            return each
    return None


def _committed(root: Path) -> str | None:
    """Return the last commit's dvc.lock; None without git."""
    command = ["git", "show", f"HEAD:./{NAME}"]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, encoding="utf-8", check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


@contextmanager
def _no_dvc(root: Path) -> Iterator[None]:
    """Hold the lock that DVC holds while it writes. Raises InputError if another process keeps it."""
    path = root / ".dvc/tmp/lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        until = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise InputError(f"DVC is at work in {root}; wait for its end") from None
                time.sleep(0.1)
        yield
