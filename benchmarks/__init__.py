"""Benchmarks: times and memory compared with reference implementations. `make bench` runs them."""

import os

import stages  # noqa: F401  # sets GOMP_SPINCOUNT to the same value as in stages

# this must be set before torch is imported; otherwise torch.profiler prints messages when it starts
os.environ.setdefault("KINETO_LOG_LEVEL", "99")
