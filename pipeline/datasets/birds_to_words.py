"""Birds-to-Words (Forbes et al., 2019): paragraphs on how two photographed birds differ.

The published table has web addresses; users download the images. The file of an image is images/<photo>.jpg.
<photo> is the number after /photos/ in the image's address, or else in the observation's address. If
images.json exists, it gives the file of every image instead: {address of the image: file}.
"""

import re
import reprlib
from pathlib import Path, PurePosixPath

from pipeline.datasets.annotations import ImageName, check_splits, scenes_by_images
from pipeline.datasets.schema import SPLITS, Pair
from pipeline.io.errors import InputError, listed
from pipeline.io.inputs import read_text
from pipeline.io.records import read_foreign

TABLE = "birds-to-words-v1.0.tsv"
IMAGES = "images.json"
FILES = (TABLE,)
OPTIONAL = (IMAGES,)
REMEDY = "data/README.md lists the files of Birds-to-Words"
SIDE = ("ObservationURL", "ImgURL", "Species", "Selection")
COLUMNS = (*(f"img{side}{name}" for side in "12" for name in SIDE), "split", "annN", "description")


def read(root: Path) -> list[Pair]:
    """Return the pairs of TABLE; rows with the same two images in the same order are captions of one pair."""
    path = root / TABLE
    files = read_foreign(root / IMAGES, dict[str, ImageName], REMEDY) if (root / IMAGES).exists() else None
    captioned_pairs: dict[tuple[str, str], tuple[str, list[str]]] = {}  # (before, after) -> split, captions
    problems = []
    for number, row in enumerate(_rows(path), 2):
        before, after = (_image_file(row, side, files) for side in ("img1", "img2"))
        if before is None or after is None:
            url = reprlib.repr(row["img1ImgURL" if before is None else "img2ImgURL"])
            problems.append(f"line {number}: no file is known for {url}; name it in {IMAGES}")
            continue
        split, captions = captioned_pairs.setdefault((before, after), (row["split"], []))
        if row["split"] not in SPLITS:
            split_text = reprlib.repr(row["split"])
            problems.append(f"line {number}: the split is {split_text}, not train, val or test")
        elif row["split"] != split:
            problems.append(f"line {number}: the pair is in {split} and in {row['split']}")
        elif text := caption(row["description"]):
            captions.append(text)
    if problems:
        raise listed(problems, str(path), REMEDY)
    pairs = _pairs(path, captioned_pairs)
    check_splits(path, pairs)
    return scenes_by_images(pairs)


def caption(description: str) -> str:
    return re.sub(r"\banimal\s+([12])\b", r"animal\1", " ".join(description.lower().split()))


def _rows(path: Path) -> list[dict[str, str]]:
    """Return a dictionary, column -> field, for each line; csv would join lines at a quotation mark."""
    head, *lines = read_text(path, REMEDY).removesuffix("\n").split("\n")
    if tuple(head.split("\t")) != COLUMNS:
        raise InputError(f"{path}: its first line must name the columns {', '.join(COLUMNS)}; {REMEDY}")
    rows = [[_unquoted(field) for field in line.split("\t")] for line in lines]
    problems = [
        f"line {number} has {len(row)} fields, not {len(COLUMNS)}"
        for number, row in enumerate(rows, 2)
        if len(row) != len(COLUMNS)
    ]
    if problems:
        raise listed(problems, str(path), REMEDY)
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


def _unquoted(field: str) -> str:
    """Return a field without the quotation marks that csv writers add."""
    inside = field[1:-1]
    is_quoted = len(field) > 1 and field[0] == field[-1] == '"' and '"' not in inside.replace('""', "")
    return inside.replace('""', '"') if is_quoted else field


def _image_file(row: dict[str, str], side: str, files: dict[str, str] | None) -> str | None:
    """Return the file of the image `side` ("img1" or "img2") of a row; None if it is unknown.

    `files`: web address -> file, from images.json. None: the web addresses give the file's name.
    """
    url = row[f"{side}ImgURL"]
    if files is not None:
        return files.get(url)
    for address in (url, row[f"{side}ObservationURL"]):
        if match := re.search(r"/photos/([0-9]{1,18})(?![^/?#])", address):
            return f"images/{match[1]}.jpg"
    return None


def _pairs(path: Path, captioned_pairs: dict[tuple[str, str], tuple[str, list[str]]]) -> list[Pair]:
    pairs: dict[str, Pair] = {}
    for (before, after), (split, captions) in captioned_pairs.items():
        pair_id = f"{PurePosixPath(before).stem}_{PurePosixPath(after).stem}"
        if not captions:
            raise InputError(f"{path}: the pair {pair_id} has no caption; leave its rows out")
        if pair_id in pairs:
            raise InputError(f"{path}: two pairs are called {pair_id}; rename the files in {IMAGES}")
        pairs[pair_id] = Pair(pair_id, pair_id, split, before, after, tuple(captions))
    return list(pairs.values())
