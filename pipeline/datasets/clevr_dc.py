"""CLEVR-DC (Kim et al., 2021): one pair a scene, seen from drastically different viewpoints.

Two layouts are about: the authors' own, and the one that DIRL's scripts rename it to (names of six digits).
The authors' files do not say what kind of change a scene shows, and its number does not either.
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
    """Where one layout has its files; images are named by the key of their captions."""

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
    """The pair of every scene, in the order train, val, test, by number; ids are "000000.png" and so on.

    Types are those of type_mapping.json where there is one (CLEVR-Change's form, and "none" for scenes
    without a change; scenes that it leaves out are of unknown kind), else unknown.
    Raises InputError naming the file and the first scenes that do not fit together.
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
    """The layout whose captions are there; of both (DIRL's script leaves the old file), whose images are.

    Raises InputError where neither or both are there.
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
