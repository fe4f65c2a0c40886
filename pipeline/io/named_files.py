"""The user's files and folders that params.yaml and datasets.yaml name.

dvc.yaml cannot list these files. The stage "settings" writes their hashes whenever DVC runs.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pipeline.io.content_hashes import file_hash

HUB = "imagenet"  # name of the default weights, which are not a named file
FINE_TUNE = "train.fine_tune"  # key of the folder of trained weights that trainings start from
RENDERED = Path("data/raw")  # dvc.yaml renders each dataset to a folder here
Tree = Mapping[str, Any]


def of_dataset(tree: Tree, dataset: str) -> dict[str, list[str]]:
    """Return the files that a dataset's settings name, by section: section -> files.

    `tree`: the settings of params.yaml. "features" has the backbone's weights, "text" the vocabulary,
    and "models" the files `start` of families of models: CLIP's weights for the initialisation.
    """
    settings = tree["dataset"][dataset]
    features = settings.get("features", {})
    sections = {
        "features": [] if features.get("npy") else [_weights(tree, features)],
        "text": [settings.get("text", {}).get("vocabulary")],
        "models": [layer.get("start") for layer in settings.get("models", {}).values()],
    }
    return {section: sorted({name for name in names if name}) for section, names in sections.items()}


def folders_of_dataset(tree: Tree, dataset: str) -> dict[str, str]:
    """Return the user's folders that a dataset's runs read: full key in params.yaml -> folder.

    `tree`: the settings of params.yaml. The folder of a rendered dataset is left out, because the stage
    `render` writes it.
    """
    settings = tree["dataset"][dataset]
    found = {
        f"dataset.{dataset}.{section}.{key}": settings.get(section, {}).get(key)
        for section, key in (("prepare", "root"), ("features", "npy"))
        if section != "prepare" or not is_rendered(tree, dataset)
    } | {FINE_TUNE: tree.get("train", {}).get("fine_tune")}
    return {key: folder for key, folder in found.items() if folder is not None}


def is_rendered(tree: Tree, dataset: str) -> bool:
    """Return True if the stage `render` writes the dataset's folder. `tree`: the settings of params.yaml."""
    root = tree["dataset"][dataset].get("prepare", {}).get("root")
    return dataset in tree.get("tabletop", {}).get("datasets", ()) and Path(root) == RENDERED / dataset


def weights_of_pretraining(tree: Tree) -> list[str]:
    """Return the file of the backbone's weights for pre-training data; [] for default weights."""
    weights = _weights(tree, tree.get("pretraining", {}))
    return [weights] if weights else []


def hashes(files: Iterable[str]) -> dict[str, str | None]:
    return {name: file_hash(name) if Path(name).is_file() else None for name in files}


def _weights(tree: Tree, settings: Tree) -> str | None:
    name = tree.get("features", {}).get("weights") or settings.get("weights", HUB)
    return None if name == HUB else name
