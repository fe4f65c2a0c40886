"""Labels of cells against a count over pixels. Errors name what does not fit scenes.json."""

import json
import math
from collections import Counter
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipeline.config.params import Tabletop
from pipeline.datasets.images import Indexed
from pipeline.io.errors import InputError
from pipeline.probe import grid_labels
from pipeline.probe.grid_labels import ATTRIBUTES, LEAST, NOTHING, dominant
from pipeline.tabletop import dataset

SETTINGS = Tabletop(
    scenes=10, seed=3, min_objects=1, max_objects=4, width=96, height=64, viewpoint="moderate"
)
NAMES = ("images/CLEVR_default", "sc_images/CLEVR_semantic", "nsc_images/CLEVR_nonsemantic")


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cells")
    with chdir(folder):
        dataset.render(SETTINGS, Path("raw"), processes=2)
    return folder / "raw"


def indexed(name, width=96, height=64):
    return Indexed(name, width, height, 0, "")


IMAGES = [indexed(f"{name}_{number:06d}.png") for number in range(10) for name in NAMES]


def counted(rows, grid):
    """Reference implementation of `dominant`: a loop over pixels."""
    (height, width), (H, W) = rows.shape, grid
    inside = [[[] for _ in range(W)] for _ in range(H)]
    for line in range(height):
        for column in range(width):
            at = math.floor((line + 0.5) / height * H), math.floor((column + 0.5) / width * W)
            inside[at[0]][at[1]].append(int(rows[line, column]))
    found = np.full(grid, NOTHING)
    for i in range(H):
        for j in range(W):
            objects = Counter(row for row in inside[i][j] if row >= 0)
            if objects:
                most = max(objects.values())
                if most > LEAST * len(inside[i][j]):
                    found[i, j] = min(row for row, count in objects.items() if count == most)
    return found


@pytest.mark.parametrize(("size", "grid"), [((64, 96), (14, 14)), ((21, 30), (4, 7)), ((5, 5), (5, 5))])
def test_the_dominant_object_has_most_pixels(size, grid):
    rng = np.random.default_rng(0)
    coarse = rng.choice([-2, -1, -1, 0, 1, 2], size)
    np.testing.assert_array_equal(dominant(coarse.astype(np.int8), 3, grid), counted(coarse, grid))
    # large objects too, which fill cells
    blocks = np.kron(rng.choice([-1, 0, 1, 2], (6, 6)), np.ones((16, 16)))[: size[0], : size[1]]
    np.testing.assert_array_equal(dominant(blocks.astype(np.int8), 3, grid), counted(blocks, grid))


def test_labels_are_the_attributes_of_visible_objects(root):
    found = grid_labels.label(grid_labels.read_scenes(root / "scenes.json"), IMAGES, (8, 8))
    records = json.loads((root / "scenes.json").read_text())["scenes"]
    assert found.shape == (30, 4, 8, 8)
    met = 0
    for row, image in enumerate(IMAGES):
        record = records[row // 3]
        objects = record["after" if "semantic_" in image.name and "non" not in image.name else "before"]
        there = {tuple(values.index(t[name]) for name, values in ATTRIBUTES.items()) for t in objects}
        shown = {tuple(cell) for cell in found[row].reshape(4, -1).T.tolist()}
        assert shown - {(NOTHING,) * 4} <= there
        met += bool(shown & there)
    assert met > 20  # of 30: a small object may cover no cell by a quarter
    # a changed colour is another label in the same scene
    recoloured = [record["number"] for record in records if record["change_type"] == "color"]
    default, semantic = ([set(found[3 * n + view, 0].flat) for n in recoloured] for view in (0, 1))
    assert default != semantic


def test_labels_are_where_the_image_shows_their_colour(root):
    """Cells of yellow objects are yellower than the rest of their image: no axis is turned or shifted."""
    found = grid_labels.label(grid_labels.read_scenes(root / "scenes.json"), IMAGES, (8, 8))
    yellow = list(ATTRIBUTES["color"]).index("yellow")
    gaps = []
    for image, labels in zip(IMAGES, found, strict=True):
        picture = np.asarray(Image.open(root / image.name), dtype=float)
        tint = (picture[..., :2].mean(-1) - picture[..., 2]).reshape(8, 8, 8, 12).mean((1, 3))
        if (there := labels[0] == yellow).any():
            gaps.append(tint[there].mean() - tint[~there].mean())
    assert len(gaps) > 3
    assert min(gaps) > 0


def test_another_size_or_another_view_is_refused(root):
    scenes = grid_labels.read_scenes(root / "scenes.json")
    name = IMAGES[0].name
    with pytest.raises(InputError, match=rf"does not fit {name} \(48 x 32 pixels\).*render wrote"):
        grid_labels.label(scenes, [indexed(name, 48, 32)], (2, 2))
    with pytest.raises(InputError, match=f"does not fit {name}"):
        grid_labels.label(scenes | {name: replace(scenes[name], camera=(7.0, -6.0, 5.0))}, IMAGES[:1], (4, 4))
    with pytest.raises(InputError, match=r"does not describe other\.png"):
        grid_labels.label(scenes, [indexed("other.png")], (4, 4))
    with pytest.raises(InputError, match="96 x 64 pixels have no 70 x 70 cells; lower"):
        grid_labels.label(scenes, IMAGES[:1], (70, 70))


@pytest.mark.parametrize(
    "damage",
    [
        lambda record: record.pop("views"),
        lambda record: record["before"][0].update(color="pink"),
    ],
)
def test_damaged_scenes_are_named(root, tmp_path, damage):
    tree = json.loads((root / "scenes.json").read_text())
    damage(tree["scenes"][4])
    (tmp_path / "scenes.json").write_text(json.dumps(tree))
    with pytest.raises(InputError, match=r"scenes\.json does not describe tabletop's scenes"):
        grid_labels.read_scenes(tmp_path / "scenes.json")
