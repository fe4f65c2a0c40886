"""Restore dvc.lock if DVC was killed while it wrote the file, and left only the file's beginning.

A file that is cut at a line end may still be valid YAML. Therefore a good copy is kept whenever DVC runs a
stage and after `make repro`, and dvc.lock is compared with it.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from pipeline.io.errors import InputError, writing
from pipeline.io.outputs import write_text
from pipeline.io.source_code import git

NAME, COPY, CUT_COPY = "dvc.lock", Path(".scratch/dvc.lock"), Path(".scratch/dvc.lock.cut")
Stages = dict[str, dict[str, Any]]  # name of a stage -> its entry in dvc.lock


def check(root: Path) -> str | None:
    """Restore dvc.lock if it is incomplete, and return a note; otherwise save a copy, and return None.

    An incomplete dvc.lock is replaced by the last good copy. If there is no such copy, it is replaced by
    the dvc.lock of the last commit. The incomplete file is saved as CUT_COPY. Raises InputError if neither
    the copy nor the committed file is complete.
    """
    if (fault := problem(root)) is None:
        keep(root)
        return None
    if (good_text := _good_text(root)) is None:
        raise InputError(
            f"{root / NAME} {fault}, and there is no good copy of it; run `git checkout dvc.lock`, or remove "
            "it: `dvc repro` then uses the results in DVC's cache"
        )
    with writing(root / NAME):
        (root / CUT_COPY).parent.mkdir(exist_ok=True)
        shutil.copyfile(root / NAME, root / CUT_COPY)
        write_text(root / NAME, good_text)
    return f"note: {root / NAME} {fault}; the last good copy replaces it; the cut file: {root / CUT_COPY}"


def problem(root: Path) -> str | None:
    """Return what is wrong with dvc.lock, such as "is cut off or damaged"; None if complete or missing.

    A file that lacks the last stages of the last good copy is incomplete, too, if dvc.yaml still defines
    these stages. The file of the last commit is always complete.
    """
    if not (root / NAME).is_file():
        return None
    text = (root / NAME).read_text(encoding="utf-8", errors="replace")
    if (stages := _complete_stages(text)) is None:
        return "is cut off or damaged"
    good_text = _good_text(root)
    if good_text is None or text in (good_text, _committed_text(root)):
        return None
    missing_stages = _missing_stages(stages, _complete_stages(good_text) or {})
    if missing_stages and (defined := _defined_stages(root)) is not None:  # a removed dataset has no stages
        missing_stages = [name for name in missing_stages if name in defined]
    if missing_stages:
        return f"is cut off; the first missing stage is {missing_stages[0]}"
    return None


def keep(root: Path) -> None:
    """Save dvc.lock as the last good copy."""
    if (root / NAME).is_file():
        write_text(root / COPY, (root / NAME).read_text(encoding="utf-8"))


def _complete_stages(text: str) -> Stages | None:
    """Return the stages in the text of a dvc.lock; None if the text is incomplete."""
    try:
        stages: Stages = yaml.load(text, yaml.CSafeLoader)["stages"]
        # DVC writes the outputs at the end of an entry, and the hash and the size at the end of an output
        last_output = [*stages.values()][-1]["outs"][-1]
        is_complete = "size" in last_output and (
            "nfiles" in last_output or not last_output["md5"].endswith(".dir")
        )
    except (yaml.YAMLError, AttributeError, IndexError, KeyError, TypeError):
        return None
    return stages if is_complete and text.endswith("\n") else None


def _missing_stages(stages: Stages, good_stages: Stages) -> list[str]:
    """Return the names of the stages that are missing because the end of dvc.lock was cut off.

    stages: stages in dvc.lock
    good_stages: stages in a complete earlier version of dvc.lock

    If dvc.lock has the stages a and b, and `good_stages` has a, b and c, the result is [c]. If b has
    fewer outputs in dvc.lock than in `good_stages`, the result is [b, c].

    DVC adds new stages only at the end. So a stage that is missing at another position was not cut off.
    The result is then empty.
    """
    names, good_names = list(stages), list(good_stages)
    is_short = len(stages[names[-1]]["outs"]) < len(good_stages.get(names[-1], {}).get("outs", []))
    complete = names[:-1] if is_short else names
    return good_names[len(complete) :] if complete == good_names[: len(complete)] else []


def _defined_stages(root: Path) -> set[str] | None:
    """Return the names of all stages that dvc.yaml defines; None if DVC cannot read it."""
    command = [sys.executable, "-m", "dvc", "stage", "list", "--names-only"]
    listing = subprocess.run(command, cwd=root, capture_output=True, encoding="utf-8")
    return set(listing.stdout.split()) if listing.returncode == 0 else None


def _good_text(root: Path) -> str | None:
    """Return the text of a complete dvc.lock, to replace or check the current one.

    The last good copy is tried first, then the dvc.lock of the last commit. Returns None if neither is
    complete.
    """
    copy = (root / COPY).read_text(encoding="utf-8") if (root / COPY).is_file() else ""
    return next((text for text in (copy, _committed_text(root)) if _complete_stages(text) is not None), None)


def _committed_text(root: Path) -> str:
    """Return the text of dvc.lock in the last commit; "" if git has none."""
    return git(root, "show", f"HEAD:./{NAME}") or ""
