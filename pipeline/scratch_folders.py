"""Where a long stage keeps its work until the output is whole; one process at a time works on an output."""

import fcntl
import glob
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.errors import InputError, writing
from pipeline.outputs import remove

LOCK, TURN = "lock", "turn"  # in place of a key


def scratch(out: Path, key: str) -> Path:
    """The folder where a long stage keeps its work on `out`: beside it, for a rename crosses no disks.

    `key` stands for all that the work depends on. git and DVC ignore the name. Raises InputError where
    DVC, which runs the stage, would refuse `out` only when the work is done.
    """
    root = os.environ.get("DVC_ROOT")  # DVC sets it
    if root and not out.parent.resolve().is_relative_to(Path(root).resolve()) and _with_git(root):
        raise InputError(
            f"{out.parent} is reached by a link out of the repository, where DVC takes no outputs; mount the "
            "disk there (`mount --bind`), or do without `dvc exp`: `dvc config --local core.no_scm true`"
        )
    return _beside(out, key)


def _beside(out: Path, key: str) -> Path:
    return out.with_name(f".{out.name}.{key}.scratch")


def _with_git(root: str) -> bool:
    command = [sys.executable, "-m", "dvc", "config", "core.no_scm"]
    said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout
    return said.strip() != "true"


def clear(out: Path) -> None:
    """Remove all scratch folders of `out`, those of other keys too. Raises InputError where it cannot."""
    with writing(out):
        for left in out.parent.glob(f".{glob.escape(out.name)}.*.scratch"):
            if left not in (_beside(out, LOCK), _beside(out, TURN)):
                remove(left)


@contextmanager
def alone(out: Path, first: bool = True) -> Iterator[Callable[[], None]]:
    """Work on `out` while no other process does: a lock, which the system frees however this process ends.

    It is of the output and not of one scratch folder, for the work of other settings ends in the same output
    and clears all. Yields what to call before anything is put in its place: it raises InputError where the
    lock was taken away. Raises InputError where another process has it. Of several processes at one work the
    `first` has the lock.
    """
    if not first:
        yield lambda: None
        return
    lock = _beside(out, LOCK)
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        file = _locked(out, lock)

    def still() -> None:
        if not _is(file, lock):
            raise InputError(
                f"{lock} was removed, and another process may work on {out}: this one wrote nothing"
            )

    try:
        yield still
    finally:
        if _is(file, lock):
            lock.unlink()
        os.close(file)


@contextmanager
def in_turn(out: Path) -> Iterator[None]:
    """While no other process is in its turn on `out`; waits for one that is."""
    turn = _beside(out, TURN)
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(turn, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _locked(out: Path, lock: Path) -> int:
    """The file `lock`, open and locked; this process's number stands in it."""
    while True:
        file = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            pid = os.read(file, 20).decode("ascii", "replace")
            os.close(file)
            if isinstance(error, BlockingIOError):
                raise InputError(
                    f"another process (pid {pid}) still works on {out}; wait for it, or end it (`kill {pid}`)"
                ) from None
            raise InputError(
                f"{lock} cannot be locked ({error.strerror}); use a disk that can do it"
            ) from None
        if _is(file, lock):
            os.truncate(file, 0)
            os.pwrite(file, str(os.getpid()).encode(), 0)
            return file
        os.close(file)  # whoever had it removed it meanwhile


def _is(file: int, path: Path) -> bool:
    """Whether an open file is the one that stands there."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False
