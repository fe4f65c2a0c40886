"""Experiments that DVC runs in a copy of the repository: `dvc exp run --temp`, and the queue.

The copy has only the files that git tracks, and the files named by --copy-paths.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from pipeline.io.errors import InputError
from pipeline.io.source_code import git


def original() -> Path | None:
    """Return the repository of which the current folder is DVC's copy; None if it is no such copy."""
    root = os.environ.get("DVC_ROOT")  # DVC sets it for stages; in a copy it is the original repository
    return Path(root) if root and Path(root).resolve() != Path.cwd().resolve() else None


def check(folders: Mapping[str, str]) -> None:
    """Raise InputError if an experiment in a copy would lose its results, or lacks a folder of the user.

    DVC does not keep the results of a copy of a shallow clone. `folders` maps keys of params.yaml to the
    folders that they name.
    """
    if (root := original()) is None:
        return
    if (git(root, "rev-parse", "--is-shallow-repository") or "").strip() == "true":
        raise InputError(
            f"{root} is a shallow clone, from which DVC keeps no experiment of --temp or of the queue; "
            "run `git fetch --unshallow` first"
        )
    for key, folder in folders.items():
        if not Path(folder).is_dir() and (root / folder).is_dir():
            raise InputError(
                f"params.yaml: {key}: {folder} is not in DVC's copy of the repository, as git does not track "
                f"it; set it to {(root / folder).resolve()}, or add `--copy-paths {folder}`"
            )
