"""How much memory is free: the machine's, or the container's where it has less."""

from pathlib import Path

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")  # a container's limit, version 2


def free() -> int | None:
    """Bytes that new arrays and the page cache may take; None where the system does not say."""
    if not MEMINFO.exists():
        return None
    lines = dict(line.split(":") for line in MEMINFO.read_text().splitlines())
    found = int(lines["MemAvailable"].split()[0]) * 1024
    limit, used = CGROUP / "memory.max", CGROUP / "memory.current"
    if limit.exists() and (most := limit.read_text().strip()) != "max":
        found = min(found, int(most) - int(used.read_text()))
    return found
