"""Read CLEVR-DC (Kim et al., 2021): one pair per scene, with a large change of viewpoint.

Two file layouts are read: the authors' own, and the layout that DIRL's scripts make from it, with names of
six digits. The authors' files do not state the kind of change, and the scene number does not imply it.
"""

from dataclasses import dataclass
from pathlib import Path

from pipeline.datasets import clevr_annotations
from pipeline.datasets.schema import NO_CHANGE, SPLITS, Pair
from pipeline.io.errors import InputError

REMEDY = "data/README.md lists the files of CLEVR-DC"
TYPES_FILE = "type_mapping.json"
KEY = r"(\d+)(?:\.png)?"


@dataclass(frozen=True)
class Layout:
    """A file layout: the names of its annotation files and of its two image folders."""

    captions: str
    splits: str
    before: str
    after: str


AUTHORS = Layout("captions.json", "split.json", "bef", "aft")
DIRL = Layout("change_captions.json", "splits.json", "images", "sc_images")
LAYOUTS = (AUTHORS, DIRL)
FILES = ()  # no file is in both layouts
OPTIONAL = (*(name for own in LAYOUTS for name in (own.captions, own.splits)), TYPES_FILE)


def read(root: Path) -> list[Pair]:
    """Return the pairs of all scenes, with ids like "000000.png". The order of splits is train, val, test.

    Within a split, the pairs are sorted by scene number. The kinds of change come from type_mapping.json,
    which has the form of CLEVR-Change's file, and optionally a key "none" for scenes without a change. If
    the file or a scene in it is missing, the kind is unknown. Raises InputError naming the file, and the
    first scenes that are not in all files.
    """
    layout = layout_of(root)
    splits = clevr_annotations.read_splits(root / layout.splits, REMEDY)
    captions, keys = clevr_annotations.read_captions(root / layout.captions, REMEDY, KEY, "0 or 000000.png")
    clevr_annotations.check_agreement(root, layout.splits, splits, {layout.captions: captions})
    types = _types(root / TYPES_FILE, captions)
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


def layout_of(root: Path) -> Layout:
    """Return the layout of the files in `root`. The name of the captions file decides.

    DIRL's script keeps the authors' captions file. So if both captions files exist, the name of the folder
    of before images decides. Raises InputError if no layout or both layouts fit.
    """
    found = [layout for layout in LAYOUTS if (root / layout.captions).is_file()]
    if len(found) > 1:
        found = [layout for layout in LAYOUTS if (root / layout.before).is_dir()]
    if len(found) == 1:
        return found[0]
    ways = " or ".join(
        f"{own.captions}, {own.splits}, {own.before}/ and {own.after}/ (the layout of {who})"
        for own, who in ((AUTHORS, "its authors"), (DIRL, "DIRL"))
    )
    raise InputError(f"{root} must hold {ways}, and not both; {REMEDY}")


def _types(path: Path, captions: clevr_annotations.Sentences) -> dict[int, str]:
    if not path.exists():
        return {}
    found = clevr_annotations.read_types(path, REMEDY, KEY, more=(NO_CHANGE,))
    if unknown := sorted(set(found) - set(captions)):
        raise InputError(f"{path} names scene {unknown[0]}, which has no captions; {REMEDY}")
    return found
