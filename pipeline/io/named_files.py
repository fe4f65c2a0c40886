"""Files that params.yaml and datasets.yaml name, as content-hashed dependencies of DVC.

dvc.yaml cannot list them, because their names are settings. So the stage `settings` depends on a folder with
a link to each of them; DVC hashes the targets of links. After a file is exchanged, `settings` runs again and
writes the file's hash next to the settings that name it, on which the later stages depend.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pipeline.io.content_hashes import sha256
from pipeline.io.errors import writing

FOLDER = Path("data/named")
OF_DATASETS, OF_PRETRAINING = FOLDER / "datasets", FOLDER / "pretraining"
HUB = "imagenet"  # weights that are no file
Tree = Mapping[str, Any]


def of_dataset(tree: Tree, dataset: str) -> dict[str, list[str]]:
    """Return the files that a dataset's settings name, by section; `tree` is the whole params.yaml."""
    own = tree["dataset"][dataset]
    features = own.get("features", {})
    found = {
        "features": [] if features.get("npy") else [_weights(tree, features)],
        "text": [own.get("text", {}).get("vocabulary")],
        "own": [each.get("start") for each in own.get("own", {}).values()],
    }
    return {section: sorted({name for name in names if name}) for section, names in found.items()}


def link(tree: Tree) -> None:
    """Make the links that the listed datasets and pre-training need, and remove all others."""
    named = [of_dataset(tree, dataset) for dataset in tree["datasets"]]
    _link(OF_DATASETS, {file for sections in named for files in sections.values() for file in files})
    pretraining = tree.get("pretraining", {})
    weights = _weights(tree, pretraining) if pretraining.get("datasets") else None
    _link(OF_PRETRAINING, {weights} if weights else set())


def hashes(files: Iterable[str]) -> dict[str, str | None]:
    """Return file -> sha256; None for a missing file, which the stage that reads it reports."""
    return {name: sha256(name) if Path(name).is_file() else None for name in files}


def remove_dead() -> list[str]:
    """Remove links to missing files, at which DVC would fail; return their targets."""
    found = []
    for link in sorted(FOLDER.glob("*/*")):
        if link.is_symlink() and not link.exists() and re.fullmatch(r"[0-9a-f]{8}-.+", link.name):
            found.append(str(link.readlink()))
            with writing(link):
                link.unlink()
    return found


def _weights(tree: Tree, own: Tree) -> str | None:
    name = tree.get("features", {}).get("weights") or own.get("weights", HUB)
    return None if name == HUB else name


def _link(folder: Path, files: Iterable[str]) -> None:
    """Link the files that exist: DVC cannot hash a link to nothing."""
    wanted = {
        f"{hashlib.sha256(name.encode()).hexdigest()[:8]}-{Path(name).name}": Path(name).absolute()
        for name in files
        if Path(name).is_file()
    }
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for link in [path for path in folder.iterdir() if path.is_symlink()]:
            if wanted.get(link.name) != link.readlink():
                link.unlink(missing_ok=True)
        for name, file in wanted.items():
            if not (folder / name).is_symlink():
                (folder / name).symlink_to(file)
