"""Reading text, JSON and YAML with clear errors: regular files alone, up to a size, and nothing that grows.

Any of these files may come from anybody. YAML is read as DVC reads it (YAML 1.2, by ruamel.yaml): 5e-05 is a
number and `off` a word.
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

LARGEST = 1 << 30  # bytes of a file of text: more than any dataset's annotations
LARGEST_YAML = 1 << 20  # bytes: forty times params.yaml, and some seconds
DEEPEST = 64  # lists and mappings of YAML within each other
MOST_VALUES = 200_000  # of a YAML file with its aliases written out: params.yaml has 2,000
MERGE = "tag:yaml.org,2002:merge"
HALF = re.compile(r"\\u[dD][89a-fA-F]")  # in JSON: a character beyond 16 bits is written in two halves
LINE_END = re.compile(rb"\r\n|\r|\n")
CONFLICT = re.compile(r"^(?:(?:<{7}|>{7}|\|{7}) .*|={7})\r?$", re.MULTILINE)


def check_regular(path: str | Path, largest: int = LARGEST) -> None:
    """Raises InputError where a file is a pipe or a device, which may never end, or larger than that.

    Raises OSError where it cannot be looked at.
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
    """A regular file to read; raises as `check_regular` does."""
    # without O_NONBLOCK a pipe would be waited for
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123
        _check(path, os.fstat(file.fileno()), largest)
        yield file


def read_bytes(path: str | Path, largest: int = LARGEST) -> bytes:
    """A regular file's bytes; raises as `check_regular` does."""
    with opened(path, largest) as file:
        return file.read()  # not read(largest), for which so much memory is taken at once


@contextmanager
def _named(path: str | Path, remedy: str) -> Iterator[None]:
    """What can be wrong with a text file, as an InputError with `remedy`."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path} is missing; {remedy}") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder, not a file; {remedy}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); {remedy}") from None


def _decoded(data: bytes, path: str | Path, remedy: str, line: int = 1) -> str:
    """Decode UTF-8. `line` is the number of the first line. Raises InputError naming the line that is not."""
    if line == 1:
        data = data.removeprefix(codecs.BOM_UTF8)
        if data[:4] == b"PK\3\4":
            raise InputError(
                f"{path} is a workbook (.xlsx, .ods) or a .zip, not text; save it as CSV UTF-8; {remedy}"
            )
        # letters of 16 bits have a zero byte each, whether or not a mark precedes them
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
    r"""Return a UTF-8 file's text without its byte order mark, each line end as \n.

    Raises InputError with `remedy` where the file is missing, not UTF-8, not regular, or larger than
    `largest` bytes.
    """
    with _named(path, remedy):
        data = read_bytes(path, largest)
    return _decoded(data, path, remedy).replace("\r\n", "\n").replace("\r", "\n")


def read_lines(path: str | Path, remedy: str, largest: int = LARGEST) -> Iterator[str]:
    """Yield a UTF-8 file's lines without their ends, as `read_text` has them; raises as it does."""
    number = 0
    with _named(path, remedy), opened(path, largest) as file:
        for ended in file:
            for line in ended.removesuffix(b"\n").removesuffix(b"\r").split(b"\r"):
                number += 1
                yield _decoded(line, path, remedy, number)


def conflict_in(text: str) -> str | None:
    """Describe the first conflict marker that a merge of git left in a text; None where there is none."""
    if (found := CONFLICT.search(text)) is None:
        return None
    return f"holds git's conflict markers (line {1 + text.count(chr(10), 0, found.start())})"


def read_json(path: str | Path, remedy: str, largest: int = LARGEST) -> Any:
    """A JSON file's value; InputError with `remedy` where it is missing, not JSON, or has a key twice."""
    return json_of(read_text(path, remedy, largest), path, remedy)


def json_of(text: str, path: str | Path, remedy: str) -> Any:
    """The value of a file's text; raises as `read_json` does."""

    def object_of(items: list[tuple[str, Any]]) -> dict[str, Any]:
        """An object whose keys differ: json would keep the last of equal ones without a word."""
        value = dict(items)
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
    except ValueError:  # Python's own limit, of 4300 digits
        raise InputError(f"{path} holds an integer too long to be read; {remedy}") from None


class _RefusedError(YAMLError):
    """What is YAML, and not taken."""


class _Composer(Composer):
    """ruamel's, which says of keys that stand twice, in many lines, what they hold."""

    foreign = False

    def __init__(self, loader: Any = None) -> None:
        super().__init__(loader)
        self.warn_double_anchors = False
        self.written_out: dict[int, tuple[int, int]] = {}  # a node -> its values and depth, aliases included

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
            raise _RefusedError(f"line {line}: an alias (*) of what holds it; write it out")
        return node

    def _bound(self, node: Any, line: int) -> None:
        """Raises _RefusedError where aliases make the node hold too many values, or too deep ones."""
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
                    f"line {line}: the key {name!r} stands in line {lines[name]} already; keep one of them"
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
    """By libyaml, as DVC reads these files: three times as fast."""
    made = _reader(_Composer)
    made.Parser = lambda loader: CParser(text)
    return made


def read_yaml(path: str | Path, remedy: str, largest: int = LARGEST_YAML, foreign: bool = False) -> Any:
    """A YAML file's value; InputError with `remedy` where it is missing, not YAML, or has a key twice.

    `foreign`: of a file from outside aliases and merge keys are refused, too.
    """
    if foreign:
        # by Python alone: nothing of a stranger reaches C
        return _parsed(path, remedy, largest, _reader(_ForeignComposer).load)
    return deepcopy(_parsed(path, remedy, largest, _own))


@lru_cache(maxsize=8)
def _own(text: str) -> Any:
    """Kept: a study reads params.yaml and datasets.yaml again and again."""
    return _our_reader(text).load(text)


def yaml_nodes(path: str | Path, remedy: str) -> Node:
    """The nodes of a YAML file, which say where each value stands; raises as `read_yaml` does."""
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
        raise InputError(f"{path} is not valid YAML ({reason}); mend it, or {remedy}") from None


def _check_merged(text: str, path: str | Path) -> None:
    """Raise InputError where a merge of git left conflict markers in a text that does not parse."""
    if found := conflict_in(text):
        raise InputError(f"{path} {found}; edit them, or run `git checkout --ours` or `--theirs` on the file")
