"""Read text, JSON and YAML files that may be untrusted. Only regular files of bounded size are read.

Every error says what is wrong and what to do. YAML is parsed as in DVC (YAML 1.2, ruamel.yaml): 5e-05 is a
number, and `off` is a text. The expansion of YAML aliases is bounded.
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
from io import BufferedReader
from pathlib import Path
from typing import Any

from _ruamel_yaml import CParser
from ruamel.yaml import YAML, CollectionNode, MappingNode, Node, ScalarNode
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import AliasEvent

from pipeline.io.errors import InputError

LARGEST = 1 << 30  # maximum size in bytes of a text file; every dataset's annotations are smaller
LARGEST_YAML = 1 << 20  # maximum size of a YAML file: forty times params.yaml; parsing takes some seconds
DEEPEST = 64  # maximum number of levels of nested lists and mappings in YAML
MOST_VALUES = 200_000  # maximum number of values of a YAML file with expanded aliases; params.yaml has 2,000
MERGE = "tag:yaml.org,2002:merge"
HALF = re.compile(r"\\u[dD][89a-fA-F]")  # half of a surrogate pair, as JSON writes characters above 16 bits
LINE_END = re.compile(rb"\r\n|\r|\n")
CONFLICT = re.compile(r"^(?:(?:<{7}|>{7}|\|{7}) .*|={7})\r?$", re.MULTILINE)


def check_regular(path: str | Path, largest: int = LARGEST) -> None:
    """Raise InputError if a file is a pipe, a device, or larger than `largest` bytes.

    Reading a pipe or a device may never end. Raises OSError if the file is a folder or is not accessible.
    """
    _check(path, Path(path).stat(), largest)


def _check(path: str | Path, found: os.stat_result, largest: int) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(21, "Is a directory", str(path))
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"{path} is a pipe or a device, which may never end; name a file")
    if found.st_size > largest:
        raise InputError(f"{path} has {found.st_size:,} bytes, and such a file {largest:,} at most")


@contextmanager
def opened(path: str | Path, largest: int = LARGEST) -> Iterator[BufferedReader]:
    """Open a file for reading. Raises InputError or OSError as `check_regular`."""
    # without O_NONBLOCK, opening a pipe would block
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123
        _check(path, os.fstat(file.fileno()), largest)
        yield file


def read_bytes(path: str | Path, largest: int = LARGEST) -> bytes:
    """Return the bytes of a file. Raises InputError or OSError as `check_regular`."""
    with opened(path, largest) as file:
        return file.read()  # read(largest) would allocate `largest` bytes at once


@contextmanager
def _named(path: str | Path, remedy: str) -> Iterator[None]:
    """Turn every OSError in the `with` block into an InputError that names `path` and ends with `remedy`."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path} is missing; {remedy}") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder, not a file; {remedy}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); {remedy}") from None


def _decoded(data: bytes, path: str | Path, remedy: str, line: int = 1) -> str:
    """Return UTF-8 bytes as text. `line` is the line number in the file at which they begin.

    Raises InputError naming the line that is not UTF-8.
    """
    if line == 1:
        data = data.removeprefix(codecs.BOM_UTF8)
        if data[:4] == b"PK\3\4":
            raise InputError(
                f"{path} is a workbook (.xlsx, .ods) or a .zip, not text; save it as CSV UTF-8; {remedy}"
            )
        # ASCII in UTF-16 has a zero byte in each character, with or without a byte order mark
        if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) or data[:2].count(0) == 1:
            raise InputError(f"{path}, line 1 is UTF-16 text, not UTF-8; save the file as UTF-8; {remedy}")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        number = line + len(LINE_END.findall(data[: error.start]))
        raise InputError(
            f"{path} is not UTF-8 text (line {number}: byte {data[error.start]:#x}); save it so; {remedy}"
        ) from None


def read_text(path: str | Path, remedy: str, largest: int = LARGEST) -> str:
    r"""Return the text of a UTF-8 file, without a byte order mark. Every line ends with \n.

    Raises InputError if the file is missing, not UTF-8, not regular, or larger than `largest` bytes. `remedy`
    is the end of the error message: what the user can do.
    """
    with _named(path, remedy):
        data = read_bytes(path, largest)
    return _decoded(data, path, remedy).replace("\r\n", "\n").replace("\r", "\n")


def read_lines(path: str | Path, remedy: str, largest: int = LARGEST) -> Iterator[str]:
    """Yield the lines of a UTF-8 file without line ends. Raises the same errors as `read_text`."""
    number = 0
    with _named(path, remedy), opened(path, largest) as file:
        for ended in file:
            for line in ended.removesuffix(b"\n").removesuffix(b"\r").split(b"\r"):
                number += 1
                yield _decoded(line, path, remedy, number)


def conflict_in(text: str) -> str | None:
    """Return a message with the line of the first git conflict marker in a text; None without a marker."""
    if (found := CONFLICT.search(text)) is None:
        return None
    return f"holds git's conflict markers (line {1 + text.count(chr(10), 0, found.start())})"


def read_json(path: str | Path, remedy: str, largest: int = LARGEST) -> Any:
    """Return the value of a JSON file. Raises InputError if it is missing, not JSON, or repeats a key."""
    return json_of(read_text(path, remedy, largest), path, remedy)


