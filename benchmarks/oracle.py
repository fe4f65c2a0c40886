"""Write oracle features: one .npy file per image, made from the scene description instead of the image.

    python -m benchmarks oracle --dataset tabletop --out data/oracle

Oracle features are free of errors. So the errors of a model that is trained on them are not due to the
backbone. To train a model on them, copy the repository, and set `dataset.tabletop.features` in its
params.yaml to

    {backbone: tf_efficientnet_lite0, weights: imagenet, stride: 32, finer: false, standardise: false,
     npy: data/oracle, precision: float32, pixels: [96, 144]}

and run `dvc repro`. Then `python -m commands.errors` shows which words of the captions are false.
"""

import argparse
from pathlib import Path

import numpy as np

from pipeline.config import params
from pipeline.config.store_contents import spec
from pipeline.datasets.images import Indexed, read_index
from pipeline.features.backbone_weights import grid_shape
from pipeline.io.errors import InputError
from pipeline.io.outputs import Contents, replacing, write_json
from pipeline.io.progress import track
from pipeline.probe.grid_labels import ATTRIBUTES, SceneView, read_scenes

CONTENTS = Contents("oracle")
CLASSES = [len(values) for values in ATTRIBUTES.values()]
# presence of an object, its attributes one-hot, and the place of its centre within the cell
CHANNELS = 1 + sum(CLASSES) + 2


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks oracle",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--dataset", required=True, help="name of a rendered dataset, already prepared")
    parser.add_argument("--out", type=CONTENTS.to_write, required=True, help="the folder to write")
    arguments = parser.parse_args()
    settings = params.load()
    dataset_settings = settings.of(arguments.dataset)
    shape = grid_shape(spec(settings.features, dataset_settings))
    scenes = read_scenes(Path(dataset_settings.prepare.root) / "scenes.json")
    index = read_index(Path(f"data/images/{arguments.dataset}.jsonl"))
    with replacing(arguments.out, CONTENTS) as folder:
        folder.mkdir()
        write_json(folder / "oracle.json", {"dataset": arguments.dataset, "channels": CHANNELS})
        for image in track(index, "writing symbols", "images", len(index)):
            np.save(folder / f"{Path(image.name).name}.npy", symbols(scenes[image.name], image, shape))


def symbols(labels: SceneView, image: Indexed, shape: tuple[int, int, int]) -> np.ndarray:
    """Return an image's oracle features, float32, in the given shape (channels, H, W).

    Each object is described in the first CHANNELS channels of the cell that contains its centre. All other
    values are 0. If the centres of two objects are in the same cell, the smaller object is put into the
    nearest free cell. Raises InputError if the shape has fewer than CHANNELS channels.
    """
    channels, height, width = shape
    if channels < CHANNELS:
        raise InputError(f"{CHANNELS} symbols do not fit into {channels} channels; take another backbone")
    grid = np.zeros(shape, np.float32)
    cells = np.stack(np.meshgrid(np.arange(height), np.arange(width), indexing="ij"), -1).reshape(-1, 2)
    for box, classes in sorted(zip(labels.boxes, labels.classes, strict=False), key=lambda pair: -pair[0][2]):
        left, top, box_width, box_height = box
        centre = np.array(
            [(top + box_height / 2) / image.height * height, (left + box_width / 2) / image.width * width]
        )
        free = cells[grid[0].reshape(-1) == 0]
        row, column = free[np.abs(free + 0.5 - centre).sum(1).argmin()]
        grid[0, row, column] = 1
        for channel, value in zip(np.cumsum([1, *CLASSES]), classes, strict=False):
            grid[channel + value, row, column] = 1
        grid[CHANNELS - 2 : CHANNELS, row, column] = centre - (row + 0.5, column + 0.5)
    return grid
