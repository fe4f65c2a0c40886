"""Memory: how much is free (a GPU's, the machine's, a container's), where it ends, and how it is kept."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:  # who scores captions need not load it
    import torch

from pipeline.io.errors import InputError

# torch's words where the processor has too little: a RuntimeError like any other
REFUSED = ("can't allocate memory", "not enough memory")
GROUPS = Path("/proc/self/cgroup")  # our control groups, a line each: number:controllers:path
MOUNTED = Path("/sys/fs/cgroup")
# a group's limit, what it has used of it, and what of that are files that it has cached and not used lately
FILES = (
    ("memory.max", "memory.current", "inactive_file"),  # control groups of version 2
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),  # of version 1
)

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # of mallopt, in glibc's malloc.h


def free(device: torch.device | None = None) -> int:
    """Return the bytes that may still be taken on the device, else of the processor's memory.

    Of the processor's memory what the system can give without swapping: the page cache may go.
    """
    if device is not None and device.type == "cuda":
        import torch

        return torch.cuda.mem_get_info(device)[0]
    return min([psutil.virtual_memory().available, *_left_to_groups()])


def _left_to_groups() -> Iterator[int]:
    """What is left of the limits of the control group that we are in, and of those above it."""
    for line in GROUPS.read_text().splitlines() if GROUPS.exists() else []:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top = MOUNTED / "memory" if controllers else MOUNTED
        # a container may be told its path on the machine, which it does not see: then its own is at the top
        own = top / os.path.normpath(f"/{path}").lstrip("/")
        for folder in (own, *own.parents):
            if folder.is_relative_to(top):
                yield from _left(folder)


def _left(folder: Path) -> Iterator[int]:
    for limit, usage, idle in FILES:
        if not (folder / limit).exists() or (most := (folder / limit).read_text().strip()) == "max":
            continue
        used = int((folder / usage).read_text())
        counts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        yield max(0, int(most) - used + int(counts[idle]))


@contextmanager
def enough(batch: int, processes: int = 1) -> Iterator[None]:
    """Where memory runs out in the block, one InputError names a batch to try: half, as all can share it.

    On a processor the system may promise memory that it has not, and then ends the process itself (SIGKILL).
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not _ran_out(error):
            raise
        half = batch // 2 // processes * processes
        remedy = f"half of it may fit: batch: {half}" if half else "take smaller `sizes` of the model"
        said = str(error).partition("\n")[0][:200]
        raise InputError(f"memory ran out with batch: {batch}; {remedy} ({said})") from None


def keep_freed() -> bool:
    """From now on memory that is freed stays with the process; False where the C library cannot do so.

    glibc takes blocks above 32 MiB from the kernel and gives them back at once; each time the kernel clears
    their pages anew. Extraction, whose maps are that large, spent two fifths of its time so
    (benchmarks/README.md, "Extraction of the embedded dataset's features").
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):  # not glibc, or not Linux
        return False
    return bool(mallopt(MMAP_MAX, 0)) and bool(mallopt(TRIM_THRESHOLD, 2**31 - 1))


def _ran_out(error: Exception) -> bool:
    import torch  # it is there where its errors come from

    ours = (MemoryError, torch.OutOfMemoryError)
    return isinstance(error, ours) or any(words in str(error) for words in REFUSED)
