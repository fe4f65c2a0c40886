"""Scenes that no model has seen, drawn on demand with what is true of them; how often a model tells it."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from pipeline.captioning import judging
from pipeline.captioning.judging import Judged
from pipeline.captioning.picture_captioner import PictureCaptioner, Search
from pipeline.config.params import Tabletop, Viewpoint
from pipeline.datasets.clevr_annotations import TYPES
from pipeline.datasets.schema import NO_CHANGE, Pair
from pipeline.tabletop import changes, grammar, pictures, scene_sampling, scenes
from pipeline.tabletop.effects import NONE, Effects
from pipeline.tabletop.effects import draw as draw_effects
from pipeline.tabletop.looks import LOOKS

NOTHING = "nothing"
KINDS = (*changes.CHANGE_TYPES, NOTHING)
VIEWPOINTS: dict[str, Viewpoint] = {"a little": "moderate", "by up to 26°": 26.0, "anywhere": "extreme"}
FIRST = 1_000_000  # scenes of a rendered dataset have lower numbers


@dataclass(frozen=True)
class Drawn:
    """Two pictures as bytes of files or as files, and the pair that they show, where its truth is known."""

    before: bytes | Path
    after: bytes | Path
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
    first, second = draw_effects(own.variation, 2, rng) if own.variation else (NONE, NONE)
    before = painted(own, scene.before, scene.default, first)
    return Drawn(before, painted(own, things, view, second), _pair(scene, kind, truth))


def _pair(scene: scenes.Scene, kind: str, truth: Sequence[str]) -> Pair:
    """As the datasets have it, of no split's file."""
    name, shown = str(scene.number), scene.facts(changed=kind != NOTHING)
    change = NO_CHANGE if kind == NOTHING else TYPES[kind]
    return Pair(name, name, "test", "before", "after", tuple(truth), change, scene=shown)


def painted(
    settings: Tabletop, things: tuple[scenes.Thing, ...], view: scenes.View, effects: Effects = NONE
) -> bytes:
    """What a view shows, as a PNG."""
    look = LOOKS[settings.look]
    solids, size = scenes.solids(things, look), (settings.width, settings.height)
    pixels = pictures.render(solids, view.camera, view.lights, *size, look, effects)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", compress_level=1)
    return file.getvalue()


def judged(captioner: PictureCaptioner, settings: Tabletop, scenes: int, search: Search) -> list[Judged]:
    """Captions of `scenes` pairs of each kind of change and of as many without any, judged.

    The scenes are those of `settings.seed`, which must be another than the training's. Raises InputError
    where the settings leave no room for a scene.
    """
    return judging.judged(captioner, _shown(settings, scenes), scenes * len(KINDS), search)


def _shown(settings: Tabletop, scenes: int) -> Iterator[judging.Shown]:
    for number in range(scenes):
        for kind in KINDS:
            drawn = draw(settings, kind, settings.viewpoint, number)
            assert drawn.pair is not None  # it was drawn here
            yield kind, drawn.pair, drawn.before, drawn.after


def shares(found: Sequence[Judged]) -> dict[str, float]:
    """The share of true captions: of all changes, of each kind of them, and of the pairs without a change."""
    kinds = {kind: [verdict.true for own, _, _, verdict in found if own == kind] for kind in KINDS}
    changed = [true for kind, values in kinds.items() if kind != NOTHING for true in values]
    return {name: sum(values) / len(values) for name, values in {"changes": changed, **kinds}.items()}
