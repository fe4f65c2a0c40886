"""Find the pairs to caption: rows of a table, or files with equal names in before/ and after/.

Nothing is skipped silently: a pair that cannot be captioned has a reason, and ignored files are counted.
"""

import os
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from pipeline.datasets.checking import files_below, is_picture, is_system_file
from pipeline.datasets.pairs_csv_rows import ENDINGS, NAMES, Row, find, read_rows
from pipeline.io.errors import InputError, printable

FOLDERS = ("before", "after")


@dataclass(frozen=True)
class Job:
    """A pair to caption. If it cannot be captioned, `fault` is the reason."""

    pair_id: str
    before: str  # name of the image in the table
    after: str
    root: Path  # the folder that these names are relative to
    fault: str | None = None


def jobs(place: Path) -> list[Job]:
    """Return the pairs to caption. `place` is a table (.csv, .jsonl) or a folder.

    The folder has a table, or the folders before/ and after/. Names in a table are relative to the table's
    folder. The number of ignored files is printed. Raises InputError if `place` has no pairs.
    """
    if place.is_dir() and not any((place / name).is_file() for name in NAMES):
        return _of_folders(place)
    table = find(place) if place.is_dir() else place
    if table.suffix.lower() not in ENDINGS:
        raise InputError(f"{table} is neither a .csv nor a .jsonl of pairs, nor a folder; name one of these")
    return [_of_row(row, table.parent) for row in read_rows(table)]


def _of_row(row: Row, root: Path) -> Job:
    before, after = (str(row.values.get(side, "")) for side in FOLDERS)
    fault = row.fault or ("no before" if not before else None if after else "no after")
    pair_id = str(row.values.get("pair_id", f"line {row.line}"))
    return Job(pair_id, before, after, root, fault and f"line {row.line}: {fault}")


def _of_folders(place: Path) -> list[Job]:
    if missing := [name for name in FOLDERS if not (place / name).is_dir()]:
        raise InputError(
            f"{place} has neither {' nor '.join(NAMES)}, nor a folder {missing[0]}/; put the images of a "
            "pair into before/ and after/, under the same name"
        )
    sides = [_pictures(place, side) for side in FOLDERS]
    names = sorted({name for side in sides for name in side})
    if not names:
        raise InputError(f"{place} has no images; put them into before/ and after/")
    return [_pair(place, name, *(side.get(name) for side in sides)) for name in names]


def _pictures(place: Path, side: str) -> dict[str, str]:
    """Return file name in Unicode's form NFC -> name on the disk, for the images in the folder `side`."""
    names = list(files_below(place / side))
    found = [name for name in names if not is_system_file(name) and is_picture(place / side / name)]
    if others := sorted({*names} - {*found}):
        print(printable(f"left out: {len(others):,} files that are no images, such as {side}/{others[0]}"))
    # macOS writes an accented letter as two characters, other systems as one
    return {unicodedata.normalize("NFC", name): name for name in found}


def _pair(place: Path, name: str, before: str | None, after: str | None) -> Job:
    shown, first, second = (_as_text(each or name) for each in (name, before, after))
    fault = None
    if shown != name:
        fault = f"the name {shown} is not UTF-8 text; rename the file"
    elif before is None or after is None:
        fault = f"{'after' if before else 'before'}/{name} is missing; give both files of a pair one name"
    return Job(shown, f"before/{first}", f"after/{second}", place, fault)


def _as_text(name: str) -> str:
    """Return a file name as text; bytes that are not UTF-8 become \\xNN."""
    return os.fsencode(name).decode(errors="backslashreplace")
