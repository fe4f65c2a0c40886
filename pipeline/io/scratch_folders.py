"""Scratch folders for unfinished work of long stages, and locks: one process at a time works on an output.

Files and folders that have such a name but were not made here are neither changed nor removed.
"""

import errno
import fcntl
import glob
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.io.errors import InputError, printable, writing
from pipeline.io.folder_records import RECORD, record
from pipeline.io.outputs import remove, write_json

LOCK, TURN = "lock", "turn"  # in place of a key
PID = 20  # most digits of a process id
# the system's codes for a link, a folder or a socket
OTHERS = (errno.ELOOP, errno.EISDIR, errno.ENXIO)


def scratch(out: Path, key: str) -> Path:
    """Return the folder of a long stage's work on `out`: next to it, because renames cannot cross disks.

    `key` is a hash of all that the work depends on. git and DVC ignore the name. Raises InputError if DVC
    would refuse `out` after the work is done.
    """
    root = os.environ.get("DVC_ROOT")  # DVC sets it
    if root and not out.parent.resolve().is_relative_to(Path(root).resolve()):
        command = [sys.executable, "-m", "dvc", "config", "core.no_scm"]
        said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout
        if said.strip() == "true":
            return _beside(out, key)
        raise InputError(
            f"{out.parent} is reached by a link out of the repository, where DVC takes no outputs; mount the "
            "disk there (`mount --bind`), or do without `dvc exp`: `dvc config --local core.no_scm true`"
        )
    return _beside(out, key)


def _beside(out: Path, key: str) -> Path:
    return out.with_name(f".{out.name}.{key}.scratch")


def begin(folder: Path) -> None:
    """Make a scratch folder with a record, so that `finish` and `clear` may remove it."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        return
    write_json(folder / RECORD, record("scratch", {}))


def finish(folder: Path) -> bool:
    """Remove a scratch folder if it was made here; return whether it was."""
    made = not folder.is_symlink() and (folder / RECORD).is_file()
    if made:
        remove(folder)
    return made


def clear(out: Path) -> None:
    """Remove all scratch folders of `out` that were made here, of any key; print a note on others.

    Raises InputError if a folder cannot be removed.
    """
    with writing(out):
        left = [
            each.name
            for each in sorted(out.parent.glob(f".{glob.escape(out.name)}.*.scratch"))
            if each not in (_beside(out, LOCK), _beside(out, TURN)) and not finish(each)
        ]
    if left:
        said = f"{len(left)} with the name of a scratch folder, {left[0]} first, not made here"
        print(printable(f"note: {out.parent} holds {said}; left as they are"), file=sys.stderr)


@contextmanager
def alone(out: Path, first: bool = True) -> Iterator[Callable[[], None]]:
    """Hold the lock of the output `out`. The system frees it however this process ends.

    The lock is of the output, not of a scratch folder: work with other settings ends in the same output.
    Yields a function to call before the output is replaced, which raises InputError if the lock was removed.
    Raises InputError if another process has the lock. In a process group, only the `first` takes it.
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
    """Wait until no other process is in its turn on `out`, and take the turn."""
    turn = _beside(out, TURN)
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        file = _opened(turn)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _locked(out: Path, lock: Path) -> int:
    """Return the file `lock`, open and locked, with this process's id in it."""
    while True:
        file = _opened(lock)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            pid = os.pread(file, PID, 0).decode("ascii", "replace")
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
        os.close(file)  # its owner has removed it meanwhile


def _opened(path: Path) -> int:
    """Open a lock's file, or make it. Raises InputError if the file is not such a lock."""
    try:
        # do not follow a link to somebody's file, and do not wait for a pipe
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno in OTHERS:
            raise InputError(f"{path} is no lock of this program; move it away") from None
        raise
    found = os.fstat(file)
    own = stat.S_ISREG(found.st_mode) and found.st_nlink < 2
    if not own or not (b"0" + os.pread(file, PID + 1, 0)).isdigit() or found.st_size > PID:
        os.close(file)
        raise InputError(f"{path} is no lock of this program; move it away")
    return file


def _is(file: int, path: Path) -> bool:
    """Return whether an open file is the one at `path`."""
    try:
        return os.path.samestat(os.fstat(file), path.lstat())
    except FileNotFoundError:
        return False
