"""Make standard output and error robust: closed streams, pipes without a reader, ASCII, a full disk."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from pipeline.io.errors import printable

NO_READER = 128 + 13  # exit code as if SIGPIPE had ended the program; Python ignores this signal


def open_missing() -> None:
    """Open the null device in place of each standard stream that is closed at the program's start (`>&-`).

    Without this, the next opened file would get the stream's number, and printed text would go to that file.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is the stream's
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115


class Escaping:
    """A text stream that escapes control characters, because untrusted text could control the terminal.

    Writing raises SystemExit if the pipe's reader has ended, as in `… | head -1`. Other errors of writing are
    raised only if `needed` is true.
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
    """Replace standard output and error by Escaping streams in the `with` block.

    A character that the encoding lacks is printed as \\u and its code.
    """
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
    """Flush standard output and error. Return the program's exit code.

    The exit code is `code`. If `code` is 0 but a stream cannot be flushed, the exit code is greater than 0.
    Text that cannot be written is dropped, so that Python does not try again at exit and end with exit code
    120.
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
