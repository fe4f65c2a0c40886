"""Wait for work inside torch so that Ctrl-C and SIGTERM are heard."""

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

Made = TypeVar("Made")
SILENT = 1.0  # seconds that the work may take without a word
POLL = 0.1  # seconds between two checks for signals


def interruptible(work: Callable[[], Made], waiting: str) -> Made:
    """Return the result of `work` in a thread; a signal of this process ends the wait.

    Torch waits in C++ code, in which Python handles no signal. If the work takes long, the line `waiting` is
    printed.
    """
    results: list[Made] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=call, daemon=True)  # a daemon, so that the program can exit meanwhile
    thread.start()
    thread.join(SILENT)
    if thread.is_alive():
        print(waiting, file=sys.stderr, flush=True)
    while thread.is_alive():
        thread.join(POLL)
    for error in errors:
        raise error
    return results[0]
