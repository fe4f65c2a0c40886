"""How much memory is free: a GPU's, the machine's, or the container's where it has less."""

import os
from pathlib import Path

import torch

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")  # a container's limit, version 2


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
