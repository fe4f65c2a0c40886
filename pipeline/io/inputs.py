"""Read text, JSON and YAML files that may be untrusted. Only regular files of bounded size are read.

Every error says what is wrong and what to do. YAML is parsed as in DVC (YAML 1.2, ruamel.yaml): 5e-05 is a
number, and `off` is a text.
"""

import codecs
import json
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import lru_cache
from io import BufferedReader, StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import AliasEvent

from pipeline.io.errors import InputError

try:
    from _ruamel_yaml import CParser
except ImportError:  # a private module, which another version of ruamel.yaml may lack
    CParser = None

LARGEST = 1 << 30  # maximum size in bytes of a text file; every dataset's annotations are smaller
LARGEST_YAML = 1 << 20  # maximum size of a YAML file: forty times params.yaml; parsing takes some seconds
DEEPEST = 64  # maximum number of levels of nested lists and mappings in YAML
HALF_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # as JSON writes half of a character above 16 bits
LINE_END = re.compile(rb"\r\n|\r|\n")


def check_regular(path: str | Path, largest: int = LARGEST) -> None:
    """Raise InputError for a pipe, a device, or a file above `largest` bytes; OSError for a folder."""
    _check_status(path, Path(path).stat(), largest)


def _check_status(path: str | Path, status: os.stat_result, largest: int) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(21, "Is a directory", str(path))
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path} is a pipe or a device, which may never end; name a file")
    if status.st_size > largest:
        raise InputError(
            f"{path} has {status.st_size:,} bytes, and the limit for this kind of file is {_size(largest)}; "
            "check that it is the right file"
        )


def _size(count: int) -> str:
    """Return a number of bytes in the largest unit of which it is a whole number: 1 GiB, 64 KiB, 3 bytes."""
    units = ((30, "GiB"), (20, "MiB"), (10, "KiB"))
    whole = [f"{count >> bits:,} {unit}" for bits, unit in units if count % (1 << bits) == 0]
    return whole[0] if whole else f"{count:,} bytes"


@contextmanager
def opened(path: str | Path, largest: int = LARGEST) -> Iterator[BufferedReader]:
    """Open a regular file of at most `largest` bytes; OSError for a folder or a file that does not open."""
    # without O_NONBLOCK, opening a pipe would block
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123
        _check_status(path, os.fstat(file.fileno()), largest)
        yield file


def read_bytes(path: str | Path, largest: int = LARGEST) -> bytes:
    """Return the bytes of a file; errors as in `opened`."""
    with opened(path, largest) as file:
        return file.read()  # read(largest) would allocate `largest` bytes at once


def _decoded(data: bytes, path: str | Path, remedy: str) -> str:
    """Return UTF-8 bytes as text, without a byte order mark.

    Raises InputError if the bytes are not UTF-8. The message names the line, except for a workbook
    or a .zip file, and ends with `remedy`, which says what the user can do.
    """
    data = data.removeprefix(codecs.BOM_UTF8)
    if data[:4] == b"PK\3\4":
        raise InputError(f"{path} is a workbook (.xlsx, .ods) or a .zip; save it as CSV UTF-8; {remedy}")
    # ASCII in UTF-16 has a zero byte in each character, with or without a byte order mark
    if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) or data[:2].count(0) == 1:
        raise InputError(f"{path}, line 1 is UTF-16 text, not UTF-8; save the file as UTF-8; {remedy}")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        number = 1 + len(LINE_END.findall(data[: error.start]))
        byte = f"line {number}: byte {data[error.start]:#x}"
        raise InputError(f"{path} is not UTF-8 text ({byte}); save it so; {remedy}") from None


def read_text(path: str | Path, remedy: str, largest: int = LARGEST) -> str:
    """Return the text of a UTF-8 file, without a byte order mark; every line ends with a newline.

    Raises InputError if the file is missing, not UTF-8, not a regular file, or has more than `largest` bytes.
    In most cases, the message ends with `remedy`, which says what to do.
    """
    try:
        data = read_bytes(path, largest)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path} is missing; {remedy}") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder, not a file; {remedy}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); {remedy}") from None
    return _decoded(data, path, remedy).replace("\r\n", "\n").replace("\r", "\n")


def read_lines(path: str | Path, remedy: str, largest: int = LARGEST) -> Iterator[str]:
    for line in StringIO(read_text(path, remedy, largest)):
        yield line.removesuffix("\n")


def read_json(path: str | Path, remedy: str, largest: int = LARGEST) -> Any:
    return json_of(read_text(path, remedy, largest), path, remedy)


def json_of(text: str, path: str | Path, remedy: str) -> Any:
    """Return the value of a JSON text. Raises InputError if it is not JSON or repeats a key.

    The message names `path`, the source of the text. If the text is not JSON, the message ends with
    `remedy`, advice to the user.
    """

    try:
        value = decoded(text)
        if HALF_SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except RepeatedKeyError as error:
        message = f"{path} has the key {error.key!r} more than once in one object; keep one of them"
        raise InputError(message) from None
    except UnicodeEncodeError as error:
        character = f"\\u{ord(error.object[error.start]):04x}"
        raise InputError(f"{path} holds half a character ({character}); {remedy}") from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON ({error}); {remedy}") from None
    except ValueError:  # an integer has more than 4300 digits, Python's limit
        raise InputError(f"{path} holds an integer too long to be read; {remedy}") from None


def decoded(text: str) -> Any:
    """Return a JSON text's value, or raise RepeatedKeyError, ValueError or RecursionError."""
    return _DECODER.decode(text)


class RepeatedKeyError(Exception):
    """A JSON object has the key `key` more than once."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _object_of(items: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(items)  # the json module would keep the last of equal keys
    if len(value) < len(items):
        raise RepeatedKeyError(Counter(key for key, _ in items).most_common(1)[0][0])
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_object_of)  # one for all texts: building it takes a third


def read_yaml(path: str | Path, remedy: str, largest: int = LARGEST_YAML, foreign: bool = False) -> Any:
    """Return the value of a YAML file. Raises InputError if it is missing, not YAML, or repeats a key.

    In an untrusted file (`foreign`), aliases are refused: with them, a small file can give a huge
    value. `largest` is the maximum size of the file in bytes. `remedy` is advice to the user in the
    message.
    """
    text = read_text(path, remedy, largest)
    try:
        if foreign:
            for event in _yaml_reader(text).parse(text):
                if isinstance(event, AliasEvent):
                    line = event.start_mark.line + 1
                    raise InputError(f"{path}, line {line}: an alias (*) is not allowed; write the value out")
        return deepcopy(_yaml_value(text))
    except (YAMLError, RecursionError, ValueError, TypeError, KeyError, AttributeError) as error:
        mark = getattr(error, "problem_mark", None)
        message = f"line {mark.line + 1}: {getattr(error, 'problem', error)}" if mark else str(error)
        reason = " ".join(message.split())[:300]
        raise InputError(f"{path} is not valid YAML ({reason}); correct it, or {remedy}") from None


@lru_cache(maxsize=8)
def _yaml_value(text: str) -> Any:
    # the result is cached, because a study reads params.yaml and datasets.yaml repeatedly
    return _yaml_reader(text).load(text)


def _yaml_reader(text: str) -> YAML:
    """Return a reader that uses libyaml, as DVC does. It is three times as fast as pure Python.

    Another version of ruamel.yaml may lack this parser. Then the reader is pure Python.
    """
    reader = YAML(typ="safe", pure=True)
    reader.max_depth = DEEPEST
    if CParser is not None:
        reader.Parser = lambda loader: CParser(text)
    return reader
