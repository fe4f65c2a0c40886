"""The stage `train` after a kill: what it takes up, what it does not, and who may work beside it."""

import pytest
import torch

from pipeline.compute import devices
from pipeline.io.scratch_folders import alone
from pipeline.training import resuming
from tests.killed import at_the_first_state
from tests.running import refuse, stage, succeed
from tests.stage_commands import train_with, trained

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("resumed"), "whole")


def killed(folder, to):
    """A training that was killed after its first validation; returns its state."""
    with at_the_first_state():
        stage(folder, train_with(1, to))
    (state,) = folder.glob(f".{to}.*.scratch/state.pt")
    return state


@pytest.mark.parametrize("same", [True, False])
def test_work_of_another_device_or_thread_count_is_not_taken_up(folder, monkeypatch, same):
    to = f"identity{same}"
    killed(folder, to)
    taken, resume = [], resuming.resume

    def noted(*given):
        found = resume(*given)
        taken.append(found[0].iteration)
        return found

    monkeypatch.setattr(resuming, "resume", noted)
    if not same:
        monkeypatch.setattr(devices, "identity", lambda: "another, 2 threads")
    succeed(folder, train_with(1, to))
    assert taken == [2 if same else 0]


def test_what_of_a_machine_decides_the_bytes():
    before, threads = devices.identity(), torch.get_num_threads()
    try:
        torch.set_num_threads(threads + 1)
        assert devices.identity() != before
    finally:
        torch.set_num_threads(threads)
    assert devices.identity() == before


def test_beside_another_process_it_is_refused_and_its_own_output_is_replaced(folder):
    with alone(folder / "whole"):
        refuse(folder, train_with(1, "whole"), "still works on whole; wait for it, or end it")
    succeed(folder, train_with(2, "whole"))
    (folder / "whole/mine").write_text("a stranger's")
    refuse(folder, train_with(1, "whole"), "whole holds 'mine', which was not written by")
    assert (folder / "whole/mine").exists()
    (folder / "whole/mine").unlink()
    succeed(folder, train_with(1, "whole"))
