"""Standard output and error, wherever they lead: closed, a pipe without a reader, ASCII, a full disk."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from pipeline.io.errors import printable

NO_READER = 128 + 13  # the exit code of a program that SIGPIPE ends, which Python ignores


def open_missing() -> None:
    """Open the null device where a standard stream was closed at the start (`>&-`).

    The next file that is opened would otherwise take its number, and what is printed would end there.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it takes the lowest number that is free: this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115


class Escaping:
    """A text stream that escapes control characters, which a user's text or name could bring to a terminal.

    SystemExit where its reader has gone, as in `… | head -1`. Other errors of one that is not `needed` are
    dropped.
    """

    def __init__(self, raw: TextIO, needed: bool) -> None:
        self.raw, self.needed = raw, needed

    def write(self, text: str) -> int:
        with self._ending_without_reader():
            self.raw.write(printable(text))
        return len(text)

    def flush(self) -> None:
        with self._ending_without_reader():
            self.raw.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)

    @contextmanager
    def _ending_without_reader(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise SystemExit(NO_READER) from None
        except OSError:
            if self.needed:
                raise


@contextmanager
def escaped() -> Iterator[None]:
    """In the block both streams are Escaping, and what their encoding lacks is written as \\u1234."""
    before = sys.stdout, sys.stderr
    for stream in before:
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = map(Escaping, before, (True, False))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def flush(code: int) -> int:
    """Write what is left to both streams; returns the exit code, which is another where `code` was 0.

    What can't be written is dropped: Python would try again at its end, and leave with exit code 120.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except SystemExit:
            code = code or NO_READER
            _drop(stream)
        except OSError as error:
            _drop(stream)
            code = code or 2
            why = os.strerror(error.errno or errno.EIO)
            print(f"error: cannot write standard output: {why}", file=sys.stderr)
    return code


def _drop(stream: TextIO) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
