"""Scenes follow CLEVR's rules: margins, visibility, unlike objects, and exactly one change."""

import hashlib
import math
from dataclasses import replace

import numpy as np
import pytest

from pipeline.config.params import Tabletop
from pipeline.io.errors import InputError
from pipeline.tabletop import dataset_card, scene_sampling, scenes
from pipeline.tabletop.rendering import identify

SMALL = Tabletop(scenes=10, seed=5, min_objects=3, max_objects=10, width=96, height=64, viewpoint="moderate")
RADIUS = {"large": 0.7, "small": 0.35}


def sample(number, settings=SMALL):
    return scene_sampling.sample(settings, number, scene_sampling.generator(settings.seed, number))


@pytest.fixture(scope="module")
def many():
    return [sample(number) for number in range(60)]


def pairs(objects):
    return [(a, b) for at, a in enumerate(objects) for b in objects[:at]]


def test_objects_are_on_the_table_apart_and_unlike_each_other(many):
    for scene in many:
        bearing = math.atan2(-scene.default.camera[1], -scene.default.camera[0])
        for objects in (scene.before, scene.after):
            assert all(abs(item.x) <= 3 and abs(item.y) <= 3 for item in objects)
            assert len({(t.size, t.color, t.material, t.shape) for t in objects}) == len(objects)
            for a, b in pairs(objects):
                distance = math.dist((a.x, a.y), (b.x, b.y))
                assert distance - RADIUS[a.size] - RADIUS[b.size] >= 0.25
                along = math.atan2(a.y - b.y, a.x - b.x) - bearing
                assert abs(distance * math.cos(along)) >= 0.4 - 1e-9
                assert abs(distance * math.sin(along)) >= 0.4 - 1e-9


def test_every_object_is_visible_in_its_box(monkeypatch):
    """The least number of visible pixels is 40, and some objects show few more than 40."""
    monkeypatch.setattr(scene_sampling, "SHOWN", 40 / (96 * 64))
    shown = []
    for number in range(40):
        scene = sample(number, SMALL.model_copy(update={"max_objects": 5}))
        views = (
            (scene.before, scene.default),
            (scene.after, scene.semantic),
            (scene.before, scene.nonsemantic),
        )
        for objects, view in views:
            rows = identify(scenes.solids(objects), view.camera, 96, 64)
            assert len(view.boxes) == len(objects)
            for row, box in enumerate(view.boxes):
                lines, columns = np.nonzero(rows == row)
                sides = np.ptp(columns) + 1, np.ptp(lines) + 1
                assert box == (columns.min(), lines.min(), *sides)
                shown.append(len(lines))
    assert 40 <= min(shown) < 44


def test_only_the_changed_object_differs(many):
    for scene in many:
        before = {item.number: item for item in scene.before}
        after = {item.number: item for item in scene.after}
        old, new = before.pop(scene.changed, None), after.pop(scene.changed, None)
        assert before == after
        assert (old is None, new is None) == (scene.change_type == "add", scene.change_type == "drop")
        if scene.change_type == "move":
            assert math.dist((old.x, old.y), (new.x, new.y)) >= 1.2
            assert replace(new, x=old.x, y=old.y) == old
        elif old and new:
            was = getattr(old, scene.change_type)
            assert getattr(new, scene.change_type) != was
            assert replace(new, **{scene.change_type: was}) == old


@pytest.mark.parametrize(
    ("viewpoint", "reach", "least", "most"),
    [
        ("moderate", 1, 0.02, 0.2),
        ("clevr_change", 2, 0.2, 0.4),
        (30.0, 1, 0.4, 0.73),
        ("extreme", 1, 2.4, 3.15),
    ],
)
def test_cameras_and_lights_move_as_far_as_they_may(viewpoint, reach, least, most):
    """The greatest turn of the camera about the table's centre, in radians, is between `least` and `most`."""
    settings = SMALL.model_copy(update={"viewpoint": viewpoint, "max_objects": 4})
    turns = []
    for number in range(20):
        scene = sample(number, settings)
        assert distance(scene.default.camera, scenes.CAMERA) <= 0.5001
        assert distance(scene.default.lights, scenes.LIGHTS) <= 1.0001
        for view in (scene.semantic, scene.nonsemantic):
            assert distance(view.lights, scene.default.lights) <= 0.5001
            assert distance(view.camera[2], scene.default.camera[2]) <= reach + 1e-4
            there, here = (math.atan2(v.camera[1], v.camera[0]) for v in (view, scene.default))
            turns.append(abs(math.remainder(there - here, math.tau)))
    assert least < max(turns) < most


def distance(one, other):
    """Greatest difference of two coordinates."""
    return np.abs(np.subtract(one, other)).max()


def test_a_scene_depends_only_on_the_seed_and_its_number():
    first = sample(7)
    assert sample(7, SMALL.model_copy(update={"scenes": 1000})) == first
    assert sample(7, SMALL.model_copy(update={"seed": 6})) != first
    assert sample(12).before != first.before  # the same change type, another scene


def test_a_crowded_table_ends_in_an_error(monkeypatch):
    monkeypatch.setattr(scene_sampling, "ARENA", 0.9)
    monkeypatch.setattr(scene_sampling, "RESTARTS", 20)
    crowded = SMALL.model_copy(update={"min_objects": 10})
    with pytest.raises(InputError, match="10 objects in 20 tries at 96 x 64 pixels; lower max_objects"):
        sample(0, crowded)


def test_other_scenes_are_another_version():
    """If this fails, equal settings give other scenes than before: increase VERSION and change this hash."""
    found = repr([sample(number, SMALL.model_copy(update={"max_objects": 4})) for number in range(5)])
    assert (dataset_card.VERSION, hashlib.sha256(found.encode()).hexdigest()[:12]) == (2, "b71bf8f95d0a")


def test_twins_are_as_frequent_as_independent_attributes_make_them():
    """CLEVR draws the attributes of each object independently: 96 combinations, equally likely."""
    settings = SMALL.model_copy(update={"twins": True, "min_objects": 6, "max_objects": 6})
    drawn = [sample(number, settings) for number in range(150)]
    pairs_alike = sum(a.look == b.look for scene in drawn for a, b in pairs(scene.before))
    assert pairs_alike == pytest.approx(150 * 15 / 96, abs=15)
    assert not any(a.look == b.look for number in range(150) for a, b in pairs(sample(number).before))
