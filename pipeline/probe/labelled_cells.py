"""Compute a feature cell for each object of labelled real images, to test a probe fitted on rendered images.

C: channels of the features; H x W: cells of the feature grid.
"""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.captioning import feature_backbone
from pipeline.captioning.feature_backbone import FeatureInput, opened
from pipeline.config.store_contents import GRID, Spec
from pipeline.datasets import labelled_scenes
from pipeline.features.backbone_weights import grid_shape
from pipeline.features.store import FeatureStore
from pipeline.io.errors import InputError
from pipeline.probe.grid_labels import ATTRIBUTES, NOTHING, cell_of
from pipeline.probe.linear_probe import Cells, gather


class ImageGrids:
    """Reader of image files that returns their feature grids, computed with the backbone of a store.

    Raises InputError if the store holds pixels instead of features, or if its backbone is unavailable.
    """

    def __init__(self, store: FeatureStore, lab: Path):
        if store.attributes.get("input") != GRID:
            raise InputError(f"{store.location.name} holds no features of a backbone; name a store that does")
        attributes: dict[str, Any] = {field.name: store.attributes.get(field.name) for field in fields(Spec)}
        spec = Spec(**attributes)
        network, source = feature_backbone.of_store(store, spec, lab)
        self.features = FeatureInput(network, spec, source.precision)
        _, *self.grid = grid_shape(spec)  # H, W

    def read(self, keys: Sequence[str]) -> np.ndarray:
        """Return the feature grids of image files, (images, C, H, W) float16. `keys` are the files' paths."""
        images = [self.features.squashed(Path(key), key) for key in keys]
        return self.features.grids(images, keys).cpu().numpy()


def cells(grids: ImageGrids, folder: Path) -> Cells:
    """Return the cells with the centres of labelled objects (the last in each) in the before images."""
    scenes: dict[str, Any] = {str(folder / pair.before): pair.scene for pair in labelled_scenes.read(folder)}
    labels = np.full((len(scenes), len(ATTRIBUTES), *grids.grid), NOTHING, dtype=np.int8)
    for row, (path, scene) in enumerate(scenes.items()):
        size = opened(Path(path), path).size
        for item in scene.before:
            classes = [values.index(getattr(item, key)) for key, values in ATTRIBUTES.items()]
            # in pixels; y is upwards in the facts of labelled scenes (labelled_scenes.CAMERA)
            centre = (item.x, -item.y)
            labels[row, :, *cell_of(centre, size, grids.grid)] = classes
    return gather(grids.read, [*scenes], labels, labels.size, f"reading cells of {folder}")
