"""Birds-to-Words (Forbes et al., 2019): how two photographed birds differ, in paragraphs.

The dataset is a table of addresses; the pictures must be brought by whoever uses it. A picture is
looked for at images/<photo>.jpg, where <photo> is the number after /photos/ in its address, or in that of
its observation: what the scripts in use save it as (its content may be of any format). Or images.json
says otherwise: {address of the image: file}, for every image.
"""

import re
from pathlib import Path, PurePosixPath

from pipeline.datasets.annotations import ImageName, check_splits, scenes_by_images, shown
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
COLUMNS = (
    *(f"img1{name}" for name in SIDE),
    *(f"img2{name}" for name in SIDE),
    "split",
    "annN",
    "description",
)


def read(root: Path) -> list[Pair]:
    """One pair for each two pictures, with the descriptions of all its rows, in the table's order.

    Raises InputError naming the file and the line.
    """
    path = root / TABLE
    table = root / IMAGES
    files = read_foreign(table, dict[str, ImageName], REMEDY) if table.exists() else None
    merged: dict[tuple[str, str], tuple[str, list[str]]] = {}  # the two images -> split, captions
    problems = []
    for number, row in _rows(path):
        before, after = (_image(row, side, files) for side in ("img1", "img2"))
        if before is None or after is None:
            problems.append(f"line {number}: {_no_file(row, (before, after), files)}")
            continue
        split, captions = merged.setdefault((before, after), (row["split"], []))
        if row["split"] not in SPLITS:
            problems.append(f"line {number}: the split is {shown(row['split'])}, not train, val or test")
        elif row["split"] != split:
            problems.append(f"line {number}: the pair stands in {split} and in {row['split']}")
        elif text := caption(row["description"]):
            captions.append(text)
    if problems:
        raise listed(problems, str(path), REMEDY)
    pairs = _pairs(path, merged)
    check_splits(path, pairs)
    return scenes_by_images(pairs)


def caption(description: str) -> str:
    """A description as the processed dataset has it: lower case, "animal 1" one word, punctuation kept."""
    return re.sub(r"\banimal\s+([12])\b", r"animal\1", " ".join(description.lower().split()))


def _rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    """The number of each line, and its fields by column.

    A row is a line and a tab always parts two fields, as in the published file: csv's own rule would take
    a description that begins with a quotation mark to run on over the next lines.
    """
    lines = read_text(path, REMEDY).removesuffix("\n").split("\n")
    if tuple(lines[0].split("\t")) != COLUMNS:
        raise InputError(f"{path}: its first line must name the columns {', '.join(COLUMNS)}; {REMEDY}")
    rows, problems = [], []
    for number, line in enumerate(lines[1:], 2):
        fields = [_unquoted(field) for field in line.split("\t")]
        if len(fields) != len(COLUMNS):
            problems.append(f"line {number} has {len(fields)} fields, not {len(COLUMNS)}")
        else:
            rows.append((number, dict(zip(COLUMNS, fields, strict=True))))
    if problems:
        raise listed(problems, str(path), REMEDY)
    return rows


def _unquoted(field: str) -> str:
    """A field without the quotation marks that csv writers put round one that holds some."""
    inside = field[1:-1]
    quoted = len(field) > 1 and field[0] == field[-1] == '"' and '"' not in inside.replace('""', "")
    return inside.replace('""', '"') if quoted else field


def _image(row: dict[str, str], side: str, files: dict[str, str] | None) -> str | None:
    """The file of a row's image; None where there is no rule for its address."""
    url = row[f"{side}ImgURL"]
    if files is not None:
        return files.get(url)
    for address in (url, row[f"{side}ObservationURL"]):
        if found := re.search(r"/photos/([0-9]{1,18})(?![^/?#])", address):
            return f"images/{found[1]}.jpg"
    return None


def _no_file(row: dict[str, str], images: tuple[str | None, ...], files: dict[str, str] | None) -> str:
    url = row["img1ImgURL" if images[0] is None else "img2ImgURL"]
    reason = (
        f"{IMAGES} does not name it" if files is not None else f"it has no /photos/NUMBER: write {IMAGES}"
    )
    return f"no file is known for {shown(url)}; {reason}"


def _pairs(path: Path, merged: dict[tuple[str, str], tuple[str, list[str]]]) -> list[Pair]:
    pairs: dict[str, Pair] = {}
    for (before, after), (split, captions) in merged.items():
        pair_id = f"{PurePosixPath(before).stem}_{PurePosixPath(after).stem}"
        if not captions:
            raise InputError(f"{path}: the pair {pair_id} has no caption; leave its rows out")
        if pair_id in pairs:
            raise InputError(
                f"{path}: two pairs are called {pair_id}; give the files in {IMAGES} other names"
            )
        pairs[pair_id] = Pair(pair_id, pair_id, split, before, after, tuple(captions))
    return list(pairs.values())
