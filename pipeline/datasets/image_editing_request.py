"""Image Editing Request (Tan et al., 2019): a picture, an edited one, and the request that it answers.

Some pictures stand in several entries, a few even in several splits: the files are taken as they are.
"""

from pathlib import Path
from typing import Any

from pipeline.datasets.annotations import captions_fault, image_fault, read_entries, shown, written
from pipeline.datasets.grouping import by_images
from pipeline.datasets.schema import Pair
from pipeline.errors import listed

SPLIT_FILES = {"train": "train.json", "val": "valid.json", "test": "test.json"}
FILES = tuple(SPLIT_FILES.values())
OPTIONAL = ()
REMEDY = "data/README.md lists the files of Image Editing Request"


def read(root: Path) -> list[Pair]:
    """One pair an entry, named by its uid, in the files' order.

    Raises InputError naming the file and the entry.
    """
    pairs: list[Pair] = []
    seen: dict[str, str] = {}  # uid -> file
    for split, file in SPLIT_FILES.items():
        problems = []
        for number, entry in enumerate(read_entries(root / file, REMEDY, ("img0", "img1", "sents", "uid"))):
            if fault := _fault(entry, seen):
                problems.append(f"entry {number}: {fault}")
            else:
                seen[entry["uid"]] = file
                pairs.append(_pair(entry, split))
        if problems:
            raise listed(problems, str(root / file), REMEDY)
    return by_images(pairs)


def _fault(entry: dict[str, Any], seen: dict[str, str]) -> str | None:
    uid = entry["uid"]
    if not isinstance(uid, str) or not uid.strip():
        return f"uid {shown(uid)} is not a name"
    if uid in seen:
        return f"uid {uid} stands in {seen[uid]} already"
    for key in ("img0", "img1"):
        if fault := image_fault(entry[key]):
            return f"{key} {fault}"
    fault = captions_fault(entry["sents"])
    return fault and f"uid {uid}: {fault}"


def _pair(entry: dict[str, Any], split: str) -> Pair:
    return Pair(
        pair_id=entry["uid"],
        scene_id=entry["uid"],
        split=split,
        before=f"images/{entry['img0']}",
        after=f"images/{entry['img1']}",
        captions=written(entry["sents"]),
    )
