"""Renders `tabletop` to disk in CLEVR-Change's layout, on all cores, resuming where it was stopped.

Work in progress lies beside the output, in .<its name>.<hash of the settings, the code and the
libraries>.scratch/: a folder `dataset` with the pictures, and `scenes` with one small file a scene,
written last. A scene is done when that file and its three pictures are there. The output appears at
the end, whole.
"""

import hashlib
import json
import os
import zlib
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from pipeline.compute import worker_processes
from pipeline.config.params import Tabletop
from pipeline.datasets.clevr_change import DEFAULT, DISTRACTOR, SEMANTIC
from pipeline.io.errors import InputError, writing
from pipeline.io.outputs import Contents, place, write_json
from pipeline.io.progress import track
from pipeline.io.scratch_folders import alone, begin, clear, scratch
from pipeline.tabletop import changes, grammar, pictures, scene_sampling, scenes
from pipeline.tabletop.effects import NONE, Effects, draw
from pipeline.tabletop.looks import LOOKS, Look

PICTURES = (DEFAULT, SEMANTIC, DISTRACTOR)
VIEWS = ("default", "semantic", "nonsemantic")
CONTENTS = Contents("rendered dataset")
SPLITS = {"train": 0.8, "val": 0.1, "test": 0.1}


def render(settings: Tabletop, root: Path, processes: int) -> None:
    """Render the whole dataset into the folder `root`, replacing one of these; same settings, same bytes.

    Raises InputError where the settings leave no room for a scene, where a worker dies, where the disk
    refuses, and where another process renders into `root`. What was rendered is kept for the next run.
    """
    CONTENTS.check(root)
    work = scratch(root, _key(settings))
    with alone(root) as still_alone, writing(root):
        begin(work)
        for picture in PICTURES:
            (work / "dataset" / picture).parent.mkdir(parents=True, exist_ok=True)
        for folder in ("scenes", "partial"):
            (work / folder).mkdir(exist_ok=True)
        todo = [number for number in range(settings.scenes) if not _done(work, number)]
        _render_all(settings, work, todo, processes)
        _write_tables(settings, work)
        if not all(_done(work, number) for number in range(settings.scenes)):
            raise InputError(f"{work} was changed while it was filled; run it again")
        still_alone()
        place(work / "dataset", root, CONTENTS)
        clear(root)


