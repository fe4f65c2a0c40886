"""Render new scenes with their scene descriptions, and judge captions of them."""

import io
from collections.abc import Callable
from functools import partial
from itertools import starmap
from pathlib import Path

from PIL import Image

from pipeline.captioning.judging import JudgedCaption, PairImages, judge_captions
from pipeline.captioning.pair_captioner import PairCaptioner, Search
from pipeline.compute import worker_processes
from pipeline.config.params import Tabletop, Viewpoint
from pipeline.datasets.clevr_annotations import TYPES
from pipeline.datasets.schema import NO_CHANGE, Pair
from pipeline.io.outputs import replacing
from pipeline.tabletop import blender, dataset, drawing, effects, grammar, scene_sampling, scenes
from pipeline.tabletop.effects import Effects

NOTHING = "nothing"
KINDS = (*scene_sampling.CHANGE_TYPES, NOTHING)
VIEWPOINTS: dict[str, Viewpoint] = {"a little": "moderate", "by up to 26°": 26.0, "anywhere": "extreme"}
FIRST = 1_000_000  # number of the first scene here; scenes of a rendered dataset have lower numbers


def draw(
    settings: Tabletop, kind: str, viewpoint: Viewpoint, number: int, kept: Path | None = None
) -> PairImages:
    """Render scene `number` before and after a change, always the same images, which `kept` stores."""
    # kept images serve settings for any number of scenes
    settings = settings.model_copy(update={"viewpoint": viewpoint, "look": settings.looks[0], "scenes": 1})
    changed = kind != NOTHING
    # a scene's number determines the kind of its change
    index = scene_sampling.CHANGE_TYPES.index(kind) if changed else 0
    scene_number = FIRST + len(scene_sampling.CHANGE_TYPES) * number + index
    rng = scene_sampling.generator(settings.seed, scene_number)
    scene = scene_sampling.sample(settings, scene_number, rng)
    if changed:
        objects, view = scene.after, scene.semantic
        captions = grammar.change_captions(scene, rng, settings.relations)
    else:
        objects, view, captions = scene.before, scene.nonsemantic, grammar.no_change_captions(rng)
    effects_before, effects_after = effects.draw(settings.variation, 2, rng)
    folder = kept / dataset.key(settings) if kept else None

    def image(
        side: str, objects: tuple[scenes.SceneObject, ...], view: scenes.View, image_effects: Effects
    ) -> bytes:
        file = folder / f"{kind}-{number}-{side}.png" if folder else None
        return kept_image(file, partial(painted, settings, objects, view, image_effects))

    before = image("before", scene.before, scene.default, effects_before)
    after = image("after", objects, view, effects_after)
    name, change = str(scene.number), TYPES[kind] if changed else NO_CHANGE
    pair = Pair(name, name, "test", "before", "after", tuple(captions), change, scene=scene.facts(changed))
    return PairImages(before, after, pair)


def kept_image(file: Path | None, render: Callable[[], bytes]) -> bytes:
    """Return the PNG in `file`. If there is no such file, render the PNG, and write it to `file`."""
    if file is None:
        return render()
    if not file.exists():
        with replacing(file) as unfinished:
            unfinished.write_bytes(render())
    return file.read_bytes()


def painted(
    settings: Tabletop, objects: tuple[scenes.SceneObject, ...], view: scenes.View, image_effects: Effects
) -> bytes:
    """Render objects, as the camera of `view` sees them, and return the PNG."""
    pixels = drawing.image(settings, 0, objects, view, image_effects)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", compress_level=1)
    return file.getvalue()


def judge_new_scenes(
    captioner: PairCaptioner, settings: Tabletop, scenes: int, search: Search, kept: Path | None = None
) -> list[JudgedCaption]:
    """Render `scenes` new pairs of each kind of change and of none, caption them, and judge the captions.

    `settings.seed` must differ from the seed of the training scenes. `kept`: folder of images for the next
    call.
    """
    jobs = [(settings, kind, settings.viewpoint, number, kept) for number in range(scenes) for kind in KINDS]
    if settings.looks[0] != "blender":
        return judge_captions(captioner, starmap(draw, jobs), len(jobs), search)
    blender.check(settings.assets)
    pool = worker_processes.pool(min(worker_processes.cores(), len(jobs)))
    try:
        pairs = (drawn.result() for drawn in [pool.submit(draw, *job) for job in jobs])
        return judge_captions(captioner, pairs, len(jobs), search)
    finally:
        pool.shutdown(cancel_futures=True)  # after an error, the other scenes are not drawn
