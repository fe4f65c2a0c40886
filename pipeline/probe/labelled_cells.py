"""Compute a feature cell for each object of labelled real images, to test a probe fitted on rendered images.

C: channels of the features; H x W: cells of the feature grid.
"""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.captioning import feature_backbone
from pipeline.captioning.features import Features, opened
from pipeline.config.store_contents import GRID, Spec
from pipeline.datasets import labelled_scenes
from pipeline.features.backbone_weights import grid_shape
from pipeline.features.store import FeatureStore
from pipeline.io.errors import InputError
from pipeline.probe.grid_labels import ATTRIBUTES, NOTHING, cell_of
from pipeline.probe.linear_probe import Cells, gather


class ImageGrids:
    """Feature grids of image files (see linear_probe.Grids), computed with the backbone of a store.

    Raises InputError if the store holds pixels instead of features, or if its backbone is unavailable.
    """

    def __init__(self, store: FeatureStore, lab: Path):
        if store.attributes.get("input") != GRID:
            raise InputError(f"{store.location.name} holds no features of a backbone; name a store that does")
        said: dict[str, Any] = {each.name: store.attributes.get(each.name) for each in fields(Spec)}
        spec = Spec(**said)
        network, made = feature_backbone.of_store(store, spec, lab)
        self.features = Features(network, spec, made.precision)
        self.shape = grid_shape(spec)

    def read(self, keys: Sequence[str]) -> np.ndarray:
        """Return the feature grids of image files, (images, C, H, W) float16. `keys` are the files' paths."""
        images = [self.features.squashed(Path(key), key) for key in keys]
        grids: np.ndarray = self.features.grids(images, keys).cpu().numpy()
        return grids


def cells(grids: ImageGrids, folder: Path) -> Cells:
    """Return the feature cells that contain the centres of labelled objects in the before images.

    If two centres are in the same cell, the cell gets the attributes of the object that is later in the list.
    """
    pairs = {pair.before: pair for pair in labelled_scenes.read(folder)}
    names = [str(folder / name) for name in pairs]
    labels = np.full((len(names), len(ATTRIBUTES), *grids.shape[1:]), NOTHING, dtype=np.int8)
    for row, (name, pair) in enumerate(zip(names, pairs.values(), strict=True)):
        assert pair.scene is not None  # labelled scenes always have facts
        size = opened(Path(name), name).size
        for item in pair.scene.before:
            classes = [values.index(getattr(item, key)) for key, values in ATTRIBUTES.items()]
            # in pixels; y is upwards in the facts of labelled scenes (labelled_scenes.CAMERA)
            centre = (item.x, -item.y)
            labels[row, :, *cell_of(centre, size, grids.shape[1:])] = classes
    return gather(grids, names, labels, labels.size, f"reading cells of {folder}")
