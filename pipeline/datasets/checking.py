"""Checks of a dataset's folder: missing images, and changes since the dataset was prepared."""

import os
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from PIL import Image

from pipeline.datasets import similar_names
from pipeline.datasets.images import FORMATS, UNSUPPORTED, Indexed
from pipeline.io.content_hashes import sha256
from pipeline.io.errors import InputError
from pipeline.io.inputs import opened

# extensions of the formats that are read, and of formats that users expect to work
EXTENSIONS = (
    ".png .apng .jpg .jpeg .jpe .jfif .jif .gif .bmp .dib .webp .tif .tiff .ppm .pgm .pbm .pnm "
    ".heic .heif .avif .jxl .jp2"
)
IMAGES = frozenset(EXTENSIONS.split(" "))
# files and folders that operating systems and NAS devices write, in lower case
SYSTEMS = frozenset(("thumbs.db", "ehthumbs.db", "desktop.ini", "__macosx", "@eadir"))
MISSING = "missing"


def missing(root: Path, names: Iterable[str]) -> list[str]:
    """Return a message for each image that is missing (with a similar name), empty or no regular file."""
    faults = ((name, _fault(root / name)) for name in names)
    return [
        f"{name}: {fault}{similar_names.hint(root / name, root) if fault == MISSING else ''}"
        for name, fault in faults
        if fault
    ]


def on_disk(root: Path, name: str) -> str:
    """Return `name` in the Unicode form (NFC or NFD) in which the file exists; unchanged if none exists."""
    if name.isascii() or not _fault(root / name):
        return name
    forms = (unicodedata.normalize(form, name) for form in ("NFC", "NFD"))
    return next((form for form in forms if not _fault(root / form)), name)


def first_alike(root: Path, names: Iterable[str]) -> dict[str, str]:
    """Return name -> first name whose file has the same content; missing and empty files are never alike."""
    sizes: dict[int, list[str]] = {}
    first_names = {name: name for name in names}
    for name in first_names:
        if not _fault(root / name):
            sizes.setdefault((root / name).stat().st_size, []).append(name)
    for same_size in sizes.values():
        first_of_hash: dict[str, str] = {}
        for name in same_size if len(same_size) > 1 else ():
            first_names[name] = first_of_hash.setdefault(sha256(root / name), name)
    return first_names


def _fault(path: Path) -> str | None:
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        is_missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        return MISSING if is_missing else f"cannot be read ({getattr(error, 'strerror', error)})"
    if not stat.S_ISREG(status.st_mode):
        return "not a file"
    return None if status.st_size else "empty (0 bytes)"


def is_system_file(name: str) -> bool:
    return any(part.startswith(".") or part.casefold() in SYSTEMS for part in name.split("/"))


def is_image(path: Path) -> bool:
    """Return True if a file is an image by its extension or by its content."""
    if path.suffix.lower() in IMAGES:
        return True
    with suppress(Exception), opened(path) as file:  # Pillow raises any exception if the file is no image
        if file.read(12)[4:] in UNSUPPORTED:
            return True
        file.seek(0)
        Image.open(file, formats=FORMATS)
        return True
    return False


def files_below(root: Path) -> Iterator[str]:
    """Yield the relative paths of all files below `root`, also through links."""

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename} cannot be read ({error.strerror}); correct that")

    for folder, folders, files in os.walk(root, onerror=refuse, followlinks=True):
        folders.sort()
        yield from (Path(folder, name).relative_to(root).as_posix() for name in sorted(files))


def changed(root: Path, recorded: Iterable[Indexed]) -> Iterator[str]:
    """Yield a message for each image file that differs from its index entry in `recorded`."""
    for record in recorded:
        path = root / record.name
        try:
            is_same = path.stat().st_size == record.bytes and sha256(path) == record.sha256
        except OSError as error:
            yield f"{record.name}: cannot be read ({error.strerror})"
            continue
        if not is_same:
            yield f"{record.name}: other content"


def hashes(root: Path, files: Iterable[Path]) -> dict[str, str]:
    return {file.relative_to(root).as_posix(): sha256(file) for file in files}


def differences(items: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return messages about the new, missing and changed `items` (such as "images") in `new`."""
    kinds = {
        "new": [name for name in new if name not in old],
        "gone": [name for name in old if name not in new],
        "changed": [name for name in new if name in old and new[name] != old[name]],
    }
    return [
        f"{items} that are {kind}: {len(names):,}, such as {', '.join(names[:3])}"
        for kind, names in kinds.items()
        if names
    ]
