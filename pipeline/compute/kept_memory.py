"""Memory that is freed stays with the process, for the next tensors of the same size.

glibc takes blocks above 32 MiB from the kernel and gives them back at once; each time the kernel clears their
pages anew. Extraction, whose maps are that large, spent two fifths of its time so (benchmarks/README.md,
"Extraction of the embedded dataset's features").
"""

import ctypes

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # of mallopt, in glibc's malloc.h


def keep_freed() -> bool:
    """From now on; whether the C library can do so (glibc; others are left as they are)."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):  # not glibc, or not Linux
        return False
    return bool(mallopt(MMAP_MAX, 0)) and bool(mallopt(TRIM_THRESHOLD, 2**31 - 1))
