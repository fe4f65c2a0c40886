"""Captions are true and unambiguous, by a resolver that shares no code with the grammar."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.config.params import Tabletop
from pipeline.tabletop import grammar, scene_sampling, words

SETTINGS = {
    viewpoint: Tabletop(
        scenes=10, seed=0, min_objects=3, max_objects=7, width=96, height=64, viewpoint=viewpoint
    )
    for viewpoint in ("moderate", "extreme")
}
MEANINGS = {**words.MEANINGS, "shape": words.MEANINGS["shape"] | dict.fromkeys(words.ANY_SHAPE)}
ORDER = ("size", "color", "material", "shape")  # of the words of a noun phrase
SIDES = {
    **dict.fromkeys(words.LEFT, "left"),
    **dict.fromkeys(words.RIGHT, "right"),
    **dict.fromkeys(words.FRONT, "front"),
    **dict.fromkeys(words.BEHIND, "behind"),
}
PHRASE = r"the (?:\w+ )*?(?:cube|block|sphere|ball|cylinder|thing|object)"
VERBS = {kind: rf"(?:{'|'.join(verbs)})(?: (\w+))?" for kind, verbs in words.VERBS.items()}
SENTENCE = (
    rf"(?P<subject>{PHRASE})(?: that is (?P<side>{'|'.join(SIDES)}) (?P<other>{PHRASE}))? (?P<verb>[a-z ]+)"
)


def resolve(phrase, objects):
    """Return the objects that fit a noun phrase, whose words must be in CLEVR's order."""
    parts = phrase.split(" ")
    assert parts[0] == "the"
    said = []
    for word in parts[1:]:
        (kind,) = (kind for kind, meanings in MEANINGS.items() if word in meanings)
        said.append((ORDER.index(kind), kind, MEANINGS[kind][word]))
    assert [place for place, _, _ in said] == sorted({place for place, _, _ in said})
    assert said[-1][1] == "shape"
    return [t for t in objects if all(value in (None, getattr(t, kind)) for _, kind, value in said)]


def side_is_true(side, item, other, camera):
    """Return True if `item` is on a side of `other`, seen from a camera that looks at the origin."""
    bearing = math.atan2(-camera[1], -camera[0])
    angle = math.atan2(item.y - other.y, item.x - other.x) - bearing
    distance = math.dist((item.x, item.y), (other.x, other.y))
    ahead, left = distance * math.cos(angle), distance * math.sin(angle)
    return {"left": left, "right": -left, "behind": ahead, "front": -ahead}[side] >= 0.2 - 1e-9


def draw(seed, number, viewpoint, twins=False):
    rng = scene_sampling.generator(seed, number)
    own = SETTINGS[viewpoint].model_copy(update={"twins": twins})
    return scene_sampling.sample(own, number, rng), rng


@settings(max_examples=150, derandomize=True)
@given(st.integers(0, 2**31 - 1), st.integers(0, 10**6), st.sampled_from(["moderate", "extreme"]))
def test_captions_are_true_and_unambiguous(seed, number, viewpoint):
    check_captions(*draw(seed, number, viewpoint))


def check_captions(scene, rng):
    captions = grammar.change_captions(scene, rng)
    assert len(set(captions)) == len(captions) == 6
    added = scene.change_type == "add"
    objects, view = (scene.after, scene.semantic) if added else (scene.before, scene.default)
    for caption in captions:
        assert re.fullmatch(r"[a-z]+( [a-z]+)*", caption)
        parsed = re.fullmatch(SENTENCE, caption)
        subjects = resolve(parsed["subject"], objects)
        if parsed["side"]:
            (other,) = resolve(parsed["other"], objects)
            assert other.number != scene.changed
            side = SIDES[parsed["side"]]
            subjects = [
                item
                for item in subjects
                if item is not other and side_is_true(side, item, other, view.camera)
            ]
        (subject,) = subjects
        assert subject.number == scene.changed
        verb = re.fullmatch(VERBS[scene.change_type], parsed["verb"])
        assert verb
        if scene.change_type in ("color", "material"):
            (after,) = (item for item in scene.after if item.number == scene.changed)
            assert MEANINGS[scene.change_type][verb[1]] == getattr(after, scene.change_type)


def test_captions_of_twins_have_the_relation_that_they_need():
    drawn = [draw(2, number, "moderate", twins=True) for number in range(300)]
    with_twin = [(scene, rng) for scene, rng in drawn if has_twin(scene)]
    assert len(with_twin) >= 10
    for scene, rng in with_twin:
        check_captions(scene, rng)
        assert all(" that is " in caption for caption in grammar.change_captions(scene, rng, relations=0.0))


def has_twin(scene):
    """Return True if another object of the described image has the attributes of the changed object."""
    objects = scene.after if scene.change_type == "add" else scene.before
    (changed,) = (item for item in objects if item.number == scene.changed)
    return sum(item.look == changed.look for item in objects) > 1


@pytest.mark.parametrize("relations", [0.0, 0.2, 1.0])
def test_the_share_of_captions_with_a_relation(relations):
    drawn = [draw(1, number, "moderate") for number in range(60)]
    captions = [text for scene, rng in drawn for text in grammar.change_captions(scene, rng, relations)]
    placed = np.mean([" that is " in caption for caption in captions])
    assert abs(placed - relations) < (0.08 if 0 < relations < 1 else 1e-9)


def test_no_change_captions_are_distinct_and_known():
    for seed in range(20):
        captions = grammar.no_change_captions(np.random.default_rng(seed))
        assert len(set(captions)) == len(captions) == 6
        assert set(captions) <= set(words.NO_CHANGE)


def test_a_single_object_has_enough_captions():
    lone = SETTINGS["moderate"].model_copy(update={"min_objects": 1, "max_objects": 1})
    for number in range(10):
        rng = scene_sampling.generator(3, number)
        scene = scene_sampling.sample(lone, number, rng)
        captions = grammar.change_captions(scene, rng)
        assert len(set(captions)) == 6
        assert scene.change_type == "add" or not any(" that is " in caption for caption in captions)
