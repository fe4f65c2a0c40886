"""Memory: free memory of a GPU, machine or container; errors when memory runs out; reuse of freed memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:  # scoring runs without torch
    import torch

from pipeline.io.errors import InputError

# parts of torch's messages when CPU memory runs out; the exception is a plain RuntimeError
REFUSED = ("can't allocate memory", "not enough memory")
# a line for each hierarchy: "0::" (version 2) or "number:names:" (version 1), and the path of our group
GROUP = Path("/proc/self/cgroup")
MOUNTED = Path("/sys/fs/cgroup")
TRIM_THRESHOLD, MMAP_MAX = -1, -4  # options of mallopt, from glibc's malloc.h


def free(device: torch.device | None = None) -> int:
    """Return the free bytes of a GPU, or of the machine (without swapping) within its container's limit."""
    if device is not None and device.type == "cuda":
        import torch

        return torch.cuda.mem_get_info(device)[0]
    return min([psutil.virtual_memory().available, *_free_in_groups()])


def _free_in_groups() -> Iterator[int]:
    """Yield the free bytes of each limited control group of this process, which psutil ignores."""
    lines = GROUP.read_text().splitlines() if GROUP.exists() else []
    paths = {names: path.lstrip("/") for _, names, path in (line.split(":", 2) for line in lines)}
    # in a container, the path may be one of the host, and the container's own group is at the top
    first = MOUNTED / paths.get("", "")
    for folder in (first, *first.parents):
        yield from _free_in(folder, "memory.max", "memory.current", "inactive_file")
    # version 1 has a folder for each kind of limit; without a limit, its number exceeds all memory
    first = MOUNTED / "memory" / paths.get("memory", "")
    for folder in (first, *first.parents):
        yield from _free_in(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _free_in(folder: Path, limit_file: str, usage_file: str, freeable: str) -> Iterator[int]:
    """Yield the free bytes of a control group, if it has a limit; `freeable`: key of its page cache."""
    file = folder / limit_file
    if file.exists() and (limit := file.read_text().strip()) != "max":
        counts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        yield max(0, int(limit) - int((folder / usage_file).read_text()) + int(counts[freeable]))


@contextmanager
def enough(batch: int, processes: int = 1) -> Iterator[None]:
    """If memory runs out in the block, raise an InputError that proposes half the batch size.

    The proposed size is a multiple of `processes`. On a CPU, the system may instead kill the process.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not _ran_out(error):
            raise
        half = batch // 2 // processes * processes
        remedy = f"half of it may fit: batch: {half}" if half else "take smaller `sizes` of the model"
        reason = str(error).partition("\n")[0][:200]
        raise InputError(f"memory ran out with batch: {batch}; {remedy} ({reason})") from None


def keep_freed() -> bool:
    """Make the C library keep freed memory, whose clearing took 2/5 of an extraction, if possible."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):  # not glibc, or not Linux
        return False
    return bool(mallopt(MMAP_MAX, 0)) and bool(mallopt(TRIM_THRESHOLD, 2**31 - 1))


def _ran_out(error: Exception) -> bool:
    import torch  # not at the top, because scoring runs without torch

    types = (MemoryError, torch.OutOfMemoryError)
    return isinstance(error, types) or any(words in str(error) for words in REFUSED)
