"""Freed memory is kept: a second block of the same size costs no new pages."""

import subprocess
import sys

import pytest

from pipeline.compute.kept_memory import keep_freed

TRIAL = """
import resource
import numpy as np
from pipeline.compute.kept_memory import keep_freed

kept = {kept} and keep_freed()
np.ones(16 * 2**20)  # 128 MiB, freed at once
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
np.ones(16 * 2**20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(kept):
    """Page faults of the second block, in a process of its own."""
    found = subprocess.run([sys.executable, "-c", TRIAL.format(kept=kept)], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return int(found.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mallopt is glibc's")
def test_the_second_block_has_its_pages():
    assert faults(kept=True) * 10 < faults(kept=False)


def test_another_c_library_is_left_as_it_is(monkeypatch):
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    assert not keep_freed()
