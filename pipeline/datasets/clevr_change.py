"""Read CLEVR-Change (Park et al., 2019) in its authors' file layout, which tabletop uses too.

Each scene has three images and gives two pairs: (default, semantic change) and (default, distractor). Images
are found by name, not by position in a listing, so a missing file shifts no labels.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import Field

from pipeline.datasets import clevr_annotations
from pipeline.datasets.annotations import Captions
from pipeline.datasets.clevr_scenes import SceneRecord, read_scenes
from pipeline.datasets.schema import NO_CHANGE, SPLITS, Pair

FILES = ("splits.json", "change_captions.json", "no_change_captions.json", "type_mapping.json")
OPTIONAL = ("scenes.json",)  # boxes, overlaps and objects
REMEDY = "data/README.md lists the files of CLEVR-Change"
Captioned = dict[Annotated[str, Field(pattern=r"^CLEVR_default_[0-9]{1,9}\.png$")], Captions]
Types = dict[str, tuple[Annotated[str, Field(pattern=r"^[0-9]{1,9}\.png$")], ...]]
DEFAULT = "images/CLEVR_default_{:06d}.png"
SEMANTIC = "sc_images/CLEVR_semantic_{:06d}.png"
DISTRACTOR = "nsc_images/CLEVR_nonsemantic_{:06d}.png"


def read(root: Path) -> list[Pair]:
    """Return a changed and an unchanged pair of each scene in splits.json, by split and scene number."""
    splits = clevr_annotations.read_splits(root / "splits.json", REMEDY)
    change, _ = clevr_annotations.read_captions(root / "change_captions.json", REMEDY, Captioned)
    no_change, _ = clevr_annotations.read_captions(root / "no_change_captions.json", REMEDY, Captioned)
    types = clevr_annotations.read_types(root / "type_mapping.json", REMEDY, Types)
    scenes = read_scenes(root / "scenes.json")
    clevr_annotations.check_agreement(
        root, "splits.json", splits, dict(zip(FILES[1:], (change, no_change, types), strict=True))
    )
    pairs: list[Pair] = []
    for split in SPLITS:
        for number in splits[split]:
            scene = scenes.get(number) or SceneRecord(number=number)
            pairs += _pairs(split, change[number], no_change[number], types[number], scene)
    return pairs


def _pairs(
    split: str, change: tuple[str, ...], no_change: tuple[str, ...], kind: str, scene: SceneRecord
) -> Iterator[Pair]:
    number = scene.number
    pair = partial(Pair, scene_id=f"{number:06d}", split=split, before=DEFAULT.format(number))
    yield pair(
        pair_id=f"{number:06d}.png",
        after=SEMANTIC.format(number),
        captions=change,
        change_type=kind,
        before_box=scene.before_box,
        after_box=scene.after_box,
        viewpoint_iou=scene.semantic_iou,
        changed_object=scene.changed_object,
        scene=scene.facts(kind),
    )
    yield pair(
        pair_id=f"{number:06d}.png_n",
        after=DISTRACTOR.format(number),
        captions=no_change,
        change_type=NO_CHANGE,
        viewpoint_iou=scene.distractor_iou,
        scene=scene.facts(NO_CHANGE),
    )
