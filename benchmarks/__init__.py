"""Benchmarks: times and memory compared with reference implementations. `make bench` runs them."""

import stages  # noqa: F401  # sets GOMP_SPINCOUNT to the same value as in stages
