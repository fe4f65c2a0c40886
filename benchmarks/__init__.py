"""Side-by-side timings against the plainest implementation; run by hand with `make bench`."""

import os

import stages  # noqa: F401  # sets GOMP_SPINCOUNT, so that a benchmark runs as a stage does

# before torch is imported: without it torch.profiler reports its starts, and that there is no GPU
os.environ.setdefault("KINETO_LOG_LEVEL", "99")
