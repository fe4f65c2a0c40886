"""Looks and effects: what each does to an image, and what scenes.json records of them."""

import json
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pydantic import ValidationError

from pipeline.config.dataset_params import Variation
from pipeline.config.params import Tabletop
from pipeline.probe import grid_labels
from pipeline.tabletop import dataset, effects, rendering, scenes
from pipeline.tabletop.effects import NONE
from pipeline.tabletop.looks import LOOKS
from pipeline.tabletop.scenes import CAMERA, LIGHTS
from tests.pipeline.tabletop.test_tabletop_raytracer import crowd, make_object

RANGES = Variation(
    exposure=(0.5, 2.0),
    white_balance=(0.9, 1.1),
    gamma=(0.8, 1.2),
    blur=(0.0, 1.0),
    noise=(0.0, 4.0),
    jpeg=(60, 90),
)
SETTINGS = Tabletop(
    scenes=10,
    seed=3,
    min_objects=3,
    max_objects=4,
    width=96,
    height=64,
    viewpoint="moderate",
    look="clevr",
    variation=RANGES,
)
GRAY = np.full((64, 64, 3), 120, dtype=np.uint8)


def srgb(light):
    return 12.92 * light if light <= 0.0031308 else 1.055 * light ** (1 / 2.4) - 0.055


def test_tone_curves():
    own = replace(NONE, exposure=1.5, red=0.9, blue=1.1, gamma=1.3)
    table = effects.curves(own)
    assert table.shape == (3, effects.LEVELS)
    for channel, gain in enumerate((1.5 * 0.9, 1.5, 1.5 * 1.1)):
        for level in (0, 7, 500, 2500, 4095):
            light = min(gain * level / 4095, 1.0)
            assert table[channel, level] == round(255 * srgb(light) ** 1.3)


def test_without_effects_the_pixels_stay():
    pixels = rendering.render(scenes.solids(crowd(1)), CAMERA, LIGHTS, 96, 64)
    assert effects.develop(pixels, NONE).tobytes() == pixels.tobytes()


def test_a_finished_image_gets_the_same_tones():
    """All 256 levels of each channel; without effects they stay."""
    levels = np.repeat(np.arange(256, dtype=np.uint8).reshape(16, 16, 1), 3, axis=2)
    assert (effects.retouch(levels, NONE) == levels).all()
    own = replace(NONE, exposure=1.5, red=0.9, blue=1.1, gamma=1.3)
    retouched = effects.retouch(levels, own).reshape(256, 3)
    for channel, gain in enumerate((1.5 * 0.9, 1.5, 1.5 * 1.1)):
        for level in (0, 3, 60, 200, 255):
            share = level / 255
            light = share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4
            assert retouched[level, channel] == round(255 * srgb(min(gain * light, 1.0)) ** 1.3)
    assert (effects.retouch(GRAY, replace(NONE, noise=3.0, seed=1)) != GRAY).any()


def test_noise_has_its_deviation_and_seed():
    noisy = effects.develop(GRAY, replace(NONE, noise=3.0, seed=1)).astype(int) - GRAY
    assert abs(noisy.std() - 3.0) < 0.1
    assert abs(noisy.mean()) < 0.1
    assert (effects.develop(GRAY, replace(NONE, noise=3.0, seed=1)) - GRAY == noisy.astype(np.uint8)).all()
    assert (effects.develop(GRAY, replace(NONE, noise=3.0, seed=2)) != GRAY + noisy).any()


def test_blur_and_jpeg_change_only_edges():
    half = GRAY.copy()
    half[:, 35:] = 200
    for own in (replace(NONE, blur=1.0), replace(NONE, quality=50)):
        changed = np.abs(effects.develop(half, own).astype(int) - half).max(-1)
        assert changed[:, 24:40].max() > 3
        assert changed[:, :24].max() <= 1


def test_effects_are_within_their_ranges():
    scenes = [effects.draw(RANGES, 3, np.random.default_rng(seed)) for seed in range(50)]
    for key in ("exposure", "red", "blue", "gamma"):  # the camera's
        assert all(len({getattr(own, key) for own in images}) == 1 for images in scenes)
    for key in ("blur", "noise", "seed"):  # the image's
        assert all(len({getattr(own, key) for own in images}) == 3 for images in scenes)
    drawn = [own for images in scenes for own in images]
    for name, (least, most) in RANGES:
        keys = {"white_balance": ("red", "blue"), "jpeg": ("quality",)}.get(name, (name,))
        values = [getattr(own, key) for own in drawn for key in keys]
        assert least <= min(values) < max(values) <= most
    with pytest.raises(ValidationError, match="noise"):
        Variation(**RANGES.model_dump() | {"noise": (2.0, 1.0)})


def test_both_ends_of_the_range_of_qualities_are_drawn():
    def drawn(least, most):
        own = RANGES.model_copy(update={"jpeg": (least, most)})
        return {each.quality for each in effects.draw(own, 60, np.random.default_rng(1))}

    assert drawn(60, 62) == {60, 61, 62}
    assert drawn(75, 75) == {75}


def test_the_looks_differ_in_brightness_and_size_of_cubes():
    objects = crowd(2)
    studio, clevr = (
        rendering.render(scenes.solids(objects, look), CAMERA, LIGHTS, 96, 64, look).mean()
        for look in (LOOKS["studio"], LOOKS["clevr"])
    )
    assert studio > 150
    assert 90 < clevr < 140  # CLEVR-Change's images: 118
    cube = make_object("cube")
    assert cube.half_height(LOOKS["clevr"]) > 1.3 * cube.half_height(LOOKS["studio"])


def test_a_rendered_dataset_records_look_and_effects(tmp_path):
    with chdir(tmp_path):
        dataset.render(SETTINGS, Path("a"), processes=1)
        dataset.render(SETTINGS.model_copy(update={"variation": None}), Path("b"), processes=1)
    found, plain = (json.loads((tmp_path / name / "scenes.json").read_text()) for name in "ab")
    assert found["look"] == plain["look"] == "clevr"
    assert "effects" not in plain["scenes"][0]
    # the scenes are the same ones, and an image is what its scene and its effects say
    scene = found["scenes"][4]
    assert {key: value for key, value in scene.items() if key != "effects"} == plain["scenes"][4]
    name = "images/CLEVR_default_000004.png"
    shown = grid_labels.read_scenes(tmp_path / "a/scenes.json")[name]
    own, view = effects.Effects(**scene["effects"]["default"]), scene["views"]["default"]
    again = rendering.render(shown.solids, shown.camera, view["lights"], 96, 64, LOOKS["clevr"], own)
    assert (np.asarray(Image.open(tmp_path / "a" / name)) == again).all()
    assert own != NONE
    assert (np.asarray(Image.open(tmp_path / "b" / name)) != again).any()
