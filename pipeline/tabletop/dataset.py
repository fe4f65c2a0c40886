"""Render the dataset tabletop to disk, in CLEVR-Change's file layout, in several processes.

An interrupted rendering can be resumed. Unfinished work is next to the output folder NAME, in the folder
.NAME.HASH.scratch; HASH depends on the settings, the code and the libraries. Its folder `dataset` has the
images. Its folder `scenes` has one small record per scene, which is written after the scene's images. A scene
is finished when its record and its three images exist. The output folder appears when all scenes are
finished.
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
from pipeline.io.scratch_folders import begin, clear, output_lock, scratch
from pipeline.tabletop import blender, drawing, grammar, scene_sampling, scenes
from pipeline.tabletop.effects import draw
from pipeline.tabletop.looks import LOOKS, LookConstants

IMAGES = (DEFAULT, SEMANTIC, DISTRACTOR)
VIEWS = ("default", "semantic", "nonsemantic")
CONTENTS = Contents("rendered dataset")
SPLITS = {"train": 0.8, "val": 0.1, "test": 0.1}


def render(settings: Tabletop, root: Path, processes: int) -> None:
    """Render the dataset and replace the folder `root` with it. Equal settings give equal bytes.

    After an error, finished scenes are kept for the next run.
    """
    CONTENTS.check(root)
    if "blender" in settings.looks:
        blender.check(settings.assets)
    work = scratch(root, key(settings))
    with output_lock(root), writing(root):
        begin(work)
        for folder in ("scenes", "partial", *(f"dataset/{Path(name).parent}" for name in IMAGES)):
            (work / folder).mkdir(parents=True, exist_ok=True)
        todo = [number for number in range(settings.scenes) if not _done(work, number)]
        _render_all(settings, work, todo, processes)
        _write_tables(settings, work)
        if not all(_done(work, number) for number in range(settings.scenes)):
            raise InputError(f"{work} was changed while it was filled; run it again")
        place(work / "dataset", root, CONTENTS)
        clear(root)


def key(settings: Tabletop) -> str:
    """Return a hash of all that decides the bytes of the dataset: settings, code and libraries."""
    digest = hashlib.sha256(settings.model_dump_json().encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    for library in ("numpy", "numba", "pillow"):
        digest.update(version(library).encode())
    digest.update(blender.VERSION.encode() if "blender" in settings.looks else b"")
    return digest.hexdigest()[:16]


def _done(work: Path, number: int) -> bool:
    has_images = all((work / "dataset" / name.format(number)).exists() for name in IMAGES)
    return has_images and _record_path(work, number).exists()


def _record_path(work: Path, number: int) -> Path:
    return work / "scenes" / f"{number:06d}.json"


def _render_all(settings: Tabletop, work: Path, todo: list[int], processes: int) -> None:
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
    """Sample a scene. Write its images, and then its record."""
    rng = scene_sampling.generator(settings.seed, number)
    scene = scene_sampling.sample(settings, number, rng)
    record = _record(scene, rng, settings)
    effects = draw(settings.variation, len(VIEWS), rng)
    if settings.variation:
        record["effects"] = {name: asdict(item) for name, item in zip(VIEWS, effects, strict=True)}
    images = ((scene.before, scene.default), (scene.after, scene.semantic), (scene.before, scene.nonsemantic))
    for name, (objects, view), image_effects in zip(IMAGES, images, effects, strict=True):
        pixels = drawing.image(settings, number, objects, view, image_effects)
        unfinished = work / "partial" / f"{os.getpid()}.png"
        Image.fromarray(pixels).save(unfinished, compress_level=1, compress_type=zlib.Z_RLE)
        unfinished.replace(work / "dataset" / name.format(number))
    unfinished = work / "partial" / f"{os.getpid()}.json"
    unfinished.write_text(json.dumps(record), encoding="utf-8")
    unfinished.replace(_record_path(work, number))


def _record(scene: scenes.Scene, rng: np.random.Generator, settings: Tabletop) -> dict[str, Any]:
    """Return a scene's entry in scenes.json; boxes are x, y, width, height in pixels, null if absent."""
    look = LOOKS[settings.look_of(scene.number)]
    record = {
        "number": scene.number,
        "change_type": scene.change_type,
        "changed": scene.changed,
        "before": [_described(item, look) for item in scene.before],
        "after": [_described(item, look) for item in scene.after],
        "views": {name: asdict(getattr(scene, name)) for name in VIEWS},
        "before_box": _boxes(scene.before, scene.default).get(scene.changed),
        "after_box": _boxes(scene.after, scene.semantic).get(scene.changed),
        "semantic_iou": _viewpoint_iou(scene, scene.after, scene.semantic),
        "distractor_iou": _viewpoint_iou(scene, scene.before, scene.nonsemantic),
        "captions": grammar.change_captions(scene, rng, settings.relations),
        "no_change_captions": grammar.no_change_captions(rng),
    }
    return record if isinstance(settings.look, str) else record | {"look": settings.look_of(scene.number)}


