"""InputError: an error that the user can correct; and functions that turn other errors into an InputError."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# these errors occur only when writing, so they are converted even if they do not name a file
UNWRITABLE = {
    errno.ENOSPC: "the disk is full; free some space on it",
    errno.EDQUOT: "your quota of the disk is used up; free some of it",
    errno.EFBIG: "the file is larger than is allowed; raise the limit (`ulimit -f`)",
    errno.EROFS: "the file system is read-only; mount it for writing",
}
NO_PERMISSION = "there is no permission to; give yourself the right to write there"
IN_THE_WAY = "a file, or a link to nothing, is in the way; move it away"
FAULTS = UNWRITABLE | {
    errno.EACCES: NO_PERMISSION,
    errno.EPERM: NO_PERMISSION,
    errno.EEXIST: IN_THE_WAY,
    errno.ENOTDIR: IN_THE_WAY,
}
# finds the system's error code in messages of shutil, safetensors and TensorStore
ERROR_CODE = re.compile(r"(?:\[Errno |\(os error |os_error_code=')(\d+)")
TEMPORARY_NAME = re.compile(r"\.(.+)\.\w+\.(partial|scratch)")
# control characters except tab and newline, marks that change the text direction, surrogates
CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
MOST_LISTED = 20  # maximum number of problems that an error lists


class InputError(Exception):
    """An error in the user's input. The message names the file, key or pair, and says what to do.

    Stages print the message as ``error: …`` and exit with code 2, without a traceback. Each argument of the
    error becomes one line of the message. A line end inside an argument is written as \\n.
    """

    def __str__(self) -> str:
        return "\n  ".join(str(line).replace("\n", "\\n") for line in self.args)


def printable(text: str) -> str:
    """Escape control characters as in JSON (\\u001b), so that no text can control the terminal."""
    return CONTROL_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def listed(problems: list[str], subject: str, remedy: str) -> InputError:
    """Return an InputError with `subject`, the number of problems, `remedy`, and the first problems."""
    count = len(problems)
    selection = f" (the first {MOST_LISTED} of {count})" if count > MOST_LISTED else ""
    return InputError(f"{subject}: {count} problem(s){selection}; {remedy}", *problems[:MOST_LISTED])


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Turn errors of writing `path`, a file or folder, in the `with` block into an InputError.

    Other errors are raised unchanged. Converted are errors that name `path`, a folder above it, a file below
    it or its temporary file, and errors that only writing can cause, such as "the disk is full" (UNWRITABLE).
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if (input_error := _input_error(error, Path(path))) is None:
            raise
        raise input_error from None


def _input_error(error: Exception, path: Path) -> InputError | None:
    # torch.save hides the system's error behind its own
    if not isinstance(error, OSError) and isinstance(error.__context__, OSError):
        error = error.__context__
    # the error of a copy names both files; the second is the file that could not be written
    code, name = _error_code(error), getattr(error, "filename2", None) or getattr(error, "filename", None)
    # errors of write() and close() have no file name
    file = Path(name) if isinstance(name, (str, os.PathLike)) else None
    if code is None or (code not in UNWRITABLE and (file is None or not _is_related(file, path))):
        return None
    fault = FAULTS.get(code, f"{os.strerror(code)}; correct that")
    return InputError(f"cannot write {_final_path(file or path)}: {fault}, and run it again")


def _error_code(error: Exception) -> int | None:
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    match = ERROR_CODE.search(str(error))
    return int(match[1]) if match else None


def _is_related(file: Path, path: Path) -> bool:
    """Return True if `file` is `path`, a folder above it, a file below it, or its temporary file."""
    file, path = file.absolute(), path.absolute()
    if file == path or file in path.parents:
        return True
    name = file.relative_to(path.parent).parts[0] if path.parent in file.parents else ""
    return name == path.name or name.startswith(f".{path.name}.")


def _final_path(path: Path) -> Path:
    """Return the final path for a temporary path (`.NAME.x.partial` or `.NAME.x.scratch`)."""
    for index, part in enumerate(path.parts):
        if match := TEMPORARY_NAME.fullmatch(part):
            below = path.parts[index + 1 :] if match[2] == "partial" else ()
            return Path(*path.parts[:index], match[1], *below)
    return path
