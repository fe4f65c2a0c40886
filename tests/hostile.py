"""Try bad input: the error must be one line that names the file.

Every input is harmless to other programs. If a guard limits a size, the test lowers the limit, or a small
file states a large size (`large`). If a guard limits nesting, the parser gives up early (`shallow`).
"""

import json
import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from pipeline.io.errors import InputError, printable

MORE = 1 << 30  # bytes of address space beyond those in use
FRAMES = 150  # of Python's stack, beyond those in use
LEVELS = 4  # of nested lists at which a shallow parser gives up
STATED: dict[tuple[int, int], int] = {}  # file (device, inode) -> size that the system states in `refused`


@contextmanager
def little_memory() -> Iterator[None]:
    """Limit the address space, so that a huge allocation raises MemoryError."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (has + MORE, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def refused(run: Callable[[], Any]) -> str:
    """Run `run`, which must raise InputError. Return its message, which must be one short line."""
    with little_memory(), stated_sizes(), pytest.raises(InputError) as caught:
        run()
    said = printable(str(caught.value))
    assert "\n" not in said
    assert len(said) < 1000
    assert "\x1b" not in said
    return said


@contextmanager
def stated_sizes() -> Iterator[None]:
    """Let os.stat and os.fstat state the sizes of STATED, once."""

    def stating(ask: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        def status(*arguments: Any, **options: Any) -> os.stat_result:
            found = ask(*arguments, **options)
            size = STATED.get((found.st_dev, found.st_ino), found.st_size)
            return os.stat_result((*found[:6], size, *found[7:]))

        return status

    try:
        with patch.object(os, "stat", stating(os.stat)), patch.object(os, "fstat", stating(os.fstat)):
            yield
    finally:
        STATED.clear()


@contextmanager
def shallow() -> Iterator[None]:
    """Let Python's JSON parser give up at LEVELS nested lists or objects, as it does at thousands."""
    decode = json.JSONDecoder.decode

    def parse(decoder: json.JSONDecoder, text: str, *where: Any) -> Any:
        if text.startswith(("[" * LEVELS, '{"a":' * LEVELS)):
            raise RecursionError("maximum recursion depth exceeded")
        return decode(decoder, text, *where)

    with patch.object(json.JSONDecoder, "decode", parse):
        yield


@contextmanager
def small_stack() -> Iterator[None]:
    """Limit Python's stack to FRAMES more frames."""
    before, depth, frame = sys.getrecursionlimit(), 0, sys._getframe()
    while frame := frame.f_back:
        depth += 1
    sys.setrecursionlimit(depth + FRAMES)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def pipe(path: Path) -> None:
    """Replace the file by a pipe without a writer."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def device(path: Path) -> None:
    """Replace the file by a link to a device, which is empty."""
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/null")


def large(path: Path, size: int) -> None:
    """Write a file of 4 bytes. In `refused`, the system states that it has `size` bytes."""
    path.write_bytes(bytes(4))
    found = path.stat()
    STATED[found.st_dev, found.st_ino] = size


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
