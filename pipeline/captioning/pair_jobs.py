"""Find the pairs to caption: rows of a table, or files with equal names in before/ and after/.

Nothing is skipped silently: a pair that cannot be captioned has a reason, and ignored files are counted. A
pair of a table has the same id and the same file names as in a dataset of this table (pairs_csv.py).
"""

import os
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from pipeline.datasets.annotations import normalised
from pipeline.datasets.checking import files_below, is_image, is_system_file, on_disk
from pipeline.datasets.pairs_csv_rows import ENDINGS, NAMES, PairsRow, default_pair_id, find, read_rows
from pipeline.io.errors import MOST_LISTED, InputError, printable

FOLDERS = ("before", "after")
REMEDY = "give each pair its own pair_id, or leave out the column"


@dataclass(frozen=True)
class Job:
    """A pair to caption. If it cannot be captioned, `fault` is the reason."""

    pair_id: str
    before: str  # name of the image file
    after: str
    root: Path  # the folder that these names are relative to
    fault: str | None = None

    @property
    def files(self) -> tuple[Path, Path]:
        return self.root / self.before, self.root / self.after


def jobs(path: Path) -> list[Job]:
    """Return the pairs in a table (.csv, .jsonl), in a folder with a table, or with before/ and after/.

    Names in a table are relative to its folder. The number of ignored files is printed.
    """
    if path.is_dir() and not any((path / name).is_file() for name in NAMES):
        return _of_folders(path)
    table = find(path) if path.is_dir() else path
    if table.suffix.lower() not in ENDINGS:
        raise InputError(f"{table} is neither a .csv nor a .jsonl of pairs, nor a folder; name one of these")
    return _of_table(table)


def _of_table(table: Path) -> list[Job]:
    """Return one job for each pair of a table. Further rows of the same pair only have further captions."""
    lines: dict[Job, int] = {}  # job -> its first line
    for row in read_rows(table):
        lines.setdefault(_of_row(row, table.parent), row.line)
    lines_of: dict[str, list[int]] = {}  # pair_id -> lines of different pairs
    for job, line in lines.items():
        lines_of.setdefault(job.pair_id, []).append(line)
    for pair_id, repeated in lines_of.items():
        if len(repeated) > 1:
            named = ", ".join(map(str, repeated[:MOST_LISTED]))
            raise InputError(
                f"{table}, lines {named}: the pair_id {pair_id!r} is that of {len(repeated)} pairs; {REMEDY}"
            )
    return list(lines)


def _of_row(row: PairsRow, root: Path) -> Job:
    before, after = (_file_name(root, str(row.values.get(side, ""))) for side in FOLDERS)
    fault = row.fault or ("no before" if not before else None if after else "no after")
    default = f"line {row.line}" if fault else default_pair_id(before, after)
    pair_id = str(row.values.get("pair_id", default))
    return Job(pair_id, before, after, root, fault and f"line {row.line}: {fault}")


def _file_name(root: Path, name: str) -> str:
    """Return an image's name as in a dataset, or unchanged if it leads out of the table's folder."""
    try:
        return on_disk(root, normalised(name))
    except ValueError:
        return name


def _of_folders(folder: Path) -> list[Job]:
    if missing := [name for name in FOLDERS if not (folder / name).is_dir()]:
        raise InputError(
            f"{folder} has neither {' nor '.join(NAMES)}, nor a folder {missing[0]}/; put the images of a "
            "pair into before/ and after/, under the same name"
        )
    sides = [_images(folder, side) for side in FOLDERS]
    names = sorted({name for side in sides for name in side})
    if not names:
        raise InputError(f"{folder} has no images; put them into before/ and after/")
    return [_pair(folder, name, *(side.get(name) for side in sides)) for name in names]


def _images(folder: Path, side: str) -> dict[str, str]:
    """Return the names of the images in the folder `side` as a dictionary.

    A key is the name in the Unicode form NFC. Its value is the name on the disk.
    """
    names = list(files_below(folder / side))
    images = [name for name in names if not is_system_file(name) and is_image(folder / side / name)]
    if others := sorted({*names} - {*images}):
        print(printable(f"left out: {len(others):,} files that are no images, such as {side}/{others[0]}"))
    # macOS writes an accented letter as two characters, other systems as one
    return {unicodedata.normalize("NFC", name): name for name in images}


def _pair(folder: Path, name: str, before: str | None, after: str | None) -> Job:
    text, first, second = (_as_text(side_name or name) for side_name in (name, before, after))
    fault = None
    if text != name:
        fault = f"the name {text} is not UTF-8 text; rename the file"
    elif before is None or after is None:
        fault = f"{'after' if before else 'before'}/{name} is missing; give both files of a pair one name"
    return Job(text, f"before/{first}", f"after/{second}", folder, fault)


def _as_text(name: str) -> str:
    return os.fsencode(name).decode(errors="backslashreplace")
