"""How much memory is free: a GPU's, the machine's, or a container's where it has less; and where it ends."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from pipeline.errors import InputError

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")  # a container's limit, version 2
# torch's words where the processor has too little: a RuntimeError like any other
REFUSED = ("can't allocate memory", "not enough memory")


def free(device: torch.device | None = None) -> int | None:
    """Bytes that may still be taken on the device, else of the processor's memory; None where nobody tells.

    Of the processor's memory what the system can give without swapping: the page cache may go.
    """
    if device is not None and device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if not MEMINFO.exists():  # not Linux: free pages at least, where the system counts them
        known = "SC_AVPHYS_PAGES" in getattr(os, "sysconf_names", {})
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if known else None
    lines = dict(line.split(":") for line in MEMINFO.read_text().splitlines())
    available = 1024 * int(lines["MemAvailable"].split()[0])
    limit = _container()
    return available if limit is None else min(available, limit)


def _container() -> int | None:
    """What is left of a control group's limit; files that it has cached and not used lately can go."""
    limit = CGROUP / "memory.max"
    if not limit.exists() or (most := limit.read_text().strip()) == "max":
        return None
    used = int((CGROUP / "memory.current").read_text())
    counts = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
    return int(most) - used + int(counts["inactive_file"])


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


def _ran_out(error: Exception) -> bool:
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or any(
        words in str(error) for words in REFUSED
    )
