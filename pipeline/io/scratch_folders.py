"""Scratch folders for the unfinished work of long stages, and the lock of each output.

With the lock, one process at a time works on an output. A folder that has the name of a scratch folder, but
was not made by `begin`, is not removed.
"""

import fcntl
import glob
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.io.errors import InputError, writing
from pipeline.io.folder_records import RECORD, record
from pipeline.io.outputs import remove, write_json

LOCK = "lock"  # the name of the lock file has this word in place of a key
PID_DIGITS = 20  # maximum number of digits of a process id


def scratch(out: Path, key: str) -> Path:
    """Return the path of the folder, next to `out`, in which a long stage prepares its output `out`.

    The name contains `key`, a hash of everything that the work depends on. git and DVC ignore such names.
    Raises InputError if links lead from the parent folder of `out` to a place outside DVC's repository,
    because DVC would refuse the output only at the end of the work. This check is left out if DVC does not
    run the program, or if DVC's option core.no_scm is true.
    """
    root = os.environ.get("DVC_ROOT")  # DVC sets it
    if root and not out.parent.resolve().is_relative_to(Path(root).resolve()):
        command = [sys.executable, "-m", "dvc", "config", "core.no_scm"]
        no_scm = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout
        if no_scm.strip() != "true":
            raise InputError(
                f"{out.parent} is reached by a link out of the repository, where DVC takes no outputs; mount "
                "the disk there (`mount --bind`), or do without `dvc exp`: "
                "`dvc config --local core.no_scm true`"
            )
    return _path_next_to(out, key)


def _path_next_to(out: Path, key: str) -> Path:
    return out.with_name(f".{out.name}.{key}.scratch")


def begin(folder: Path) -> None:
    """Make a scratch folder with a record, which permits `finish` and `clear` to remove the folder."""
    if not folder.exists():
        folder.mkdir(parents=True)
        write_json(folder / RECORD, record("scratch", {}))


def finish(folder: Path) -> None:
    """Remove a scratch folder if `begin` made it."""
    if not folder.is_symlink() and (folder / RECORD).is_file():
        remove(folder)


def clear(out: Path) -> None:
    """Remove all scratch folders of the output `out`. Folders that `begin` did not make are kept."""
    with writing(out):
        for folder in out.parent.glob(f".{glob.escape(out.name)}.*.scratch"):
            finish(folder)


@contextmanager
def output_lock(out: Path, is_first: bool = True, wait: bool = False) -> Iterator[None]:
    """Hold the lock of the output `out` in the `with` block. The system frees the lock if the process ends.

    If another process holds the lock, this function waits if `wait` is true, and raises InputError
    otherwise. In a process group, only the process in which `is_first` is true takes the lock.
    """
    if not is_first:
        yield
        return
    lock = _path_next_to(out, LOCK)
    with writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        file = _locked(out, lock, wait)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(file)


def _is_same_file(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:  # another process may remove the file at any time
        return False


def _locked(out: Path, lock: Path, wait: bool) -> int:
    """Open and lock the file `lock`, write this process's id into it, and return the file descriptor.

    If another process holds the lock, wait if `wait` is True, else raise an InputError naming `out`.
    """
    while True:
        file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            pid = os.pread(file, PID_DIGITS, 0).decode("ascii", "replace")
            os.close(file)
            message = f"{lock} cannot be locked ({error.strerror}); use a disk that can do it"
            if isinstance(error, BlockingIOError):
                message = f"another process (pid {pid}) still works on {out}; wait, or end it (`kill {pid}`)"
            raise InputError(message) from None
        if _is_same_file(file, lock):
            os.truncate(file, 0)
            os.pwrite(file, str(os.getpid()).encode(), 0)
            return file
        os.close(file)  # the process that held the lock has removed the file
