"""Start and end stages and commands: environment, errors, exit code."""

import getpass
import os
import platform
import shlex
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn

from pipeline.io import dvc_lock, standard_streams
from pipeline.io.errors import InputError, writing
from pipeline.io.source_code import revision


def _name_the_user() -> None:
    """Set LOGNAME and HOME for a user without a name (`docker run --user 12345`), because DVC needs both."""
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["LOGNAME"] = str(os.getuid())
    try:
        home = Path.home() if os.environ.get("HOME") != "" else None
    except RuntimeError:
        home = None
    if home is None or not home.is_absolute():  # DVC needs an absolute path
        os.environ["HOME"] = tempfile.gettempdir()


# libgomp reads this variable when torch loads. By default, idle threads spin for milliseconds. If another
# program runs, each step then waits for a thread that has no core (benchmarks/README.md, "Next to other
# programs")
if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
    os.environ["GOMP_SPINCOUNT"] = "10000"
_name_the_user()
standard_streams.open_missing()


def run(main: Callable[[], None]) -> NoReturn:
    """Run the main function of a stage or command, and exit with its exit code.

    For a user's mistake (InputError), a line is printed on stderr and the exit code is 2. For any other
    exception, a bug report is printed and the exit code is 1.
    """
    _leave_by_exceptions()
    with standard_streams.escaped():
        _tell_new_name()
        try:
            code = _code(main)
        except SystemExit as left:  # stderr is closed, so the error cannot be printed
            code = _number(left)
        code = standard_streams.flush(code)
    sys.exit(code)


def _code(main: Callable[[], None]) -> int:
    """Run main, print its error, and return the exit code."""
    try:
        # outputs report their own write errors; this is for other files, such as a library's cache
        with writing("standard output, or a temporary file"):
            _keep_lock()
            main()
            sys.stdout.flush()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except SystemExit as left:
        return _number(left)
    except Exception as error:
        print(_bug_report(error), file=sys.stderr)
        return 1
    return 0


def _name() -> str:
    """Return the name of the started module, such as commands.caption."""
    file = Path(sys.argv[0])
    return f"{file.parent.name}.{file.stem}"


def _tell_new_name() -> None:
    """Print a command's new name if the user called the command by its name in an earlier version."""
    old = str(getattr(sys.modules["__main__"].__spec__, "name", ""))
    if old.startswith("stages.") and old != (new := _name()):
        print(
            f"note: `python -m {old}` is now `python -m {new}`; the next release drops {old}", file=sys.stderr
        )


def _number(left: SystemExit) -> int:
    if left.code is None or isinstance(left.code, int):
        return left.code or 0
    print(left.code, file=sys.stderr)  # sys.exit("a text") prints the text
    return 1


def _bug_report(error: Exception) -> str:
    short = "memory ran out: free some, or ask for less; else " if isinstance(error, MemoryError) else ""
    command = ["python", "-m", _name(), *sys.argv[1:]]
    return (
        f"bug: {type(error).__name__}: {short}this is a fault of the program; please report what follows\n"
        f"  command: {shlex.join(command)}\n"
        f"  version: commit {revision()}, Python {platform.python_version()}, {platform.platform()}\n"
        + "".join(traceback.format_exception(error)).rstrip()
    )


def _keep_lock() -> None:
    """If DVC runs the stage, back up dvc.lock, because DVC overwrites it in place when the stage ends."""
    if root := os.environ.get("DVC_ROOT"):
        if said := dvc_lock.problem(Path(root)):
            print(f"note: dvc.lock {said}{dvc_lock.remedy(Path(root))}", file=sys.stderr)
        else:
            dvc_lock.keep(Path(root))


def _leave_by_exceptions() -> None:
    """Make SIGTERM (DVC stops a stage) and SIGHUP (the terminal closes) raise SystemExit.

    Then child processes and temporary files are cleaned up. With `nohup`, SIGHUP stays ignored.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _leave)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    # only once: shell and system both signal a closed terminal, and the second signal would stop the cleanup
    for again in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(again, lambda *_: None)
    sys.exit(128 + number)
