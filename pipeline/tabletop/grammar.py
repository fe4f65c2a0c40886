"""Write captions of a change with CLEVR-Change's grammar. The captions are true and unambiguous.

A caption of a change describes the changed object as it looks before the change. An added object is described
as it looks after the change. Every noun phrase fits exactly one object of the described image.
"""

from itertools import compress, product

import numpy as np

from pipeline.tabletop.scenes import Scene, SceneObject, View, pick
from pipeline.tabletop.words import ANY_SHAPE, NO_CHANGE, VERBS, WORDS, relations

REFERENCES = 6  # captions per pair


def change_captions(scene: Scene, rng: np.random.Generator, relations: float = 0.5) -> list[str]:
    """Return REFERENCES different sentences about the change.

    `relations` is the probability of a clause such as "that is behind the blue cube", if one is possible.
    """
    added = scene.change_type == "add"
    objects, view = (scene.after, scene.semantic) if added else (scene.before, scene.default)
    item = next(item for item in objects if item.number == scene.changed)
    sentences: dict[str, None] = {}  # a set that keeps its order
    # even a scene with one object has 12 different sentences: its verbs times the names of its shape
    while len(sentences) < REFERENCES:
        subject = _noun_phrase(item, objects, rng) + _maybe_relation(item, objects, view, rng, relations)
        sentences[f"{subject} {_verb_phrase(scene, rng)}"] = None
    return list(sentences)


def no_change_captions(rng: np.random.Generator) -> list[str]:
    """Return REFERENCES different sentences that say that nothing changed."""
    order = rng.permutation(len(NO_CHANGE))
    return [NO_CHANGE[index] for index in order[:REFERENCES]]


def _noun_phrase(item: SceneObject, objects: tuple[SceneObject, ...], rng: np.random.Generator) -> str:
    """Return a phrase "the [size] [color] [material] shape" that fits only this object."""
    size, color, material, shape = pick(_distinguishing(item, objects), rng)
    words = [
        "the",
        *([_say(item.size, rng)] if size else []),
        *([item.color] if color else []),
        *([_say(item.material, rng)] if material else []),
        _say(item.shape, rng) if shape else pick(ANY_SHAPE, rng),
    ]
    return " ".join(words)


def _distinguishing(item: SceneObject, objects: tuple[SceneObject, ...]) -> list[tuple[bool, ...]]:
    """Return all sets of attributes that distinguish `item` from the other objects.

    A set is a tuple of booleans: whether size, color, material and shape are in the set.
    """
    return [
        choice
        for choice in product((False, True), repeat=4)
        if sum([*compress(other.look, choice)] == [*compress(item.look, choice)] for other in objects) == 1
    ]


def _maybe_relation(
    item: SceneObject, objects: tuple[SceneObject, ...], view: View, rng: np.random.Generator, share: float
) -> str:
    """Return, with probability `share`, a clause that locates `item` by another object; else ""."""
    others = [other for other in objects if other is not item and relations(item, other, view.camera)]
    if not others or rng.random() < 1 - share:
        return ""
    other = pick(others, rng)
    relation = pick(pick(relations(item, other, view.camera), rng), rng)
    return f" that is {relation} {_noun_phrase(other, objects, rng)}"


def _verb_phrase(scene: Scene, rng: np.random.Generator) -> str:
    verb = pick(VERBS[scene.change_type], rng)
    if scene.change_type not in ("color", "material"):
        return verb
    after = next(item for item in scene.after if item.number == scene.changed)
    return f"{verb} {after.color if scene.change_type == 'color' else _say(after.material, rng)}"


def _say(attribute: str, rng: np.random.Generator) -> str:
    return pick(WORDS[attribute], rng)
