"""What the readers share: annotation files read strictly, and every value checked before it is used.

Annotation files are made elsewhere: each value may be of any type, and what is wrong is said by file and key.
"""

import reprlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from pipeline.datasets.schema import SPLITS, Pair
from pipeline.errors import InputError, listed
from pipeline.inputs import read_json, read_text


def read_annotations(path: Path, remedy: str) -> Any:
    """A JSON file's value, whose strings can all be written as UTF-8. Raises InputError naming the file."""
    try:
        value = read_json(path, remedy)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); {remedy}") from None
    _check_characters(path, value)
    return value


def read_table(path: Path, remedy: str, what: str) -> dict[str, Any]:
    """A JSON file's object; `what` says what it maps to what."""
    table = read_annotations(path, remedy)
    if not isinstance(table, dict):
        raise InputError(f"{path} must map {what}; {remedy}")
    return table


def read_entries(path: Path, remedy: str, keys: Iterable[str]) -> list[dict[str, Any]]:
    """A JSON file's list of objects that have all of `keys`, at least one."""
    return check_entries(str(path), read_annotations(path, remedy), remedy, keys)


def check_entries(where: str, entries: Any, remedy: str, keys: Iterable[str]) -> list[dict[str, Any]]:
    """`entries` as a list of objects with all of `keys`. Raises InputError naming `where` and positions."""
    if not isinstance(entries, list) or not entries:
        raise InputError(f"{where} must be a list of objects, at least one; {remedy}")
    problems = []
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict):
            problems.append(f"entry {number} is {shown(entry)}, not an object")
        elif missing := [key for key in keys if key not in entry]:
            problems.append(f"entry {number} has no {', '.join(missing)}")
    if problems:
        raise listed(problems, where, remedy)
    return entries


def read_plain(path: Path, remedy: str) -> str:
    """A UTF-8 text file. Raises InputError naming the file."""
    try:
        return read_text(path, remedy)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); {remedy}") from None


def shown(value: Any) -> str:
    """A value of any type and size in a few words, for an error."""
    return reprlib.repr(value)


def written(sentences: list[str]) -> tuple[str, ...]:
    """The sentences that say something, as written: some datasets hold empty ones."""
    return tuple(sentence for sentence in sentences if sentence.strip())


def sentences_fault(value: Any) -> str | None:
    """What is wrong with a pair's sentences; None: a list of strings."""
    if not isinstance(value, list) or not all(isinstance(sentence, str) for sentence in value):
        return f"{shown(value)} is not a list of sentences"
    return None


def captions_fault(value: Any) -> str | None:
    """As `sentences_fault`; and one of them must say something."""
    return sentences_fault(value) or (None if written(value) else "has no caption")


def image_fault(name: Any) -> str | None:
    """What is wrong with an image's name; None: a file inside the dataset's folder."""
    if not isinstance(name, str) or not name or "\0" in name:
        return f"{shown(name)} is not a file's name"
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or not path.name:
        return f"{shown(name)} leads out of the dataset's folder"
    return None


def check_splits(where: Path, pairs: Iterable[Pair], splits: Iterable[str] = SPLITS) -> None:
    """Raises InputError naming `where` and one of `splits` without pairs."""
    found = {pair.split for pair in pairs}
    if missing := [split for split in splits if split not in found]:
        raise InputError(f"{where} has no pair in {missing[0]!r}; every split needs pairs")


def _check_characters(path: Path, value: Any) -> None:
    """JSON can write half a character ("\\ud800"), which no file can hold."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += [*item, *item.values()]
        elif isinstance(item, list):
            waiting += item
        elif isinstance(item, str) and not item.isascii():
            try:
                item.encode()
            except UnicodeEncodeError:
                raise InputError(f"{path}: {ascii(item)[:80]} holds half a character; mend it") from None
