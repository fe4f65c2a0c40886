"""Timings against reference implementations; run by hand with `make bench`."""

import os

import stages  # noqa: F401  # sets GOMP_SPINCOUNT, as for stages

# before torch is imported: otherwise torch.profiler prints its starts, and that there is no GPU
os.environ.setdefault("KINETO_LOG_LEVEL", "99")
