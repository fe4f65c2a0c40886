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
from pipeline.tabletop.looks import LOOKS, LookConstants
from pipeline.tabletop.rendering import identify
from pipeline.tabletop.scenes import Box, SceneObject, box_of, solids
from pipeline.tabletop.words import COLORS, MATERIALS, SHAPES, SIZES, Point

ATTRIBUTES = {"color": tuple(COLORS), "shape": SHAPES, "material": MATERIALS, "size": SIZES}
"""The classes of each attribute: attribute -> values. A class's number is the position of its value."""
NOTHING = -1  # class of a cell without an object
LEAST = 0.25  # a cell shows an object only if the object covers more than this share of the cell
# image name, with the scene's number left open -> names of the image's camera view and of its list of objects
VIEWS = {
    DEFAULT: ("default", "before"),
    SEMANTIC: ("semantic", "after"),
    DISTRACTOR: ("nonsemantic", "before"),
}
REMEDY = "name the scenes.json that the stage render wrote next to the images"


@dataclass(frozen=True)
class SceneView:
    """Objects and camera of one image. n: number of objects."""

    solids: np.ndarray  # (n, 10), the objects as input of the ray tracer
    classes: np.ndarray  # (n + 1, 4) int8: four attributes in the order of ATTRIBUTES; last row: NOTHING
    camera: Point
    boxes: tuple[Box, ...]


def read_scenes(path: str | Path) -> dict[str, SceneView]:
    """Read scenes.json: image name -> objects and camera of the image."""
    content = read_json(path, REMEDY)
    try:
        look = content.get("look", "studio")  # of scenes without one of their own
        return {
            name.format(scene["number"]): _scene_view(
                scene["views"][view], scene[objects], LOOKS[scene.get("look", look)]
            )
            for scene in content["scenes"]
            for name, (view, objects) in VIEWS.items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} does not describe tabletop's scenes ({error!r}); {REMEDY}") from None


def _scene_view(
    view: Mapping[str, Any], records: Sequence[Mapping[str, Any]], look: LookConstants
) -> SceneView:
    objects = tuple(_scene_object(record) for record in records)
    rows = [[values.index(getattr(item, name)) for name, values in ATTRIBUTES.items()] for item in objects]
    classes = np.array([*rows, [NOTHING] * len(ATTRIBUTES)], dtype=np.int8)
    x, y, z = map(float, view["camera"])
    return SceneView(solids(objects, look), classes, (x, y, z), tuple(tuple(box) for box in view["boxes"]))


def _scene_object(record: Mapping[str, Any]) -> SceneObject:
    x, y, _ = record["position"]
    return SceneObject(x=x, y=y, **{name: value for name, value in record.items() if name != "position"})


def label(scenes: Mapping[str, SceneView], images: Sequence[Indexed], grid: tuple[int, int]) -> np.ndarray:
    """Return the attributes of the object that each cell shows most, int8 (images, 4, H, W).

    The four attributes are color, shape, material and size, as positions in ATTRIBUTES; -1 for no object. A
    rendered image whose boxes differ from scenes.json is an InputError.
    """
    labels = np.empty((len(images), len(ATTRIBUTES), *grid), dtype=np.int8)
    for row, image in enumerate(track(images, "labelling cells", "images", len(images))):
        if image.name not in scenes:
            raise InputError(f"scenes.json does not describe {image.name}; {REMEDY}")
        scene = scenes[image.name]
        cells = dominant(_buffer(scene, image), len(scene.solids), grid)
        labels[row] = scene.classes[cells].transpose(2, 0, 1)  # (H, W, 4) -> (4, H, W)
    return labels


def centres(scenes: Mapping[str, SceneView], images: Sequence[Indexed], grid: tuple[int, int]) -> np.ndarray:
    """Return each cell's attributes as in `label`, but of the object whose box has its centre in the cell."""
    labels = np.full((len(images), len(ATTRIBUTES), *grid), NOTHING, dtype=np.int8)
    for row, image in enumerate(images):
        scene = scenes[image.name]
        for (left, top, width, height), classes in zip(scene.boxes, scene.classes[:-1], strict=True):
            centre = (left + width / 2, top + height / 2)
            labels[row, :, *cell_of(centre, (image.width, image.height), grid)] = classes
    return labels


def cell_of(point: tuple[float, float], size: tuple[int, int], grid: Sequence[int]) -> tuple[int, int]:
    """Return (row, column) of the cell at a point, (x, y) in pixels; `size` is (width, height)."""
    (x, y), (width, height), (H, W) = point, size, grid
    return min(int(y * H / height), H - 1), min(int(x * W / width), W - 1)


def _buffer(scene: SceneView, image: Indexed) -> np.ndarray:
    """Return an image's object-id buffer, whose boxes must be those in scenes.json."""
    buffer = identify(scene.solids, scene.camera, image.width, image.height)
    masks = (buffer == number for number in range(len(scene.solids)))
    if tuple(box_of(mask) if mask.any() else None for mask in masks) != scene.boxes:
        raise InputError(
            f"scenes.json does not fit {image.name} ({image.width} x {image.height} pixels): "
            f"the boxes of its objects differ; {REMEDY}"
        )
    return buffer


def dominant(buffer: np.ndarray, count: int, grid: tuple[int, int]) -> np.ndarray:
    """Return the object that covers most of each cell, (H, W); NOTHING up to the fraction LEAST.

    `buffer`, (height, width), is an object-id buffer of `count` objects.
    """
    (height, width), (H, W) = buffer.shape, grid
    if height < H or width < W:
        raise InputError(f"images of {width} x {height} pixels have no {W} x {H} cells; lower features.size")
    rows, columns = ((2 * np.arange(n) + 1) * cells // (2 * n) for n, cells in ((height, H), (width, W)))
    cell = rows[:, None] * W + columns  # (height, width), number of each pixel's cell
    object_and_cell = (np.maximum(buffer, NOTHING).astype(np.int64) + 1) * (H * W) + cell
    counts = np.bincount(object_and_cell.ravel(), minlength=(count + 1) * H * W).reshape(count + 1, H, W)
    shares = counts / counts.sum(0)  # share of each cell's pixels; the first row is for no object
    shares[0] = LEAST
    return shares.argmax(0) - 1
