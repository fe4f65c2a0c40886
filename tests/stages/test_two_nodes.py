"""A store that torchrun fills over two nodes of SLURM has the bytes of one process."""

import os
import subprocess
import sys

import pytest

from tests.folders import contents
from tests.running import ROOT, succeed
from tests.stage_commands import EXTRACT, PREPARE, STORE
from tests.two_nodes import needs_slurm, two_nodes

pytestmark = [needs_slurm, pytest.mark.slow]
# the cookbook's command; the nodes of this machine have no host names
NODES = "srun --nodes 2 --ntasks-per-node 1"
TORCHRUN = "--nnodes 2 --nproc-per-node 1 --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:29517"


def test_torchrun_over_two_nodes_fills_the_store_of_one_process(raw):
    succeed(raw, PREPARE)
    succeed(raw, EXTRACT.replace(STORE, "whole.zarr"))
    command = f"{NODES} {sys.executable} -m torch.distributed.run {TORCHRUN} -m stages."
    command += EXTRACT.replace(STORE, "nodes.zarr").replace("extract.json", "nodes.json")
    with two_nodes():
        environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command.split(), cwd=raw, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert contents(raw / "nodes.zarr") == contents(raw / "whole.zarr")
    assert '"processes": 2' in (raw / "nodes.json").read_text()
