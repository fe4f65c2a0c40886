"""Reading JSON with clear errors; writing so that an output is whole or absent.

DVC may link outputs read-only into its cache, so nothing is ever changed in place: it is
written beside its name and renamed.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.errors import InputError


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a path beside `path` to write a file or folder to; rename it when the block ends well."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield beside
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        beside.replace(path)
    finally:
        remove(beside)


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a whole text file, UTF-8, or nothing."""
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    """Write `value` with sorted keys, so that equal values are equal bytes."""
    write_text(path, json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")


def write_json_lines(path: str | Path, values: Iterable[Any]) -> None:
    """Write one JSON value a line, keys in the order that the values have."""
    with replacing(path) as beside, beside.open("w", encoding="utf-8") as file:
        for value in values:
            file.write(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")


@contextmanager
def _named(path: str | Path, remedy: str) -> Iterator[None]:
    """What can be wrong with a text file, as an InputError with `remedy`."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path} is missing; {remedy}") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder, not a file; {remedy}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start}); {remedy}") from None


def read_text(path: str | Path, remedy: str) -> str:
    """A UTF-8 file's text; InputError with `remedy` where it is missing or not UTF-8."""
    with _named(path, remedy):
        return Path(path).read_text(encoding="utf-8")


def read_lines(path: str | Path, remedy: str) -> Iterator[str]:
    r"""A UTF-8 file's lines one after the other, ended by \n alone; raises as `read_text` does."""
    with _named(path, remedy), Path(path).open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield line.removesuffix(b"\n").decode()
            except UnicodeDecodeError:
                raise InputError(f"{path} is not UTF-8 text (line {number}); {remedy}") from None


def read_json(path: str | Path, remedy: str) -> Any:
    """A JSON file's value; InputError with `remedy` where it is missing, not JSON, or has a key twice."""

    def object_of(items: list[tuple[str, Any]]) -> dict[str, Any]:
        """An object whose keys differ: json would keep the last of equal ones without a word."""
        value = dict(items)
        if len(value) < len(items):
            doubled = next(key for key, count in Counter(key for key, _ in items).items() if count > 1)
            raise InputError(f"{path} has the key {doubled!r} more than once in one object; keep one of them")
        return value

    try:
        return json.loads(read_text(path, remedy), object_pairs_hook=object_of)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON ({error}); {remedy}") from None
