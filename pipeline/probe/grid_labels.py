"""Label each feature cell of a tabletop image with the attributes of the object that it shows, or as empty.

The object-id buffer of an image is rendered again from scenes.json, and fits the image exactly. The boxes of
the objects would not suffice, because the corners of a box show the ground, and because boxes do not show
which object is in front.

H x W: cells of the feature grid.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.datasets.clevr_change import DEFAULT, DISTRACTOR, SEMANTIC
from pipeline.datasets.images import Indexed
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_json
from pipeline.io.progress import track
from pipeline.tabletop.looks import LOOKS, Look
from pipeline.tabletop.pictures import identify
from pipeline.tabletop.scenes import Box, SceneObject, box_of, solids
from pipeline.tabletop.words import COLORS, MATERIALS, SHAPES, SIZES, Point

ATTRIBUTES = {"color": tuple(COLORS), "shape": SHAPES, "material": MATERIALS, "size": SIZES}
"""The classes of each attribute: attribute -> values. A class's number is the position of its value."""
NOTHING = -1  # class of a cell without an object
LEAST = 0.25  # a cell shows an object only if the object covers more than this share of the cell
VIEWS = {
    DEFAULT: ("default", "before"),
    SEMANTIC: ("semantic", "after"),
    DISTRACTOR: ("nonsemantic", "before"),
}
REMEDY = "name the scenes.json that the stage render wrote next to the images"


@dataclass(frozen=True)
class Shown:
    """Objects and camera of one image. n: number of objects."""

    solids: np.ndarray  # (n, 10), the objects as input of the ray tracer
    classes: np.ndarray  # (n + 1, 4) int8: four attributes in the order of ATTRIBUTES; last row: NOTHING
    camera: Point
    boxes: tuple[Box, ...]


def read_scenes(path: str | Path) -> dict[str, Shown]:
    """Read scenes.json. Return a dictionary: image name -> objects and camera of the image.

    Raises InputError if the file is malformed.
    """
    found = read_json(path, REMEDY)
    try:
        look = LOOKS[found.get("look", "studio")]
        return {
            name.format(record["number"]): _shown(record["views"][view], record[moment], look)
            for record in found["scenes"]
            for name, (view, moment) in VIEWS.items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} does not describe tabletop's scenes ({error!r}); {REMEDY}") from None


def _shown(view: Mapping[str, Any], records: Sequence[Mapping[str, Any]], look: Look) -> Shown:
    objects = tuple(_scene_object(record) for record in records)
    rows = [[values.index(getattr(item, name)) for name, values in ATTRIBUTES.items()] for item in objects]
    classes = np.array([*rows, [NOTHING] * len(ATTRIBUTES)], dtype=np.int8)
    x, y, z = map(float, view["camera"])
    return Shown(solids(objects, look), classes, (x, y, z), tuple(tuple(box) for box in view["boxes"]))


def _scene_object(record: Mapping[str, Any]) -> SceneObject:
    x, y, _ = record["position"]
    return SceneObject(x=x, y=y, **{name: value for name, value in record.items() if name != "position"})


def label(scenes: Mapping[str, Shown], images: Sequence[Indexed], grid: tuple[int, int]) -> np.ndarray:
    """Return, for each cell, the classes of the object that the cell shows, (images, 4, H, W) int8.

    Raises InputError naming an image that is not in `scenes`, or whose rendered objects have other boxes.
    """
    labels = np.empty((len(images), len(ATTRIBUTES), *grid), dtype=np.int8)
    for row, image in enumerate(track(images, "labelling cells", "images", len(images))):
        if image.name not in scenes:
            raise InputError(f"scenes.json does not describe {image.name}; {REMEDY}")
        shown = scenes[image.name]
        cells = dominant(_buffer(shown, image), len(shown.solids), grid)
        labels[row] = shown.classes[cells].transpose(2, 0, 1)  # (H, W, 4) -> (4, H, W)
    return labels


def centres(scenes: Mapping[str, Shown], images: Sequence[Indexed], grid: tuple[int, int]) -> np.ndarray:
    """Return, for each cell, the classes of the object whose box has its centre in the cell.

    The result is (images, 4, H, W) int8, with NOTHING for cells without such a centre.
    """
    labels = np.full((len(images), len(ATTRIBUTES), *grid), NOTHING, dtype=np.int8)
    for row, image in enumerate(images):
        shown = scenes[image.name]
        for (left, top, width, height), classes in zip(shown.boxes, shown.classes[:-1], strict=True):
            middle = (left + width / 2, top + height / 2)
            labels[row, :, *cell_of(middle, (image.width, image.height), grid)] = classes
    return labels


def cell_of(place: tuple[float, float], size: tuple[int, int], grid: tuple[int, int]) -> tuple[int, int]:
    """Return row and column of the cell of a point, (x, y), in an image of `size`, (width, height)."""
    (x, y), (width, height), (H, W) = place, size, grid
    return min(int(y * H / height), H - 1), min(int(x * W / width), W - 1)


def _buffer(shown: Shown, image: Indexed) -> np.ndarray:
    """Return an image's object-id buffer.

    Raises InputError if the boxes of its objects differ from the boxes in scenes.json.
    """
    rows = identify(shown.solids, shown.camera, image.width, image.height)
    masks = (rows == row for row in range(len(shown.solids)))
    if tuple(box_of(mask) if mask.any() else None for mask in masks) != shown.boxes:
        raise InputError(
            f"scenes.json does not fit {image.name} ({image.width} x {image.height} pixels): "
            f"the boxes of its objects differ; {REMEDY}"
        )
    return rows


def dominant(rows: np.ndarray, count: int, grid: tuple[int, int]) -> np.ndarray:
    """Return, for each cell, the number of the object that covers the largest part of the cell, (H, W).

    The number is NOTHING if no object covers more than the fraction LEAST of the cell. `rows`, (height,
    width), is an object-id buffer of `count` objects. Raises InputError if there are more cells than
    pixels.
    """
    (height, width), (H, W) = rows.shape, grid
    if height < H or width < W:
        raise InputError(f"images of {width} x {height} pixels have no {W} x {H} cells; lower features.size")
    down, across = ((2 * np.arange(n) + 1) * cells // (2 * n) for n, cells in ((height, H), (width, W)))
    cell = down[:, None] * W + across  # height x width
    counted = (np.maximum(rows, NOTHING).astype(np.int64) + 1) * (H * W) + cell
    counts = np.bincount(counted.ravel(), minlength=(count + 1) * H * W).reshape(count + 1, H, W)
    shares = counts / counts.sum(0)  # share of each cell's pixels; the first row is for no object
    shares[0] = LEAST
    return shares.argmax(0) - 1
