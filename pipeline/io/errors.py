"""The one exception that means "the user can mend this", and how errors of writing become it."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOST_FOLDERS = 100  # of a path, where more may be said to be too many
# these come of writing alone, so that they need not name the file
UNWRITABLE = {
    errno.ENOSPC: "the disk is full; free some space on it",
    errno.EDQUOT: "your quota of the disk is used up; free some of it",
    errno.EFBIG: "the file is larger than is allowed; raise the limit (`ulimit -f`)",
    errno.EROFS: "the file system is read-only; mount it for writing",
}
REFUSED = "there is no permission to; give yourself the right to write there"
IN_THE_WAY = "a file, or a link to nothing, stands on the way; move it away"
FAULTS = UNWRITABLE | {
    errno.EACCES: REFUSED,
    errno.EPERM: REFUSED,
    errno.EEXIST: IN_THE_WAY,
    errno.ENOTDIR: IN_THE_WAY,
}
# how shutil, safetensors and TensorStore tell the system's error in exceptions of their own
CODE = re.compile(r"(?:\[Errno |\(os error |os_error_code=')(\d+)")
BESIDE = re.compile(r"\.(.+)\.\w+\.(partial|scratch)")
# control characters but tab and line end, marks that turn the direction of writing, halves of characters
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class InputError(Exception):
    """Bad input, said so that a person can act on it.

    The message names the file, key or pair and the remedy. Stages print it as
    ``error: …`` and leave with exit code 2, without a traceback. Each of its arguments is a line of
    its own: a name with a line's end in it makes no other.
    """

    def __str__(self) -> str:
        return "\n  ".join(str(line).replace("\n", "\\n") for line in self.args)


def printable(text: str) -> str:
    """A text for a terminal, which a stranger's word or name could steer, but as JSON writes it: \\u001b."""
    return STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def listed(
    problems: list[str], what: str, remedy: str, shown: int = 20, count: int | None = None
) -> InputError:
    """An InputError over many problems: the count, the first ones by name, the remedy.

    `count` is how many there are where `problems` are only the first of them.
    """
    count = len(problems) if count is None else count
    rest = f" (the first {shown} of {count})" if count > shown else ""
    return InputError(f"{what}: {count} problem(s){rest}; {remedy}", *problems[:shown])


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Say in one InputError why the file or folder `path` cannot be written in the block.

    Other errors of the system are raised as they are: they may be of reading. One that comes of writing
    alone, but to another file, is said of that.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if (refused := _refused(error, Path(path))) is None:
            raise
        raise refused from None


def _refused(error: Exception, path: Path) -> InputError | None:
    if isinstance(error, RecursionError) and len(path.parts) > MOST_FOLDERS:  # Path.mkdir calls itself
        start = Path(*path.parts[:4])
        return InputError(
            f"cannot write below {start}: {len(path.parts):,} folders within each other; name fewer"
        )
    # of a copy the system names both files, and the second one could not be written
    code, name = _code(error), getattr(error, "filename2", None) or getattr(error, "filename", None)
    file = Path(name) if isinstance(name, (str, os.PathLike)) else None  # write() and close() name none
    if code == errno.ENOENT and file is None and "temporary directory" in str(error):  # of Python's tempfile
        said = "free some space there, or set TMPDIR to a folder on another disk"
        return InputError(f"{getattr(error, 'strerror', error)}; {said}")
    if code is None or (code not in UNWRITABLE and (file is None or not _belongs(file, path))):
        return None
    said = FAULTS.get(code, f"{os.strerror(code)}; mend that")
    return InputError(f"cannot write {_shown(file or path)}: {said}, and run it again")


def _code(error: Exception) -> int | None:
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    found = CODE.search(str(error))
    return int(found[1]) if found else None


def _belongs(file: Path, path: Path) -> bool:
    """Whether `file` is `path`, lies in it or above it, or is made to become it."""
    file, path = file.absolute(), path.absolute()
    if file == path or file in path.parents:
        return True
    below = file.relative_to(path.parent).parts[0] if path.parent in file.parents else ""
    return below == path.name or below.startswith(f".{path.name}.")


def _shown(path: Path) -> Path:
    """The output's own name, for what lies beside it until it is whole."""
    for place, part in enumerate(path.parts):
        if found := BESIDE.fullmatch(part):
            below = path.parts[place + 1 :] if found[2] == "partial" else ()
            return Path(*path.parts[:place], found[1], *below)
    return path