def _described(item: scenes.SceneObject, look: LookConstants) -> dict[str, Any]:
    fields = asdict(item)
    x, y = fields.pop("x"), fields.pop("y")
    return {**fields, "position": [x, y, item.half_height(look)]}


def _boxes(objects: tuple[scenes.SceneObject, ...], view: scenes.View) -> dict[int, scenes.Box]:
    return {item.number: box for item, box in zip(objects, view.boxes, strict=True)}


def _viewpoint_iou(
    scene: scenes.Scene, objects: tuple[scenes.SceneObject, ...], view: scenes.View
) -> float | None:
    """Return the mean IoU of unchanged `objects`' boxes in both views; None without such objects."""
    boxes, other_boxes = _boxes(scene.before, scene.default), _boxes(objects, view)
    ious = [_iou(box, other_boxes[number]) for number, box in boxes.items() if number != scene.changed]
    return round(sum(ious) / len(ious), 6) if ious else None


def _iou(a: scenes.Box, b: scenes.Box) -> float:
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    shared = max(width, 0) * max(height, 0)
    return shared / (a[2] * a[3] + b[2] * b[3] - shared)


def _write_tables(settings: Tabletop, work: Path) -> None:
    """Write the four JSON files of CLEVR-Change, and scenes.json, from the records of all scenes."""
    folder = work / "dataset"
    records = [json.loads(_record_path(work, number).read_text("utf-8")) for number in range(settings.scenes)]
    files = {"captions": "change_captions.json", "no_change_captions": "no_change_captions.json"}
    for key, name in files.items():
        captions = {Path(DEFAULT.format(record["number"])).name: record.pop(key) for record in records}
        write_json(folder / name, captions)
    by_type: dict[str, list[int]] = {kind: [] for kind in scene_sampling.CHANGE_TYPES}
    for record in records:
        by_type[record["change_type"]].append(record["number"])
    files_by_type = {kind: [f"{number:06d}.png" for number in numbers] for kind, numbers in by_type.items()}
    write_json(folder / "type_mapping.json", files_by_type)
    write_json(folder / "splits.json", split(by_type, settings.seed))
    one_look = isinstance(settings.look, str) and settings.look != "studio"
    look = {"look": settings.look} if one_look else {}
    write_json(folder / "scenes.json", look | {"scenes": records})


def split(types: dict[str, list[int]], seed: int) -> dict[str, list[int]]:
    """Split scenes 80/10/10 at random, with change types nearly equally frequent: split -> sorted numbers."""
    rng = np.random.default_rng([seed, 0, 1])  # unlike any scene's seed, which has two numbers
    groups = [list(rng.permutation(numbers)) for numbers in types.values()]
    rng.shuffle(groups)
    groups.sort(key=len, reverse=True)
    # take one scene of each type in turn: in any section of this order, the counts of two types then differ
    # by at most one
    order = [int(group[i]) for i in range(max(map(len, groups))) for group in groups if i < len(group)]
    ends = [0, *(round(len(order) * share) for share in accumulate(SPLITS.values()))]
    return {name: sorted(order[start:end]) for name, (start, end) in zip(SPLITS, pairwise(ends), strict=True)}
