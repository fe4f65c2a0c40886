"""One thin script per DVC stage: parse arguments, call the pipeline, write outputs."""

import signal
import sys
from collections.abc import Callable
from typing import NoReturn

from pipeline.errors import InputError


def run(main: Callable[[], None]) -> NoReturn:
    """Run a stage's main; a user's mistake is one line on stderr and exit code 2."""
    # DVC stops a stage with SIGTERM: leave by an exception, so that child processes are ended too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        main()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(0)
