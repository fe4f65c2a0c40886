"""Scratch folders for the unfinished work of long stages, and locks.

With the locks, one process at a time works on an output. A file or folder that has the name of a scratch
folder or of a lock, but was not made by this module, is neither changed nor removed.
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

LOCK, TURN = "lock", "turn"  # the names of the two lock files have these words in place of a key
PID = 20  # maximum number of digits of a process id
# the system's error codes for opening a link, a folder or a socket
OTHERS = (errno.ELOOP, errno.EISDIR, errno.ENXIO)


def scratch(out: Path, key: str) -> Path:
    """Return the path of the folder in which a long stage prepares its output `out`.

    The folder is next to `out`, because a rename cannot cross disks. `key`, a hash of everything that the
    work depends on, is part of the folder's name. git and DVC ignore folders with such names.

    DVC refuses an output if a link on its path leads out of DVC's repository. This function checks that
    before the work, and raises InputError if DVC would refuse `out`.
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
    """Make a scratch folder with a record. The record permits `finish` and `clear` to remove the folder."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        return
    write_json(folder / RECORD, record("scratch", {}))


def finish(folder: Path) -> bool:
    """Remove a scratch folder if `begin` made it. Return True if the folder was removed."""
    made = not folder.is_symlink() and (folder / RECORD).is_file()
    if made:
        remove(folder)
    return made


def clear(out: Path) -> None:
    """Remove all scratch folders of `out` that `begin` made, whatever their key.

    A note is printed if other files or folders have such a name. Raises InputError if a folder cannot be
    removed.
    """
    with writing(out):
        left = [
            each.name
            for each in sorted(out.parent.glob(f".{glob.escape(out.name)}.*.scratch"))
            if each not in (_beside(out, LOCK), _beside(out, TURN)) and not finish(each)
        ]
    if left:
        said = f"{len(left)} files or folders with the name of a scratch folder ({left[0]} is the first)"
        print(printable(f"note: {out.parent} has {said}; they were not made here and stay"), file=sys.stderr)


@contextmanager
def alone(out: Path, first: bool = True) -> Iterator[Callable[[], None]]:
    """Hold the lock of the output `out` in the `with` block. The system frees the lock if the process ends.

    Raises InputError if another process holds the lock. The lock does not depend on the settings of the work,
    because work with other settings replaces the same output. Call the yielded function before the output is
    replaced: it raises InputError if the lock was removed meanwhile. In a process group, only the process in
    which `first` is true takes the lock.
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
    """Wait until no other process is in this `with` block for the same `out`. Then run the block."""
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
    """Open and lock the file `lock`, and write this process's id into it. Return the file descriptor.

    Raises InputError if another process holds the lock of `out`, or if the disk cannot lock files.
    """
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
        os.close(file)  # another process has removed the file since it was opened


def _opened(path: Path) -> int:
    """Open or make a lock file. Raises InputError if the path exists and is no lock file."""
    try:
        # do not follow a link, which may lead to a file of the user, and do not wait for a pipe
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
    """Return True if the open file is the file at `path`."""
    try:
        return os.path.samestat(os.fstat(file), path.lstat())
    except FileNotFoundError:
        return False
