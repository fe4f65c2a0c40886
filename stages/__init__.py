"""One thin script per DVC stage: parse arguments, call the pipeline, write outputs."""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from pipeline.errors import InputError, printable, writing

# libgomp reads this as torch loads it. By default an idle thread spins for milliseconds, and next to another
# program each step waits for the thread that has no core (benchmarks/README.md, "Next to other programs")
if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
    os.environ["GOMP_SPINCOUNT"] = "10000"


def run(main: Callable[[], None]) -> NoReturn:
    """Run a stage's main; a user's mistake is one line on stderr and exit code 2."""
    _leave_by_exceptions()
    try:
        # an output says by itself why it cannot be written; this is for all else, as a library's cache
        with writing("standard output, or a temporary file"):
            main()
            sys.stdout.flush()
    except InputError as error:
        print(f"error: {printable(str(error))}", file=sys.stderr)
        _flush_or_drop()
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(0)


def _leave_by_exceptions() -> None:
    """At SIGTERM, by which DVC stops a stage, and SIGHUP, of a terminal that is closed.

    Child processes are ended then, and temporary files are gone. `nohup`, which ignores SIGHUP, still holds.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _leave)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    # once only: the shell and the system both tell of a closed terminal, and the second would cut off the end
    for again in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(again, lambda *_: None)
    sys.exit(128 + number)


def _flush_or_drop() -> None:
    """Without this Python would try once more at its end to write what cannot be written, and say so."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
