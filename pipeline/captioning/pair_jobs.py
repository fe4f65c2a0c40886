"""Find the pairs to caption: rows of a table, or files with equal names in before/ and after/.

Nothing is skipped silently: a pair that cannot be captioned gets a fault, and ignored files are counted.
"""

import os
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath

from pipeline.datasets.checking import files_below, is_picture, is_systems
from pipeline.datasets.pairs_csv_rows import ENDINGS, NAMES, Row, find, read_rows
from pipeline.io.errors import InputError, printable

FOLDERS = ("before", "after")
SHOWN = 6  # files that an error names


@dataclass(frozen=True)
class Job:
    """A pair to caption. If it cannot be captioned, `fault` is the reason."""

    pair_id: str
    before: str  # name of the image in the table
    after: str
    root: Path  # the folder that these names are relative to
    fault: str | None = None


def jobs(place: Path, say: Callable[[str], None] = print) -> list[Job]:
    """Return the pairs to caption. `place` is a table (.csv, .jsonl) or a folder.

    The folder has a table, or the folders before/ and after/. Names in a table are relative to the table's
    folder. `say` is called with messages about ignored files. Raises InputError if `place` has no pairs.
    """
    if place.is_dir() and not any((place / name).is_file() for name in NAMES):
        return _of_folders(place, say)
    table = find(place) if place.is_dir() else place
    if table.suffix.lower() not in ENDINGS:
        raise InputError(f"{table} is neither a .csv nor a .jsonl of pairs, nor a folder; name one of these")
    return [_job(row, table.parent) for row in read_rows(table)]


def _job(row: Row, root: Path) -> Job:
    names = {side: str(row.values.get(side, "")) for side in FOLDERS}
    lacking = [side for side in FOLDERS if not names[side]]
    fault = row.fault or (f"no {lacking[0]}" if lacking else None)
    pair_id = str(row.values.get("pair_id", f"line {row.line}"))
    return Job(pair_id, names["before"], names["after"], root, fault and f"line {row.line}: {fault}")


def _of_folders(place: Path, say: Callable[[str], None]) -> list[Job]:
    if missing := [name for name in FOLDERS if not (place / name).is_dir()]:
        raise InputError(
            f"{place} has neither {' nor '.join(NAMES)}, nor a folder {missing[0]}/; put the images of a "
            "pair into before/ and after/, under the same name"
        )
    sides = [_pictures(place, side, say) for side in FOLDERS]
    if not any(sides):
        raise InputError(f"{place} has no images; put them into before/ and after/")
    return sorted(_matched(place, *sides), key=lambda job: job.pair_id)


def _pictures(place: Path, side: str, say: Callable[[str], None]) -> list[str]:
    """Return the names of the images in the folder `side` of `place`. Report other files with `say`."""
    found: list[str] = []
    others: dict[str, list[str]] = {}
    for name in files_below(place / side):
        if is_systems(name):
            others.setdefault("hidden files, of a system", []).append(name)
        elif not is_picture(place / side / name):
            others.setdefault("files that are no pictures", []).append(name)
        else:
            found.append(name)
    for kind, names in others.items():
        say(printable(f"left out: {len(names):,} {kind}, such as {side}/{names[0]}"))
    return found


def _matched(place: Path, before: list[str], after: list[str]) -> Iterator[Job]:
    """Pair names that are equal, then names that Unicode normalisation makes equal, then similar names.

    Names are similar if they differ only in extension or letter case. Their pair gets a fault, and so does a
    name without a partner.
    """
    for key in (str, _composed, _folded):
        firsts, seconds = _by(before, key), _by(after, key)
        fault = "the names differ; give both files one name" if key is _folded else None
        for shared in firsts.keys() & seconds.keys():
            own, other = firsts[shared], seconds[shared]
            if len(own) == len(other) == 1:
                yield _pair(place, own[0] if fault else shared, own[0], other[0], fault)
            elif fault:
                yield _pair(place, own[0], own[0], other[0], _several(own, other))
            else:
                continue
            del firsts[shared], seconds[shared]
        before, after = (list(chain(*names.values())) for names in (firsts, seconds))
    for name in before:
        yield _pair(place, name, name, name, f"after/{_text(name)} is missing")
    for name in after:
        yield _pair(place, name, name, name, f"before/{_text(name)} is missing")


def _by(names: list[str], key: Callable[[str], str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(key(name), []).append(name)
    return found


def _several(before: list[str], after: list[str]) -> str:
    """Return a message about files whose partner is not clear, because several names are similar."""
    found = [
        f"{side}/{_text(name)}"
        for side, names in zip(FOLDERS, (before, after), strict=True)
        for name in names
    ]
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return f"{', '.join(found[:SHOWN])}{more} may be its pictures; keep one of each side, under one name"


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _folded(name: str) -> str:
    return str(PurePosixPath(_composed(name)).with_suffix("")).casefold()


def _pair(place: Path, name: str, before: str, after: str, fault: str | None) -> Job:
    if (shown := _text(name)) != name:
        fault = f"the name {shown} is not UTF-8 text; rename the file"
    return Job(shown, _text(f"before/{before}"), _text(f"after/{after}"), place, fault)


def _text(name: str) -> str:
    """Return a name as text; bytes that are not UTF-8 become \\xNN."""
    return os.fsencode(name).decode(errors="backslashreplace")
