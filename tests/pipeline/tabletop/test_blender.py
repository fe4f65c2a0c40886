"""Scenes drawn by Blender: the exchange with its process, and its images if Blender is installed."""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipeline.config.params import Tabletop
from pipeline.io.content_hashes import sha256
from pipeline.io.errors import InputError
from pipeline.tabletop import blender, dataset, drawing, scene_sampling, scenes
from pipeline.tabletop.effects import NONE
from pipeline.tabletop.looks import LOOKS
from pipeline.tabletop.rendering import identify

ROOT = Path(__file__).parents[3]
SETTINGS = Tabletop(
    scenes=10,
    seed=6,
    min_objects=3,
    max_objects=6,
    width=96,
    height=64,
    viewpoint="clevr_change",
    look="blender",
    twins=True,
)
FAKE = """
import json, sys
from PIL import Image
print(json.dumps({"version": "VERSION"}), flush=True)
for line in sys.stdin:
    job = json.loads(line)
    if job["width"] == 97:
        sys.exit("the lamp is broken")
    if job["width"] == 98:
        print(json.dumps({"error": "KeyError: 'Camera'"}), flush=True)
        continue
    red = job["objects"][0]["color"][0]
    Image.new("RGB", (job["width"], job["height"]), (red, job["samples"], 7)).save(job["file"])
    print("{}", flush=True)
"""


def sample(number, settings=SETTINGS):
    return scene_sampling.sample(settings, number, scene_sampling.generator(settings.seed, number))


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder with files in the place of CLEVR's."""
    folder = tmp_path / "assets"
    for name in blender.FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    monkeypatch.setattr(blender, "FILES", {name: sha256(folder / name) for name in blender.FILES})
    return folder


@pytest.fixture
def fake(files, tmp_path, monkeypatch):
    """A program in Blender's place, which draws one colour. Returns the folder of CLEVR's files."""

    def program(version=blender.VERSION):
        path = tmp_path / "program.py"
        path.write_text(FAKE.replace("VERSION", version))
        monkeypatch.setattr(blender, "PYTHON", Path(sys.executable))
        monkeypatch.setattr(blender, "PROGRAM", path)
        return str(files)

    forget()
    yield program
    if blender.process.cache_info().currsize:
        blender.process(str(files)).close()
    forget()


def forget():
    """Forget processes and checked folders of other tests."""
    blender.process.cache_clear()
    blender.check_once.cache_clear()


def test_the_pixels_of_the_program_are_the_image(fake):
    scene, assets = sample(0), fake()
    for objects in (scene.before, scene.after):
        pixels = blender.draw(assets, objects, scene.default, 96, 64)
        red = blender.COLORS[objects[0].color][0]
        assert pixels.shape == (64, 96, 3)
        assert (pixels == (red, blender.SAMPLES, 7)).all()


@pytest.mark.parametrize(("width", "said"), [(97, "the lamp is broken"), (98, "Camera")])
def test_words_of_a_program_that_fails(fake, width, said):
    scene, assets = sample(0), fake()
    with pytest.raises(InputError, match=said):
        blender.draw(assets, scene.before, scene.default, width, 64)


def test_another_version_is_refused(fake):
    scene, assets = sample(0), fake("5.0.1")
    with pytest.raises(InputError, match=r"5\.0\.1"):
        blender.draw(assets, scene.before, scene.default, 96, 64)


def test_what_is_missing_is_named_before_the_work(files, tmp_path, monkeypatch):
    monkeypatch.setattr(blender, "PYTHON", tmp_path / "absent")
    with pytest.raises(InputError, match="absent"):
        dataset.render(SETTINGS, tmp_path / "out", 1)
    monkeypatch.setattr(blender, "PYTHON", Path(sys.executable))
    with pytest.raises(InputError, match=r"tabletop\.assets"):
        dataset.render(SETTINGS, tmp_path / "out", 1)
    blender.check(str(files))
    (files / "shapes/Sphere.blend").write_text("another")
    with pytest.raises(InputError, match=r"shapes/Sphere\.blend"):
        blender.check(str(files))
    (files / "base_scene.blend").unlink()
    with pytest.raises(InputError, match=r"base_scene\.blend"):
        blender.check(str(files))


