"""How a stage begins and ends, whatever its environment, its standard streams and its errors are."""

import os
import subprocess
import sys

import pytest

from tests.running import ROOT

SPINS = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ({}, "10000 None"),
        ({"GOMP_SPINCOUNT": "7"}, "7 None"),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, "None ACTIVE"),
    ],
)
def test_idle_threads_spin_briefly_unless_the_user_decides(given, used):
    inherited = {name: value for name, value in os.environ.items() if name not in SPINS}
    code = f"import os, sys, stages; assert 'torch' not in sys.modules; print(*map(os.environ.get, {SPINS}))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=inherited | given,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{used}\n"
