"""Write captions of a change with CLEVR-Change's grammar. The captions are true and unambiguous.

A caption of a change describes the changed object as it looks before the change. An added object is described
as it looks after the change. Every noun phrase fits exactly one object of the described image. If two objects
have equal attributes, only a relation to a third object ("that is behind the red ball") can do this.
"""

from itertools import compress, product

import numpy as np

from pipeline.tabletop.scenes import Scene, SceneObject, View, pick
from pipeline.tabletop.words import ANY_SHAPE, NO_CHANGE, VERBS, WORDS, relations

REFERENCES = 6  # captions per pair


def change_captions(scene: Scene, rng: np.random.Generator, relations: float = 0.5) -> list[str]:
    """Return REFERENCES different sentences about the change; `relations`: probability of a relation."""
    item, objects, view = _described(scene)
    sentences: dict[str, None] = {}  # a set that keeps its order
    # even a scene with one object has 12 different sentences: its verbs times the names of its shape
    while len(sentences) < REFERENCES:
        if _distinguishing(item, objects):
            subject = _noun_phrase(item, objects, rng) + _maybe_relation(item, objects, view, rng, relations)
        else:
            subject = _located(item, objects, view, rng)
        sentences[f"{subject} {_verb_phrase(scene, rng)}"] = None
    return list(sentences)


def is_describable(scene: Scene) -> bool:
    """Return True if a sentence describes only the changed object: by its attributes or its relations."""
    item, objects, view = _described(scene)
    return bool(_distinguishing(item, objects) or _distinguishing_relations(item, objects, view))


def _described(scene: Scene) -> tuple[SceneObject, tuple[SceneObject, ...], View]:
    """Return the changed object, and the objects and the view of the image that the captions describe."""
    added = scene.change_type == "add"
    objects, view = (scene.after, scene.semantic) if added else (scene.before, scene.default)
    return next(item for item in objects if item.number == scene.changed), objects, view


def no_change_captions(rng: np.random.Generator) -> list[str]:
    """Return REFERENCES different sentences that say that nothing changed."""
    order = rng.permutation(len(NO_CHANGE))
    return [NO_CHANGE[index] for index in order[:REFERENCES]]


def _noun_phrase(item: SceneObject, objects: tuple[SceneObject, ...], rng: np.random.Generator) -> str:
    return _phrase(item, pick(_distinguishing(item, objects), rng), rng)


def _phrase(item: SceneObject, attributes: tuple[bool, ...], rng: np.random.Generator) -> str:
    """Return a phrase for `item`. `attributes`: whether it has the size, color, material and shape."""
    size, color, material, shape = attributes
    words = [
        "the",
        *([_say(item.size, rng)] if size else []),
        *([item.color] if color else []),
        *([_say(item.material, rng)] if material else []),
        _say(item.shape, rng) if shape else pick(ANY_SHAPE, rng),
    ]
    return " ".join(words)


def _distinguishing(item: SceneObject, objects: tuple[SceneObject, ...]) -> list[tuple[bool, ...]]:
    """Return the sets of attributes that distinguish an object, as booleans in the order of its look."""
    return [
        choice
        for choice in product((False, True), repeat=4)
        if sum([*compress(other.look, choice)] == [*compress(item.look, choice)] for other in objects) == 1
    ]


def _maybe_relation(
    item: SceneObject, objects: tuple[SceneObject, ...], view: View, rng: np.random.Generator, share: float
) -> str:
    """Return, with probability `share`, a clause that locates `item` by another object; else ""."""
    others = [
        other
        for other in objects
        if other is not item and relations(item, other, view.camera) and _distinguishing(other, objects)
    ]
    if not others or rng.random() < 1 - share:
        return ""
    other = pick(others, rng)
    relation = pick(pick(relations(item, other, view.camera), rng), rng)
    return f" that is {relation} {_noun_phrase(other, objects, rng)}"


def _located(
    item: SceneObject, objects: tuple[SceneObject, ...], view: View, rng: np.random.Generator
) -> str:
    """Return a noun phrase with a relation, for an object that has the attributes of another one."""
    attributes, other, wording = pick(_distinguishing_relations(item, objects, view), rng)
    subject, relation = _phrase(item, attributes, rng), pick(wording, rng)
    return f"{subject} that is {relation} {_noun_phrase(other, objects, rng)}"


def _distinguishing_relations(
    item: SceneObject, objects: tuple[SceneObject, ...], view: View
) -> list[tuple[tuple[bool, ...], SceneObject, tuple[str, ...]]]:
    """Return all (set of attributes, distinguishable landmark, relation) that fit only `item`.

    A relation is a tuple of phrases with the same meaning.
    """
    found = []
    for choice in product((False, True), repeat=4):
        attributes = [*compress(item.look, choice)]
        alike = [other for other in objects if [*compress(other.look, choice)] == attributes]
        for landmark in objects:
            if landmark is item or not _distinguishing(landmark, objects):
                continue
            rivals = [other for other in alike if other is not item and other is not landmark]
            shared = {wording for rival in rivals for wording in relations(rival, landmark, view.camera)}
            wordings = relations(item, landmark, view.camera)
            found += [(choice, landmark, wording) for wording in wordings if wording not in shared]
    return found


def _verb_phrase(scene: Scene, rng: np.random.Generator) -> str:
    verb = pick(VERBS[scene.change_type], rng)
    if scene.change_type not in ("color", "material"):
        return verb
    after = next(item for item in scene.after if item.number == scene.changed)
    return f"{verb} {after.color if scene.change_type == 'color' else _say(after.material, rng)}"


def _say(attribute: str, rng: np.random.Generator) -> str:
    return pick(WORDS[attribute], rng)