def test_a_list_of_looks_is_taken_in_turn(fake, tmp_path, monkeypatch):
    """Five scenes, one of each kind, have one look. The ray tracer's images do not depend on the others."""
    monkeypatch.setattr(dataset.worker_processes, "pool", ThreadPoolExecutor)  # they see the fake program
    mixed = SETTINGS.model_copy(update={"look": ("blender", "clevr"), "assets": fake()})
    dataset.render(mixed, tmp_path / "mixed", 1)
    dataset.render(mixed.model_copy(update={"look": "clevr"}), tmp_path / "clevr", 1)
    records = json.loads((tmp_path / "mixed/scenes.json").read_text())["scenes"]
    assert [record["look"] for record in records] == ["blender"] * 5 + ["clevr"] * 5
    for number in range(10):
        name = f"images/CLEVR_default_{number:06d}.png"
        same = (tmp_path / "mixed" / name).read_bytes() == (tmp_path / "clevr" / name).read_bytes()
        assert same == (number >= 5)
    assert "assets" not in mixed.model_dump()


def test_the_version_is_the_locked_one():
    assert f"bpy=={blender.VERSION} " in (ROOT / "blender.lock").read_text()


@pytest.fixture
def assets():
    """The folder of CLEVR's files; the tests that need it also need Blender."""
    folder = os.environ.get("CLEVR_ASSETS")
    if not folder or not blender.PYTHON.is_file():
        pytest.skip("no Blender: run `make blender`, and set CLEVR_ASSETS to the folder of CLEVR's files")
    forget()
    yield folder
    if blender.process.cache_info().currsize:
        blender.process(folder).close()
    forget()


def test_the_same_scene_gives_the_same_pixels(assets):
    scene = sample(1)
    settings = SETTINGS.model_copy(update={"assets": assets})
    first, second = (drawing.image(settings, 1, scene.before, scene.default, NONE) for _ in range(2))
    other = drawing.image(settings, 1, scene.after, scene.semantic, NONE)
    assert (first == second).all()
    assert (first != other).any()


def test_grey_levels_of_a_scene_stay(assets):
    """Another version of Blender, or other settings, would move these quantiles."""
    scene = sample(2, SETTINGS.model_copy(update={"width": 480, "height": 320}))
    pixels = blender.draw(assets, scene.before, scene.default, 480, 320)
    grey = np.asarray(Image.fromarray(pixels).convert("L"))
    assert np.percentile(grey, [5, 25, 50, 75, 95]) == pytest.approx([70, 106, 127, 138, 152], abs=1)


def test_blender_agrees_with_the_numbers_of_the_ray_tracer(assets, tmp_path):
    """Boxes are computed by `identify`. The objects that Blender draws are in the same places."""
    settings = SETTINGS.model_copy(update={"width": 480, "height": 320, "max_objects": 10})
    for number in range(3):
        scene = sample(number, settings)
        work = blender.job(scene.before, scene.default, 480, 320)
        drawn = {"samples": 1, "numbers": str(tmp_path / "numbers.npy")}
        blender.process(assets).draw(work | drawn)
        numbers = np.load(tmp_path / "numbers.npy")
        rows = identify(scenes.solids(scene.before, LOOKS["blender"]), scene.default.camera, 480, 320)
        for row in range(len(scene.before)):
            ours, theirs = (edges(scenes.box_of(mask)) for mask in (rows == row, numbers == row + 1))
            assert np.abs(ours - theirs).max() <= 2


def edges(box):
    left, top, width, height = box
    return np.array([left, top, left + width, top + height])
