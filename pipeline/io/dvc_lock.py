"""Restore dvc.lock if DVC was killed while it wrote the file. DVC then leaves only the file's beginning.

A file that is cut at the end of a line may still be valid YAML, and then DVC forgets stages without a
message. Therefore a good copy is kept whenever DVC runs a stage and after `make repro`. dvc.lock is compared
with it.
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
PATIENCE = 10.0  # seconds to wait for another DVC process
Stages = dict[str, dict[str, Any]]  # name of a stage -> its entry in dvc.lock


def check(root: Path, reference: Path | None = None) -> str | None:
    """Keep a copy of dvc.lock if dvc.lock is complete. Otherwise restore dvc.lock and return a note.

    dvc.lock is restored from `reference` (default: the kept copy). If `reference` is missing or incomplete,
    dvc.lock is restored from the last commit.

    Raises InputError if there is no good copy, or if git left conflict markers, which the user must resolve.
    """
    if problem(root, reference) is None:
        keep(root)
        return None
    with writing(root / NAME), _no_dvc(root):
        if (found := problem(root, reference)) is None:
            return None  # the file was incomplete only while DVC wrote it
        if _conflict(root):
            raise InputError(f"{root / NAME} {found}")
        if (good := _good(root, reference)) is None:
            raise InputError(
                f"{root / NAME} {found}, and there is no good copy of it; run `git checkout dvc.lock`, or "
                "remove it: `dvc repro` then uses the results in DVC's cache"
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
    """Return a message if dvc.lock is incomplete; None if dvc.lock is complete or does not exist."""
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
    """Return the end of a note that says how to repair an incomplete dvc.lock."""
    return "" if _conflict(root) else "; `make repro` brings back the last good copy"


def keep(root: Path) -> None:
    """Keep a copy of dvc.lock as the last good copy."""
    if (root / NAME).is_file():
        write_text(root / KEPT, (root / NAME).read_text(encoding="utf-8"))


def _conflict(root: Path) -> str | None:
    """Return a message if dvc.lock is incomplete and has git's conflict markers; else None."""
    text = (root / NAME).read_text(encoding="utf-8", errors="replace")
    if _stages(text) is not None or (found := conflict_in(text)) is None:
        return None
    return f"{found}; {MERGE}"


def _stages(text: str) -> Stages | None:
    """Return the stages in the text of a dvc.lock; None if the text is incomplete."""
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
    """Return True if a stage's entry is complete, which means that its last output has a hash and a size.

    DVC writes the outputs at the end of an entry.
    """
    outs = stage.get("outs")
    if not isinstance(outs, list) or not outs or not isinstance(outs[-1], dict):
        return False
    last = outs[-1]
    return {"path", "md5", "size"} <= {*last} and (not str(last["md5"]).endswith(".dir") or "nfiles" in last)


def _lost(stages: Stages, good: Stages) -> list[str]:
    """Return the names of the stages at the end of the good copy that are missing in dvc.lock.

    The last stage of dvc.lock counts as missing if it has fewer outputs than in the good copy. If stages are
    missing elsewhere, dvc.lock was not cut off, because DVC only appends stages. Then the result is empty.
    """
    names, wanted = list(stages), list(good)
    if names and len(stages[names[-1]]["outs"]) < len(good.get(names[-1], {}).get("outs", [])):
        return wanted[len(names) - 1 :]
    return wanted[len(names) :] if names == wanted[: len(names)] else []


def _good(root: Path, reference: Path | None) -> str | None:
    """Return the text of a complete copy of dvc.lock; None if there is no complete copy.

    Two files are tried: first `reference` (default: the kept copy), then dvc.lock of the last commit.
    """
    path = reference or root / KEPT
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    for each in (text, _committed(root) if _stages(text) is None else None):
        if each and _stages(each) is not None:
            return each
    return None


def _committed(root: Path) -> str | None:
    """Return the text of dvc.lock in the last commit; None if git has none."""
    command = ["git", "show", f"HEAD:./{NAME}"]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, encoding="utf-8", check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


@contextmanager
def _no_dvc(root: Path) -> Iterator[None]:
    """Hold DVC's lock in the `with` block, so that no DVC process writes dvc.lock.

    Raises InputError if another process holds the lock for longer than PATIENCE.
    """
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
