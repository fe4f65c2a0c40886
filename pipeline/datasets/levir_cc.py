"""LEVIR-CC (Liu et al., 2022): aerial images of the same places, years apart.

What kind of change a pair shows is not named, only whether there is one.
"""

from pathlib import Path
from typing import Any

from pipeline.datasets.annotations import (
    captions_fault,
    check_entries,
    check_splits,
    image_fault,
    read_table,
    shown,
    written,
)
from pipeline.datasets.schema import CHANGE, NO_CHANGE, SPLITS, Pair
from pipeline.errors import listed

CAPTIONS = "LevirCCcaptions.json"
FILES = (CAPTIONS,)
OPTIONAL = ()
REMEDY = "data/README.md lists the files of LEVIR-CC"
KEYS = ("filename", "split", "changeflag", "sentences")


def read(root: Path) -> list[Pair]:
    """One pair an image name, in the file's order. Raises InputError naming the file and the entry."""
    path = root / CAPTIONS
    table = read_table(path, REMEDY, '"images" to a list of objects')
    pairs: dict[str, Pair] = {}
    problems = []
    for number, entry in enumerate(check_entries(f"{path}: 'images'", table.get("images"), REMEDY, KEYS)):
        sentences = _sentences(entry["sentences"])
        if fault := _fault(entry, sentences):
            problems.append(f"entry {number}: {fault}")
        elif entry["filename"] in pairs:
            problems.append(f"entry {number}: {entry['filename']} stands there twice")
        else:
            pairs[entry["filename"]] = _pair(entry, sentences)
    if problems:
        raise listed(problems, str(path), REMEDY)
    check_splits(path, pairs.values())
    return list(pairs.values())


def _fault(entry: dict[str, Any], sentences: Any) -> str | None:
    if fault := image_fault(entry["filename"]):
        return f"filename {fault}"
    if entry["split"] not in SPLITS:
        return f"{entry['filename']}: split is {shown(entry['split'])}, not train, val or test"
    if type(entry["changeflag"]) is not int or entry["changeflag"] not in (0, 1):
        return f"{entry['filename']}: changeflag is {shown(entry['changeflag'])}, not 0 or 1"
    fault = captions_fault(sentences)
    return fault and f"{entry['filename']}: {fault}"


def _sentences(value: Any) -> Any:
    """The raw text of each sentence; what is of another form stays as it is, for the error."""
    if not isinstance(value, list) or not all(isinstance(each, dict) and "raw" in each for each in value):
        return value
    return [each["raw"] for each in value]


def _pair(entry: dict[str, Any], sentences: list[str]) -> Pair:
    name, split = entry["filename"], entry["split"]
    return Pair(
        pair_id=name,
        scene_id=name,
        split=split,
        before=f"images/{split}/A/{name}",
        after=f"images/{split}/B/{name}",
        captions=written(sentences),
        change_type=CHANGE if entry["changeflag"] else NO_CHANGE,
    )