def json_of(text: str, path: str | Path, remedy: str) -> Any:
    """Return the value of a JSON text. Raises InputError naming `path` if it is no JSON or repeats a key."""

    def object_of(items: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(items)  # the json module would keep the last of equal keys
        if len(value) < len(items):
            doubled = next(key for key, count in Counter(key for key, _ in items).items() if count > 1)
            raise InputError(f"{path} has the key {doubled!r} more than once in one object; keep one of them")
        return value

    try:
        value = json.loads(text, object_pairs_hook=object_of)
        if HALF.search(text):
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise InputError(f"{path} holds half a character ({half}), which no text can; {remedy}") from None
    except (json.JSONDecodeError, RecursionError) as error:
        _check_merged(text, path)
        raise InputError(f"{path} is not valid JSON ({error}); {remedy}") from None
    except ValueError:  # an integer has more than 4300 digits, Python's limit
        raise InputError(f"{path} holds an integer too long to be read; {remedy}") from None


class _RefusedError(YAMLError):
    """Error for YAML that is valid but refused."""


class _Composer(Composer):
    """A ruamel composer that bounds depth and number of values, and refuses repeated keys."""

    foreign = False  # True: the file is untrusted, so aliases are refused

    def __init__(self, loader: Any = None) -> None:
        super().__init__(loader)
        self.warn_double_anchors = False
        # id of a node -> number of values and depth of the node with expanded aliases
        self.written_out: dict[int, tuple[int, int]] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.parser.peek_event()
        alias, line = isinstance(event, AliasEvent), event.start_mark.line + 1
        if self.foreign and alias:
            raise _RefusedError(
                f"line {line}: an alias (*), by which small files grow without end; write it out"
            )
        node = super().compose_node(parent, index)
        if not alias:
            self._bound(node, line)
        elif id(node) not in self.written_out:
            raise _RefusedError(
                f"line {line}: an alias (*) of a value that contains the alias; write the value out"
            )
        return node

    def _bound(self, node: Any, line: int) -> None:
        """Raise _RefusedError if a node has too many values or levels after its aliases are expanded."""
        parts = node.value if isinstance(node, CollectionNode) else ()
        each = [one for part in parts for one in (part if isinstance(part, tuple) else (part,))]
        found = [self.written_out[id(one)] for one in each]
        values = 1 + sum(count for count, _ in found)
        depth = 1 + max((below for _, below in found), default=0)
        if values > MOST_VALUES or depth > DEEPEST + 1:
            raise _RefusedError(
                f"line {line}: by aliases (*) it holds more than {MOST_VALUES:,} values, or {DEEPEST} within "
                "each other; write out what is meant"
            )
        self.written_out[id(node)] = values, depth

    def compose_mapping_node(self, anchor: Any) -> MappingNode:
        node: MappingNode = super().compose_mapping_node(anchor)
        lines: dict[Any, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, ScalarNode):
                raise _RefusedError(f"line {line}: a list or a mapping is no key; write a word")
            if str(key.tag) == MERGE:
                if self.foreign:
                    raise _RefusedError(f"line {line}: a merge key (<<); write out what it merges")
                continue
            name = self.loader.constructor.construct_object(key)
            if name in lines:
                raise _RefusedError(
                    f"line {line}: the key {name!r} is in line {lines[name]} already; keep one of them"
                )
            lines[name] = line
        return node


class _ForeignComposer(_Composer):
    foreign = True


def _reader(composer: type[Composer]) -> YAML:
    made = YAML(typ="safe", pure=True)
    made.Composer = composer
    made.max_depth = DEEPEST
    return made


def _our_reader(text: str) -> YAML:
    """Return a reader that uses libyaml, as DVC does. It is three times as fast as pure Python."""
    made = _reader(_Composer)
    made.Parser = lambda loader: CParser(text)
    return made


def read_yaml(path: str | Path, remedy: str, largest: int = LARGEST_YAML, foreign: bool = False) -> Any:
    """Return the value of a YAML file. Raises InputError if the file is missing, not YAML, or repeats a key.

    If `foreign` is true, the file is untrusted: aliases and merge keys are refused too.
    """
    if foreign:  # pure Python, so that no C code parses untrusted bytes
        return _parsed(path, remedy, largest, _reader(_ForeignComposer).load)
    return deepcopy(_parsed(path, remedy, largest, _own))


@lru_cache(maxsize=8)
def _own(text: str) -> Any:
    # the result is cached, because a study reads params.yaml and datasets.yaml repeatedly
    return _our_reader(text).load(text)


def yaml_nodes(path: str | Path, remedy: str) -> Node:
    """Return the node tree of a YAML file, with the position of each value in the file.

    Raises InputError if the file is missing or not valid YAML.
    """
    found: Node = _parsed(path, remedy, LARGEST_YAML, lambda text: _our_reader(text).compose(text))
    return found


def _parsed(path: str | Path, remedy: str, largest: int, parse: Any) -> Any:
    text = read_text(path, remedy, largest)
    try:
        return parse(text)
    except _RefusedError as error:
        raise InputError(f"{path}, {error}") from None
    except (YAMLError, RecursionError, ValueError, TypeError, KeyError, AttributeError) as error:
        _check_merged(text, path)
        reason = " ".join(str(error).split())[:300]
        raise InputError(f"{path} is not valid YAML ({reason}); correct it, or {remedy}") from None


def _check_merged(text: str, path: str | Path) -> None:
    """Raise InputError if a text has git's conflict markers. Call this if the text cannot be parsed."""
    if found := conflict_in(text):
        raise InputError(f"{path} {found}; edit them, or run `git checkout --ours` or `--theirs` on the file")
