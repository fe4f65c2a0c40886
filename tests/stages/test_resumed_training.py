"""The stage `train` after a kill, with another process at work, and with changed outputs."""

import pytest
import torch

from pipeline.compute import devices
from pipeline.io.scratch_folders import output_lock
from pipeline.training import resuming
from tests.killed import at_the_first_state
from tests.running import refuse, stage, succeed
from tests.stage_commands import train_with, trained

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("resumed"), "whole")


@pytest.mark.parametrize("same", [True, False])
def test_only_work_of_the_same_device_and_threads_is_resumed(folder, monkeypatch, same):
    to = f"identity{same}"
    with at_the_first_state():
        stage(folder, train_with(1, to))
    assert list(folder.glob(f".{to}.*.scratch/state.pt"))
    taken, resume = [], resuming.resume

    def noted(*given):
        found = resume(*given)
        taken.append(found.iteration)
        return found

    monkeypatch.setattr(resuming, "resume", noted)
    if not same:
        monkeypatch.setattr(devices, "identity", lambda: "another, 2 threads")
    succeed(folder, train_with(1, to))
    assert taken == [2 if same else 0]


def test_the_number_of_threads_is_part_of_the_identity():
    before, threads = devices.identity(), torch.get_num_threads()
    try:
        torch.set_num_threads(threads + 1)
        assert devices.identity() != before
    finally:
        torch.set_num_threads(threads)
    assert devices.identity() == before


def test_only_the_stages_own_output_is_replaced(folder):
    with output_lock(folder / "whole"):
        refuse(folder, train_with(1, "whole"), "still works on whole")
    succeed(folder, train_with(2, "whole"))
    (folder / "whole/mine").write_text("mine")
    refuse(folder, train_with(1, "whole"), "whole holds 'mine'")
    assert (folder / "whole/mine").exists()
    (folder / "whole/mine").unlink()
    succeed(folder, train_with(1, "whole"))
