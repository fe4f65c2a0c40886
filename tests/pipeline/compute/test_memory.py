"""Free memory of the machine or of its container, memory that runs out, and memory that is kept."""

import subprocess
import sys

import psutil
import pytest
import torch

from pipeline.compute import memory
from pipeline.io.errors import InputError

TRIAL = """
import resource
import numpy as np
from pipeline.compute.memory import keep_freed

kept = {kept} and keep_freed()
np.ones(16 * 2**20)  # 128 MiB, freed at once
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
np.ones(16 * 2**20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A machine with 4000 kB available, and a folder for the files of its control groups."""
    found = psutil.virtual_memory()._replace(available=4_096_000)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: found)
    monkeypatch.setattr(memory, "MOUNTED", tmp_path / "mounted")
    monkeypatch.setattr(memory, "GROUP", tmp_path / "group")
    memory.MOUNTED.mkdir()
    memory.GROUP.write_text("0::/\n")
    return tmp_path


def test_free_memory_of_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (1_000, 4_000))  # free, total
    assert memory.free(torch.device("cuda")) == 1_000


def test_free_is_what_the_system_can_give(system):
    assert memory.free() == memory.free(torch.device("cpu")) == 4_096_000


def limit(folder, limit, used, idle):
    """Write the memory files of a control group."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 500000\ninactive_file {idle}\n")


@pytest.mark.parametrize(("most", "expected"), [("max", 4_096_000), ("3000000", 2_100_000), ("900000", 0)])
def test_a_containers_limit_counts_and_its_idle_page_cache_is_free(system, most, expected):
    limit(memory.MOUNTED, most, 1_000_000, 100_000)
    assert memory.free() == expected


@pytest.mark.parametrize(
    ("path", "group", "expected"),
    [
        ("/a/b", "a/b", 2_000_000),
        ("/a/b", "a", 2_000_000),  # a group that contains ours
        ("/docker/1f", "", 2_000_000),  # the path of the host, which does not exist in the container
        ("/a", "b", 4_096_000),
    ],
)
def test_the_limits_of_our_own_control_groups_count(system, path, group, expected):
    memory.GROUP.write_text(f"0::{path}\n")
    limit(memory.MOUNTED / group, 3_000_000, 1_500_000, 500_000)
    assert memory.free() == expected


@pytest.mark.parametrize(
    ("path", "group", "most", "expected"),
    [
        ("/a/b", "a/b", 3_000_000, 2_000_000),
        ("/a/b", "a", 3_000_000, 2_000_000),  # a group that contains ours
        ("/docker/1f", "", 3_000_000, 2_000_000),  # the path of the host
        ("/a", "a", 9_223_372_036_854_771_712, 4_096_000),  # no limit
        ("/a", "b", 3_000_000, 4_096_000),
    ],
)
def test_limits_of_control_groups_of_version_1_count(system, path, group, most, expected):
    memory.GROUP.write_text(f"12:cpu,cpuacct:/x\n7:memory:{path}\n1:name=systemd:/y:z\n0::/w\n")
    folder = memory.MOUNTED / "memory" / group
    folder.mkdir(parents=True)
    (folder / "memory.limit_in_bytes").write_text(f"{most}\n")
    (folder / "memory.usage_in_bytes").write_text("1500000\n")
    (folder / "memory.stat").write_text("inactive_file 3\ntotal_inactive_file 500000\n")
    assert memory.free() == expected


@pytest.mark.parametrize(
    ("batch", "processes", "remedy"),
    [
        (9, 1, "half of it may fit: batch: 4 "),
        (12, 4, "half of it may fit: batch: 4 "),  # one that four processes can share
        (4, 4, "take smaller `sizes` of the model "),
        (1, 1, "take smaller `sizes` of the model "),
    ],
)
def test_if_memory_runs_out_half_the_batch_is_proposed(batch, processes, remedy):
    with pytest.raises(InputError) as caught, memory.enough(batch, processes):
        torch.empty(10**16)
    assert str(caught.value).startswith(f"memory ran out with batch: {batch}; {remedy}([enforce fail")
    assert "\n" not in str(caught.value)


def faults(kept):
    """Return the page faults of the second block, measured in another process."""
    found = subprocess.run([sys.executable, "-c", TRIAL.format(kept=kept)], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return int(found.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mallopt is glibc's")
def test_freed_memory_is_kept_so_that_a_second_block_costs_no_new_pages():
    assert faults(kept=True) * 10 < faults(kept=False)
