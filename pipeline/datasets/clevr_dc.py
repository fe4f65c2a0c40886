"""Read CLEVR-DC (Kim et al., 2021): one pair per scene, with a large change of viewpoint.

Two file layouts are read: the authors' own, and the layout that DIRL's scripts make from it. The authors'
files do not state the kind of change.
"""

from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from pipeline.datasets import clevr_annotations
from pipeline.datasets.annotations import Captions
from pipeline.datasets.schema import NO_CHANGE, SPLITS, Pair
from pipeline.io.errors import InputError

REMEDY = "data/README.md lists the files of CLEVR-DC"
TYPES_FILES = ("type_mapping.json", "type_mapping_dc.json")  # the second is the name in MEDIC's program
UNCHANGED = "no change"  # key of unchanged pairs in MEDIC's program
Name = Annotated[str, Field(pattern=r"^[0-9]{1,9}(\.png)?$")]


class Layout(NamedTuple):
    """A file layout: the names of its annotation files and of its two image folders."""

    captions: str
    splits: str
    before: str
    after: str


AUTHORS = Layout("captions.json", "split.json", "bef", "aft")
DIRL = Layout("change_captions.json", "splits.json", "images", "sc_images")
FILES = ()  # no file is in both layouts
OPTIONAL = (*AUTHORS[:2], *DIRL[:2], *TYPES_FILES)


def read(root: Path) -> list[Pair]:
    """Return the pairs of all scenes, sorted by split and scene number.

    In type_mapping.json or type_mapping_dc.json, "none" or "no change" lists unchanged pairs.
    Pair.change_type is None for a scene that the file does not list, or without a file.
    """
    layout = _layout(root)
    splits = clevr_annotations.read_splits(root / layout.splits, REMEDY)
    captions, keys = clevr_annotations.read_captions(root / layout.captions, REMEDY, dict[Name, Captions])
    clevr_annotations.check_agreement(root, layout.splits, splits, {layout.captions: captions})
    types = _types(root, captions)
    return [
        Pair(
            pair_id=f"{number:06d}.png",
            scene_id=f"{number:06d}",
            split=split,
            before=f"{layout.before}/{keys[number].removesuffix('.png')}.png",
            after=f"{layout.after}/{keys[number].removesuffix('.png')}.png",
            captions=captions[number],
            change_type=types.get(number),
        )
        for split in SPLITS
        for number in splits[split]
    ]


def _layout(root: Path) -> Layout:
    """Return the layout whose captions file exists or, if both do, whose folder of before images exists."""
    layouts = [layout for layout in (AUTHORS, DIRL) if (root / layout.captions).is_file()]
    if len(layouts) > 1:  # DIRL's script keeps the authors' captions file
        layouts = [layout for layout in layouts if (root / layout.before).is_dir()]
    if len(layouts) != 1:
        choices = f"{AUTHORS.captions} and {AUTHORS.before}/, or {DIRL.captions} and {DIRL.before}/"
        raise InputError(f"{root} must have {choices}, and not both; {REMEDY}")
    return layouts[0]


def _types(root: Path, captions: clevr_annotations.Sentences) -> dict[int, str]:
    existing = [root / name for name in TYPES_FILES if (root / name).exists()]
    if not existing:
        return {}
    if len(existing) > 1:
        raise InputError(f"{root} has {' and '.join(TYPES_FILES)}; leave one of them, {REMEDY}")
    path = existing[0]
    more = (NO_CHANGE, UNCHANGED)
    types = clevr_annotations.read_types(path, REMEDY, dict[str, tuple[Name, ...]], more)
    types = {number: NO_CHANGE if kind == UNCHANGED else kind for number, kind in types.items()}
    if unknown := sorted(set(types) - set(captions)):
        raise InputError(f"{path} names scene {unknown[0]}, which has no captions; {REMEDY}")
    return types
