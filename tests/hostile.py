"""Try bad input with little memory: the error must be one line that names the file."""

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pipeline.io.errors import InputError, printable

MORE = 1 << 30  # bytes of address space beyond those in use


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
    with little_memory(), pytest.raises(InputError) as caught:
        run()
    said = printable(str(caught.value))
    assert "\n" not in said
    assert len(said) < 1000
    assert "\x1b" not in said
    return said


def pipe(path: Path) -> None:
    """Replace the file by a pipe without a writer."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def endless(path: Path) -> None:
    """Replace the file by a link to an endless device."""
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


def hole(path: Path, size: int) -> None:
    """Write a sparse file of `size` bytes."""
    with path.open("wb") as file:
        file.truncate(size)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
