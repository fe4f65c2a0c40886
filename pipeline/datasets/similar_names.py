"""Find the file that a wrong name probably means, for the messages about missing files.

A person reads these names as right: another case (.PNG for .png), a backslash for a slash, %20 for a space,
spaces at the ends, another Unicode form, folders too many in front, or another ending.
"""

import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote


def similar(path: Path) -> Path | None:
    """Return the only file whose name differs from `path` as a person would overlook; None without one.

    Only the parts of the name below the deepest existing folder are compared.
    """
    try:
        folder = next((parent for parent in path.parents if parent.is_dir()), None)
        if folder is None:
            return None
        parts = path.relative_to(folder).as_posix().replace("\\", "/").split("/")
        named = [part for part in parts if part.strip() not in ("", ".")]
        for start in range(len(named)):  # without the first folders, such as "C:/Users/me"
            if found := _below(folder, named[start:]):
                return found
    except (OSError, ValueError):  # a folder without permission, a null byte
        return None
    return None


def hint(path: Path, root: Path | None = None) -> str:
    """Return " (NAME is there)" for the only similar file, relative to `root` if it is below, or ""."""
    if (found := similar(path)) is None:
        return ""
    name = found.relative_to(root) if root is not None and found.is_relative_to(root) else found
    return f" ({name.as_posix()} is there)"


def _below(folder: Path, parts: Sequence[str]) -> Path | None:
    """Return the file below `folder` whose parts are similar to `parts`."""
    for part in parts[:-1]:
        folders = [folder / name for name in _names(folder).get(_key(part), ()) if (folder / name).is_dir()]
        if len(folders) != 1:
            return None
        folder = folders[0]
    names = _names(folder)
    for found in (names.get(_key(parts[-1]), ()), names.get(_stem(parts[-1]), ())):
        files = [folder / name for name in found if (folder / name).is_file()]
        if len(files) == 1:
            return files[0]
    return None


def _names(folder: Path) -> dict[str | tuple[str], list[str]]:
    return _listed(folder, folder.stat().st_mtime_ns)


@lru_cache(maxsize=64)  # the messages of a dataset name thousands of files in few folders
def _listed(folder: Path, changed: int) -> dict[str | tuple[str], list[str]]:
    names: dict[str | tuple[str], list[str]] = {}
    for entry in folder.iterdir():
        for key in (_key(entry.name), _stem(entry.name)):
            names.setdefault(key, []).append(entry.name)
    return names


def _key(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", unquote(name)).casefold().split())


def _stem(name: str) -> tuple[str]:
    """Return the key of a name without its ending, as a tuple, so that it equals no key of a name."""
    key = _key(name)
    return (key.rpartition(".")[0] or key,)
