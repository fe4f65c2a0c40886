"""CLEVR-DC (Kim et al., 2021): one pair per scene, from drastically different viewpoints.

There are two layouts: the authors' own, and the one that DIRL's scripts rename it to (names of six digits).
The authors' files do not state the kind of change, and the scene number does not imply it.
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
    """The files and folders of a layout; an image has the name of its caption's key."""

    captions: str
    splits: str
    before: str
    after: str


AUTHORS = Layout("captions.json", "split.json", "bef", "aft")
DIRL = Layout("change_captions.json", "splits.json", "images", "sc_images")
LAYOUTS = (AUTHORS, DIRL)
FILES = ()  # of either layout
OPTIONAL = (*(name for own in LAYOUTS for name in (own.captions, own.splits)), TYPES_FILE)


def read(root: Path) -> list[Pair]:
    """Return the pair of every scene, in the order train, val, test, by number; ids like "000000.png".

    Types come from type_mapping.json (CLEVR-Change's form, plus "none" for scenes without a change). Without
    that file, and for scenes that it leaves out, the type is unknown.
    Raises InputError naming the file and the first scenes that do not agree.
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
    """Return the layout of a folder, by its captions file.

    If both captions files exist (DIRL's script keeps the authors'), it is the layout whose folder of before
    images exists. Raises InputError if this leaves none or both.
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
