"""A scene that no model has seen, drawn on demand with what is true of it."""

import io
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image

from pipeline.datasets.clevr_annotations import TYPES
from pipeline.datasets.schema import NO_CHANGE, Pair
from pipeline.params import Tabletop, Viewpoint
from pipeline.tabletop import changes, grammar, pictures, scene_sampling, scenes

NOTHING = "nothing"
KINDS = (*changes.CHANGE_TYPES, NOTHING)
VIEWPOINTS: dict[str, Viewpoint] = {"a little": "moderate", "by up to 26°": 26.0, "anywhere": "extreme"}
FIRST = 1_000_000  # scenes of a rendered dataset have lower numbers


@dataclass(frozen=True)
class Drawn:
    """Two pictures as files' bytes, and the pair that they show, where it is known what happened."""

    before: bytes
    after: bytes
    pair: Pair | None


def draw(settings: Tabletop, kind: str, viewpoint: Viewpoint, number: int) -> Drawn:
    """Scene `number`, counted from 0, of a kind of change; the same arguments draw the same.

    Raises InputError where the settings leave no room for a scene.
    """
    own = settings.model_copy(update={"viewpoint": viewpoint})
    place = 0 if kind == NOTHING else changes.CHANGE_TYPES.index(kind)
    counted = FIRST + len(changes.CHANGE_TYPES) * number + place  # the number says what changes
    rng = scene_sampling.generator(own.seed, counted)
    scene = scene_sampling.sample(own, counted, rng)
    if kind == NOTHING:
        things, view, truth = scene.before, scene.nonsemantic, grammar.no_change_captions(rng)
    else:
        things, view, truth = scene.after, scene.semantic, grammar.change_captions(scene, rng, own.relations)
    before = painted(own, scene.before, scene.default)
    return Drawn(before, painted(own, things, view), _pair(scene, kind, truth))


def _pair(scene: scenes.Scene, kind: str, truth: Sequence[str]) -> Pair:
    """As the datasets have it, of no split's file."""
    name, shown = str(scene.number), scene.facts(changed=kind != NOTHING)
    change = NO_CHANGE if kind == NOTHING else TYPES[kind]
    return Pair(name, name, "test", "before", "after", tuple(truth), change, scene=shown)


def painted(settings: Tabletop, things: tuple[scenes.Thing, ...], view: scenes.View) -> bytes:
    """What a view shows, as a PNG."""
    pixels = pictures.render(scenes.solids(things), view.camera, view.lights, settings.width, settings.height)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", compress_level=1)
    return file.getvalue()
