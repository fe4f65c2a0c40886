"""Start and end stages and commands: environment, errors, exit code."""

import gc
import os
import platform
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TextIO

from pipeline.io.errors import InputError, printable, writing
from pipeline.io.source_code import revision

NO_READER = 128 + 13  # exit code as if SIGPIPE had ended the program; Python ignores this signal


def spin_briefly() -> None:
    """Let idle threads of torch spin briefly, unless the user's environment decides it.

    By default, they spin for milliseconds. If another program runs, each step then waits for a thread that
    has no core (benchmarks/README.md, "Next to other programs"). libgomp reads the variable when torch loads,
    so call this before. The library does not call it.
    """
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = "10000"


def run(main: Callable[[], None]) -> NoReturn:
    """Run the main function of a program, and exit with its exit code: 2 for InputError, 1 for bugs."""
    _raise_on_signals()
    with _escaped_output():
        code = _exit_code(main)
    # Python would search all objects for cycles at its exit. With torch, this takes most of a second.
    gc.freeze()
    sys.exit(code)


def _exit_code(main: Callable[[], None]) -> int:
    try:
        # outputs report their own write errors; this is for other files, such as a library's cache
        with writing("standard output, or a temporary file"):
            main()
            sys.stdout.flush()
    except InputError as error:
        _drop_output()
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader has ended, as in `… | head -1`
        _drop_output()
        return NO_READER
    except KeyboardInterrupt:
        return 130
    except SystemExit as ending:
        if ending.code is None or isinstance(ending.code, int):
            return ending.code or 0
        print(ending.code, file=sys.stderr)  # sys.exit("a text") prints the text
        return 1
    except Exception as error:
        print(_bug_report(error), file=sys.stderr)
        return 1
    return 0


def _drop_output() -> None:
    """Flush standard output. If this fails, drop the text, so that Python does not try again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Escaping:
    """A text stream that escapes control characters, because untrusted text could control the terminal."""

    def __init__(self, raw: TextIO) -> None:
        self.raw = raw

    def write(self, text: str) -> int:
        self.raw.write(printable(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


@contextmanager
def _escaped_output() -> Iterator[None]:
    """Escape control characters, and characters that the encoding lacks, in all printed text."""
    before = sys.stdout, sys.stderr
    for stream in before:
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = map(_Escaping, before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _name() -> str:
    file = Path(sys.argv[0])
    return f"{file.parent.name}.{file.stem}"


def _bug_report(error: Exception) -> str:
    short = "memory ran out: free some, or ask for less; else " if isinstance(error, MemoryError) else ""
    command = ["python", "-m", _name(), *sys.argv[1:]]
    return (
        f"bug: {type(error).__name__}: {short}this is a fault of the program; please report what follows\n"
        f"  command: {shlex.join(command)}\n"
        f"  version: commit {revision()}, Python {platform.python_version()}, {platform.platform()}\n"
        + "".join(traceback.format_exception(error)).rstrip()
    )


def _raise_on_signals() -> None:
    """Make SIGTERM (DVC) and SIGHUP (terminals) raise SystemExit, so that child processes end."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _exit_on_signal)


def _exit_on_signal(number: int, frame: FrameType | None) -> NoReturn:
    # only once: shell and system both signal a closed terminal, and the second signal would stop the cleanup
    for again in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(again, lambda *_: None)
    sys.exit(128 + number)
