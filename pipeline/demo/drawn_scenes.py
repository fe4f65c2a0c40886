"""Render new scenes with their scene descriptions, and judge captions of them."""

import io

from PIL import Image

from pipeline.captioning.judging import JudgedCaption, PairImages, judge_captions
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
FIRST = 1_000_000  # number of the first scene here; scenes of a rendered dataset have lower numbers


def draw(settings: Tabletop, kind: str, viewpoint: Viewpoint, number: int) -> PairImages:
    """Render scene `number` (from 0) before and after a change of the kind `kind`.

    Equal arguments give equal images. Raises InputError if the settings leave no room for the objects.
    """
    own = settings.model_copy(update={"viewpoint": viewpoint})
    place = 0 if kind == NOTHING else changes.CHANGE_TYPES.index(kind)
    counted = FIRST + len(changes.CHANGE_TYPES) * number + place  # the number determines the kind of change
    rng = scene_sampling.generator(own.seed, counted)
    scene = scene_sampling.sample(own, counted, rng)
    if kind == NOTHING:
        objects, view, truth = scene.before, scene.nonsemantic, grammar.no_change_captions(rng)
    else:
        objects, view, truth = scene.after, scene.semantic, grammar.change_captions(scene, rng, own.relations)
    first, second = draw_effects(own.variation, 2, rng)
    before = painted(own, scene.before, scene.default, first)
    name, shown = str(scene.number), scene.facts(changed=kind != NOTHING)
    change = NO_CHANGE if kind == NOTHING else TYPES[kind]
    pair = Pair(name, name, "test", "before", "after", tuple(truth), change, scene=shown)
    return PairImages(before, painted(own, objects, view, second), pair)


def painted(
    settings: Tabletop, objects: tuple[scenes.SceneObject, ...], view: scenes.View, effects: Effects = NONE
) -> bytes:
    """Render objects, as the camera of `view` sees them, and return the PNG."""
    look = LOOKS[settings.look]
    solids, size = scenes.solids(objects, look), (settings.width, settings.height)
    pixels = pictures.render(solids, view.camera, view.lights, *size, look, effects)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", compress_level=1)
    return file.getvalue()


def judge_new_scenes(
    captioner: PictureCaptioner, settings: Tabletop, scenes: int, search: Search
) -> list[JudgedCaption]:
    """Render new pairs, caption them, and judge the captions. Return the judged captions.

    KINDS are the kinds of change, and no change. For each of them, `scenes` pairs are rendered.
    `settings.seed` must differ from the seed of the training scenes. Raises InputError if the settings
    leave no room for the objects.
    """
    pairs = (draw(settings, kind, settings.viewpoint, number) for number in range(scenes) for kind in KINDS)
    return judge_captions(captioner, pairs, scenes * len(KINDS), search)
