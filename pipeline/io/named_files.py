"""Let DVC notice changes of the files whose names are settings in params.yaml and datasets.yaml.

dvc.yaml cannot list these files, because their names are settings. Therefore the stage "settings" depends on
a folder that has a link to each of the files. DVC hashes the targets of links. If a file is exchanged, DVC
runs the stage "settings" again. This stage writes the file's hash next to the settings that name the file,
and the later stages depend on these settings.
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
HUB = "imagenet"  # name of the default weights, which are not a named file
Tree = Mapping[str, Any]


def of_dataset(tree: Tree, dataset: str) -> dict[str, list[str]]:
    """Return the files that a dataset's settings name, as a dictionary: section -> files.

    The sections are "features", "text" and "own". `tree` is the content of params.yaml.
    """
    own = tree["dataset"][dataset]
    features = own.get("features", {})
    found = {
        "features": [] if features.get("npy") else [_weights(tree, features)],
        "text": [own.get("text", {}).get("vocabulary")],
        "own": [each.get("start") for each in own.get("own", {}).values()],
    }
    return {section: sorted({name for name in names if name}) for section, names in found.items()}


def link(tree: Tree) -> None:
    """Make links to all files that are named in the settings of datasets and of pre-training.

    All other links in the two folders of links are removed. `tree` is the content of params.yaml.
    """
    named = [of_dataset(tree, dataset) for dataset in tree["datasets"]]
    _link(OF_DATASETS, {file for sections in named for files in sections.values() for file in files})
    pretraining = tree.get("pretraining", {})
    weights = _weights(tree, pretraining) if pretraining.get("datasets") else None
    _link(OF_PRETRAINING, {weights} if weights else set())


def hashes(files: Iterable[str]) -> dict[str, str | None]:
    """Return a dictionary: file -> SHA-256. The value is None for a missing file.

    A missing file is no error here, because the stage that reads the file raises an error.
    """
    return {name: sha256(name) if Path(name).is_file() else None for name in files}


def remove_dead() -> list[str]:
    """Remove the links to missing files, because DVC would fail. Return the targets of the removed links."""
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
    """Make links in `folder` to those `files` that exist, and remove all other links in `folder`.

    Missing files get no link, because DVC cannot hash a link to a missing file.
    """
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
