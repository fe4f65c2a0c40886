"""Bad input tried in little memory: it must end in one line that names the file."""

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pipeline.io.errors import InputError, printable

MORE = 1 << 30  # bytes of addresses beside what the process has


@contextmanager
def little_memory() -> Iterator[None]:
    """Whoever asks for much more is refused it by the system: a MemoryError, and not the machine's end."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (has + MORE, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def refused(run: Callable[[], Any]) -> str:
    """What is said of the input, as a terminal shows it: in one line, not a long one."""
    with little_memory(), pytest.raises(InputError) as caught:
        run()
    said = printable(str(caught.value))
    assert "\n" not in said
    assert len(said) < 1000
    assert "\x1b" not in said
    return said


def pipe(path: Path) -> None:
    """A pipe in the file's place, into which nobody ever writes."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def endless(path: Path) -> None:
    """A link to a device that never ends."""
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


def hole(path: Path, size: int) -> None:
    """A file of that size which takes no room on the disk."""
    with path.open("wb") as file:
        file.truncate(size)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
