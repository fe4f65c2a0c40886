"""The backbone that made a laboratory's features, again: what the store says of itself, and nothing guessed.

Random weights take their statistics from pictures of the dataset, in seconds; they are kept in .cache, under
a key of all that they depend on. One picture's features are compared with the store's before they are used.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from models.backbone import Backbone
from pipeline import params, provenance
from pipeline.captioning import random_weights
from pipeline.captioning.features import Features
from pipeline.datasets.images import Indexed, read_index
from pipeline.datasets.schema import images_of, of_split, read_pairs
from pipeline.errors import InputError
from pipeline.features import extraction
from pipeline.features.store import FeatureStore
from pipeline.features.store_contents import GRID, IMPORTED, Spec
from pipeline.outputs import replacing
from pipeline.recipes.trained_model import Trained

CACHE = Path(".cache/backbones")
TOLERANCE = 0.02  # of float16 features of order 1: other machines and threads round otherwise


def recreated(trained: Trained, spec: Spec, lab: Path) -> tuple[Backbone, dict[str, Any]]:
    """The network, and what sources.Made holds of it.

    Raises InputError where the store, or what its features were made of, is not there.
    """
    place = lab / f"data/features/{trained.recipe.dataset}/{GRID}.zarr"
    if spec.weights == IMPORTED:
        raise InputError(
            f"{place} was imported from .npy files, and what made these is not known here: "
            "no features of other pictures can be had"
        )
    store = FeatureStore(place, expected=trained.recipe.features)
    identity, precision = store.attributes["weights_id"], store.attributes["precision"]
    if (seed := re.fullmatch(r"random-(\d+)", identity)) is None:
        network, found = extraction.backbone(_seen_from_here(spec, lab), 0, lab, [])
        if found != identity:
            raise InputError(f"{spec.weights} holds {found}; {place} was made with {identity}")
        return network, {"weights_id": identity, "precision": precision}
    network = _random(trained, spec, int(seed[1]), lab, store)
    made = {"weights_id": identity, "precision": precision, "seed": int(seed[1])}
    return network, made | {"torch": str(torch.__version__)}


def _seen_from_here(spec: Spec, lab: Path) -> Spec:
    """A file of weights is named as the laboratory's stages see it: from its root."""
    return spec if spec.weights == "imagenet" else replace(spec, weights=str(lab / spec.weights))


def _random(trained: Trained, spec: Spec, seed: int, lab: Path, store: FeatureStore) -> Backbone:
    dataset = trained.recipe.dataset
    pictures = calibration(lab, dataset)
    parts = (repr(spec), str(seed), *(picture.sha256 for picture in pictures), str(torch.get_num_threads()))
    kept = lab / CACHE / f"{provenance.sha256(provenance.code(), *parts)[:32]}.safetensors"
    if kept.is_file():
        return random_weights.unpacked(spec.layer, seed, dict(load_file(kept)), str(kept))
    root = lab / params.load(lab / "params.yaml").of(dataset).prepare.root
    network, _ = extraction.backbone(spec, seed, root, pictures)
    _compare(
        Features(network, spec, store.attributes["precision"]), root / pictures[0].name, pictures[0], store
    )
    with replacing(kept) as beside:
        save_file(random_weights.packed(network), beside)
    return network


def calibration(lab: Path, dataset: str) -> list[Indexed]:
    """The pictures that the stage extract takes the statistics from."""
    train = set(images_of(of_split(read_pairs(lab / f"data/pairs/{dataset}.jsonl"), "train")))
    index = read_index(lab / f"data/images/{dataset}.jsonl")
    return [image for image in index if image.name in train][: extraction.CALIBRATION]


def _compare(features: Features, path: Path, picture: Indexed, store: FeatureStore) -> None:
    own = features.grids([features.squashed(path)], [picture.name])[0].float().cpu().numpy()
    theirs = store.read([picture.name])[0].astype(np.float32)
    # one in a thousand may round further: bfloat16 does on other processors
    far = np.abs(own - theirs) > TOLERANCE * (1 + np.abs(theirs))
    if far.mean() > (0.001 if features.precision == "float32" else 0.2):
        raise InputError(
            f"{store.location.name} holds other features of {picture.name} than are made here now; "
            "run `dvc repro extract` to make it again, then train"
        )
