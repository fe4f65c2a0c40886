"""Free memory: the machine's, the container's where it has less, or not to be told."""

import os

import pytest
import torch

from pipeline.compute import memory
from pipeline.errors import InputError


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A made-up machine with 4000 kB available; its folder takes a container's files."""
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    memory.MEMINFO.write_text("MemTotal:       9000 kB\nMemAvailable:    4000 kB\n")
    return tmp_path


def test_free_is_what_the_system_can_give(system):
    assert memory.free() == memory.free(torch.device("cpu")) == 4_096_000


@pytest.mark.parametrize(("limit", "expected"), [("max", 4_096_000), ("3000000", 2_100_000)])
def test_a_containers_limit_counts_and_its_idle_page_cache_is_free(system, limit, expected):
    (system / "memory.max").write_text(f"{limit}\n")
    (system / "memory.current").write_text("1000000\n")
    (system / "memory.stat").write_text("anon 500000\ninactive_file 100000\n")
    assert memory.free() == expected


def test_a_gpu_has_its_own(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (7 + device.index, 10))
    assert memory.free(torch.device("cuda", 1)) == 8


def test_elsewhere_free_pages_are_counted_or_nothing_is_known(system, monkeypatch):
    memory.MEMINFO.unlink()
    monkeypatch.setattr(os, "sysconf_names", {"SC_AVPHYS_PAGES": 1}, raising=False)
    monkeypatch.setattr(os, "sysconf", {"SC_AVPHYS_PAGES": 10, "SC_PAGE_SIZE": 4096}.get)
    assert memory.free() == 40_960
    monkeypatch.setattr(os, "sysconf_names", {})
    assert memory.free() is None


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
