"""Scenes that no model has seen, drawn on demand with what is true of them; how often a model tells it."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from pipeline.captioning.picture_captioner import PictureCaptioner, Search
from pipeline.datasets.clevr_annotations import TYPES
from pipeline.datasets.schema import NO_CHANGE, Pair
from pipeline.params import Tabletop, Viewpoint
from pipeline.progress import track
from pipeline.scoring.truth import Verdict, judge
from pipeline.tabletop import changes, grammar, pictures, scene_sampling, scenes

NOTHING = "nothing"
KINDS = (*changes.CHANGE_TYPES, NOTHING)
VIEWPOINTS: dict[str, Viewpoint] = {"a little": "moderate", "by up to 26°": 26.0, "anywhere": "extreme"}
FIRST = 1_000_000  # scenes of a rendered dataset have lower numbers
BATCH = 20  # pairs captioned at once
Judged = tuple[str, Pair, str, Verdict]  # kind of change, the pair, the caption, whether it is true


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


def judged(captioner: PictureCaptioner, settings: Tabletop, scenes: int, search: Search) -> list[Judged]:
    """Captions of `scenes` pairs of each kind of change and of as many without any, judged.

    The scenes are those of `settings.seed`, which must be another than the training's. Raises InputError
    where the settings leave no room for a scene.
    """
    wanted = [(kind, number) for number in range(scenes) for kind in KINDS]
    found: list[Judged] = []
    for start in track(range(0, len(wanted), BATCH), "captioning", "batches", -(-len(wanted) // BATCH)):
        some = wanted[start : start + BATCH]
        drawn = [draw(settings, kind, settings.viewpoint, number) for kind, number in some]
        squashed = captioner.features.squashed
        images = [
            (squashed(each.before, "the drawn picture"), squashed(each.after, "the drawn picture"))
            for each in drawn
        ]
        said = captioner.of_squashed(images, search)
        for (kind, _), each, told in zip(some, drawn, said, strict=True):
            assert each.pair is not None  # it was drawn here
            verdict = judge(told.caption, each.pair)
            assert verdict is not None
            found.append((kind, each.pair, told.caption, verdict))
    return found


def shares(found: Sequence[Judged]) -> dict[str, float]:
    """The share of true captions: of all changes, of each kind of them, and of the pairs without a change."""
    kinds = {kind: [verdict.true for own, _, _, verdict in found if own == kind] for kind in KINDS}
    changed = [true for kind, values in kinds.items() if kind != NOTHING for true in values]
    return {name: sum(values) / len(values) for name, values in {"changes": changed, **kinds}.items()}
