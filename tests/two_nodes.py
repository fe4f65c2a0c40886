"""SLURM with two nodes during a `with` block, if it is installed (.ci/slurm-two-nodes)."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster_jobs import ROOT

MISSING = [name for name in ("sbatch", "slurmctld", "slurmd", "munged") if not shutil.which(name)]
ASKED = os.environ.get("SLURM_TESTS") == "1"
needs_slurm = pytest.mark.skipif(
    bool(MISSING) or not ASKED,
    reason=f"not installed: {', '.join(MISSING)}" if MISSING else "SLURM_TESTS=1 runs them",
)
SAID = "import os; print(os.environ['SLURM_CONF'], flush=True); input()"


@contextmanager
def two_nodes() -> Iterator[Path]:
    """Start SLURM, also for commands of this process; yield the folder of its daemons' process ids."""
    command = [sys.executable, str(ROOT / ".ci/slurm-two-nodes"), sys.executable, "-c", SAID]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as slurm:
        conf = slurm.stdout.readline().strip()
        assert conf, "it did not start"
        before = os.environ.get("SLURM_CONF")
        os.environ["SLURM_CONF"] = conf
        try:
            yield Path(conf).parent
        finally:
            os.environ.pop("SLURM_CONF")
            if before:
                os.environ["SLURM_CONF"] = before
            slurm.communicate("\n")
