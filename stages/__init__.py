"""One thin script per DVC stage: parse arguments, call the pipeline, write outputs."""

import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

from pipeline.errors import InputError, printable, writing


def run(main: Callable[[], None]) -> NoReturn:
    """Run a stage's main; a user's mistake is one line on stderr and exit code 2."""
    # DVC stops a stage with SIGTERM: leave by an exception, so that child processes are ended too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
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


def _flush_or_drop() -> None:
    """Without this Python would try once more at its end to write what cannot be written, and say so."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