def _key(settings: Tabletop) -> str:
    """Everything that the bytes depend on."""
    digest = hashlib.sha256(settings.model_dump_json().encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    for library in ("numpy", "numba", "pillow"):
        digest.update(version(library).encode())
    return digest.hexdigest()[:16]


def _done(work: Path, number: int) -> bool:
    pictures_there = all((work / "dataset" / name.format(number)).exists() for name in PICTURES)
    return pictures_there and _record_path(work, number).exists()


def _record_path(work: Path, number: int) -> Path:
    return work / "scenes" / f"{number:06d}.json"


def _render_all(settings: Tabletop, work: Path, todo: list[int], processes: int) -> None:
    """Render the scenes `todo`, each in some worker process."""
    if not todo:
        return
    done = settings.scenes - len(todo)
    pool = worker_processes.pool(min(processes, len(todo)))
    try:
        finished = pool.map(partial(_render_scene, settings, work), todo)
        for _ in track(finished, "rendering", "scenes", total=settings.scenes, done=done):
            pass
    except BrokenProcessPool:
        raise InputError(
            "a rendering process was killed (no memory left?); run it again: it goes on where it stopped"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _render_scene(settings: Tabletop, work: Path, number: int) -> None:
    """Draw, paint and write one scene; its record last."""
    rng = scene_sampling.generator(settings.seed, number)
    scene = scene_sampling.sample(settings, number, rng)
    record = _record(scene, rng, settings)
    effects = _effects(settings, rng)
    if effects:
        record["effects"] = {name: asdict(own) for name, own in zip(VIEWS, effects, strict=True)}
    look = LOOKS[settings.look]
    shown = ((scene.before, scene.default), (scene.after, scene.semantic), (scene.before, scene.nonsemantic))
    for name, (things, view), own in zip(PICTURES, shown, effects or [NONE] * len(PICTURES), strict=True):
        solids, size = scenes.solids(things, look), (settings.width, settings.height)
        pixels = pictures.render(solids, view.camera, view.lights, *size, look, own)
        beside = work / "partial" / f"{os.getpid()}.png"
        Image.fromarray(pixels).save(beside, compress_level=1, compress_type=zlib.Z_RLE)
        beside.replace(work / "dataset" / name.format(number))
    beside = work / "partial" / f"{os.getpid()}.json"
    beside.write_text(json.dumps(record), encoding="utf-8")
    beside.replace(_record_path(work, number))


def _effects(settings: Tabletop, rng: np.random.Generator) -> list[Effects]:
    """The effects of a scene's three images; none where the settings have no variation."""
    return draw(settings.variation, len(VIEWS), rng) if settings.variation else []


def _record(scene: scenes.Scene, rng: np.random.Generator, settings: Tabletop) -> dict[str, Any]:
    """A scene's entry of scenes.json, and its captions.

    `before` and `after` list the things (position of the centre in CLEVR's units, rotation about z
    in radians); a view's `boxes` (x, y, width, height in pixels) are in the order of the things
    that it shows. `changed` is the `number` of the thing that changes; `before_box` is its box in
    the default view, `after_box` in the semantic view, null where it is not there.
    """
    look = LOOKS[settings.look]
    before_box = _box_of(scene.changed, scene.before, scene.default)
    after_box = _box_of(scene.changed, scene.after, scene.semantic)
    return {
        "number": scene.number,
        "change_type": scene.change_type,
        "changed": scene.changed,
        "before": [_described(thing, look) for thing in scene.before],
        "after": [_described(thing, look) for thing in scene.after],
        "views": {name: asdict(getattr(scene, name)) for name in VIEWS},
        "before_box": before_box,
        "after_box": after_box,
        "semantic_iou": _viewpoint_iou(scene, scene.after, scene.semantic),
        "distractor_iou": _viewpoint_iou(scene, scene.before, scene.nonsemantic),
        "captions": grammar.change_captions(scene, rng, settings.relations),
        "no_change_captions": grammar.no_change_captions(rng),
    }


def _described(thing: scenes.Thing, look: Look) -> dict[str, Any]:
    fields = asdict(thing)
    x, y = fields.pop("x"), fields.pop("y")
    return {**fields, "position": [x, y, thing.half_height(look)]}


def _box_of(number: int, things: tuple[scenes.Thing, ...], view: scenes.View) -> scenes.Box | None:
    boxes = {thing.number: box for thing, box in zip(things, view.boxes, strict=True)}
    return boxes.get(number)


def _viewpoint_iou(scene: scenes.Scene, things: tuple[scenes.Thing, ...], view: scenes.View) -> float | None:
    """How alike two views are: the mean, over the things that do not change, of the IoU of their boxes.

    The thing that changes is left out of the distractor's figure too, so that the two figures
    of a scene compare. None where nothing else is on the table.
    """
    others = {thing.number: box for thing, box in zip(things, view.boxes, strict=True)}
    ious = [
        _iou(box, others[thing.number])
        for thing, box in zip(scene.before, scene.default.boxes, strict=True)
        if thing.number != scene.changed
    ]
    return round(sum(ious) / len(ious), 6) if ious else None


def _iou(a: scenes.Box, b: scenes.Box) -> float:
    """Intersection over union of two boxes x, y, width, height."""
    across = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    down = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    shared = max(across, 0) * max(down, 0)
    return shared / (a[2] * a[3] + b[2] * b[3] - shared)


def _write_tables(settings: Tabletop, work: Path) -> None:
    """CLEVR-Change's four JSON files and scenes.json, from the scenes' records."""
    folder = work / "dataset"
    records = [json.loads(_record_path(work, number).read_text("utf-8")) for number in range(settings.scenes)]
    for file, key in (
        ("change_captions.json", "captions"),
        ("no_change_captions.json", "no_change_captions"),
    ):
        write_json(
            folder / file,
            {Path(DEFAULT.format(record["number"])).name: record.pop(key) for record in records},
        )
    types: dict[str, list[int]] = {kind: [] for kind in changes.CHANGE_TYPES}
    for record in records:
        types[record["change_type"]].append(record["number"])
    write_json(
        folder / "type_mapping.json",
        {kind: [f"{number:06d}.png" for number in numbers] for kind, numbers in types.items()},
    )
    write_json(folder / "splits.json", split(types, settings.seed))
    look = {} if settings.look == "studio" else {"look": settings.look}  # a studio's bytes stay
    write_json(folder / "scenes.json", look | {"scenes": records})


def split(types: dict[str, list[int]], seed: int) -> dict[str, list[int]]:
    """80/10/10 of all scene numbers, the change types as even within each split as they can be."""
    rng = np.random.default_rng([seed, 0, 1])  # no scene's generator: theirs have two numbers
    piles = [list(rng.permutation(numbers)) for numbers in types.values()]
    rng.shuffle(piles)
    piles.sort(key=len, reverse=True)
    # deal one of each type in turn: any run of the deal then has each type as often, give or take one
    dealt = [int(pile[turn]) for turn in range(max(map(len, piles))) for pile in piles if turn < len(pile)]
    ends = [0, *(round(len(dealt) * share) for share in accumulate(SPLITS.values()))]
    return {name: sorted(dealt[start:end]) for name, (start, end) in zip(SPLITS, pairwise(ends), strict=True)}
