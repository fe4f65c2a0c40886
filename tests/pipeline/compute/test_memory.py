"""Free memory (the machine's, the container's where it has less, or not to be told), and how it is kept."""

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
    """A made-up machine with 4000 kB available; its folder takes a container's files."""
    told = psutil.virtual_memory()._replace(available=4_096_000)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: told)
    monkeypatch.setattr(memory, "MOUNTED", tmp_path / "mounted")
    monkeypatch.setattr(memory, "GROUPS", tmp_path / "groups")
    memory.MOUNTED.mkdir()
    memory.GROUPS.write_text("0::/\n")
    return tmp_path


def test_free_is_what_the_system_can_give(system):
    assert memory.free() == memory.free(torch.device("cpu")) == 4_096_000


def limited(folder, limit, used, idle, version=2):
    """A control group's files of memory."""
    names = {2: ("max", "current", ""), 1: ("limit_in_bytes", "usage_in_bytes", "total_")}[version]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"memory.{names[0]}").write_text(f"{limit}\n")
    (folder / f"memory.{names[1]}").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 500000\n{names[2]}inactive_file {idle}\n")


@pytest.mark.parametrize(("limit", "expected"), [("max", 4_096_000), ("3000000", 2_100_000), ("900000", 0)])
def test_a_containers_limit_counts_and_its_idle_page_cache_is_free(system, limit, expected):
    limited(memory.MOUNTED, limit, 1_000_000, 100_000)
    assert memory.free() == expected


@pytest.mark.parametrize(
    ("path", "group", "expected"),
    [
        ("/a/b", "a/b", 2_000_000),
        ("/a/b", "a", 2_000_000),  # that of a group above holds, too
        ("/docker/1f", "", 2_000_000),  # the machine's path, which the container does not have
        ("/../c", "c", 2_000_000),
        ("/a", "b", 4_096_000),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_the_limits_are_those_of_our_own_group(system, version, path, group, expected):
    top = {1: memory.MOUNTED / "memory", 2: memory.MOUNTED}[version]
    others = "12:cpu,cpuacct:/x\n3:memory:" if version == 1 else "0::"
    memory.GROUPS.write_text(f"{others}{path}\n1:name=systemd:/y\n")
    limited(top / group, 3_000_000, 1_500_000, 500_000, version)
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
def test_where_memory_runs_out_half_the_batch_is_named(batch, processes, remedy):
    with pytest.raises(InputError) as caught, memory.enough(batch, processes):
        torch.empty(10**16)
    assert str(caught.value).startswith(f"memory ran out with batch: {batch}; {remedy}([enforce fail")
    assert "\n" not in str(caught.value)


def faults(kept):
    """Page faults of the second block, in a process of its own."""
    found = subprocess.run([sys.executable, "-c", TRIAL.format(kept=kept)], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return int(found.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mallopt is glibc's")
def test_freed_memory_is_kept_so_that_a_second_block_costs_no_new_pages():
    assert faults(kept=True) * 10 < faults(kept=False)
