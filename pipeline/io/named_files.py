"""Let DVC notice changes of the files that params.yaml and datasets.yaml name.

dvc.yaml cannot list these files. Therefore the stage "settings" depends on a folder with a link to each file,
and DVC hashes the targets of the links. The stage writes the hashes of the files next to the settings. The
later stages depend on the settings and these hashes.
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
    """Return the files that a dataset's settings name, by section: section -> files.

    `tree`: the settings of params.yaml. "features" has the backbone's weights, "text" the vocabulary,
    and "own" the files `start` of groups of models: CLIP's weights for the initialisation.
    """
    settings = tree["dataset"][dataset]
    features = settings.get("features", {})
    sections = {
        "features": [] if features.get("npy") else [_weights(tree, features)],
        "text": [settings.get("text", {}).get("vocabulary")],
        "own": [model_settings.get("start") for model_settings in settings.get("own", {}).values()],
    }
    return {section: sorted({name for name in names if name}) for section, names in sections.items()}


def link(tree: Tree) -> None:
    """Make links below FOLDER to the existing files that the settings name, and remove all other links.

    `tree` has the settings of params.yaml. A missing file gets no link, because DVC could not hash it.
    """
    named = [of_dataset(tree, dataset) for dataset in tree["datasets"]]
    _link(OF_DATASETS, {file for sections in named for files in sections.values() for file in files})
    pretraining = tree.get("pretraining", {})
    weights = _weights(tree, pretraining) if pretraining.get("datasets") else None
    _link(OF_PRETRAINING, {weights} if weights else set())


def hashes(files: Iterable[str]) -> dict[str, str | None]:
    """Return a dictionary: file -> SHA-256, or None if the file is missing, which a later stage reports."""
    return {name: sha256(name) if Path(name).is_file() else None for name in files}


def remove_dead() -> list[str]:
    """Remove links in data/named to files that are missing. Return the paths of these missing files.

    DVC would fail because of such links.
    """
    targets = []
    for link in sorted(FOLDER.glob("*/*")):
        if link.is_symlink() and not link.exists() and re.fullmatch(r"[0-9a-f]{8}-.+", link.name):
            targets.append(str(link.readlink()))
            with writing(link):
                link.unlink()
    return targets


def _weights(tree: Tree, settings: Tree) -> str | None:
    name = tree.get("features", {}).get("weights") or settings.get("weights", HUB)
    return None if name == HUB else name


def _link(folder: Path, files: Iterable[str]) -> None:
    """Make links in `folder` to the existing `files`, and remove other links.

    DVC cannot hash a link to a missing file.
    """
    targets = {
        f"{hashlib.sha256(name.encode()).hexdigest()[:8]}-{Path(name).name}": Path(name).absolute()
        for name in files
        if Path(name).is_file()
    }
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for link in [path for path in folder.iterdir() if path.is_symlink()]:
            if targets.get(link.name) != link.readlink():
                link.unlink(missing_ok=True)
        for name, file in targets.items():
            if not (folder / name).is_symlink():
                (folder / name).symlink_to(file)
