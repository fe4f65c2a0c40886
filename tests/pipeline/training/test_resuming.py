"""The state file of a training: it survives a kill while it is written, and a damaged file is named."""

import os
from pathlib import Path

import pytest
import torch
from torch import nn

from pipeline.io.errors import InputError
from pipeline.training import resuming
from pipeline.training.resuming import History
from tests.killed import KilledError


def made():
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    return model, torch.optim.Adam(model.parameters())


def saved(state, iterations):
    """Save a state for each iteration; the weights are the iteration's number."""
    model, optimiser = made()
    for iteration in iterations:
        nn.init.constant_(model.weight, iteration)
        resuming.save(state, History(iteration=iteration), model, optimiser)


def resumed(state):
    """Return the iteration from which a run resumes, after a check of the weights."""
    model, optimiser = made()
    weights = model.weight.clone()
    iteration = resuming.resume(state, model, optimiser, torch.device("cpu")).iteration
    assert torch.equal(model.weight, torch.full_like(weights, iteration) if iteration else weights)
    return iteration


@pytest.mark.parametrize("data", [b"", None])  # None: truncated
def test_a_damaged_state_is_named(tmp_path, data):
    state = tmp_path / "state.pt"
    saved(state, [4])
    state.write_bytes(state.read_bytes()[:-1000] if data is None else data)
    with pytest.raises(InputError, match=r"state\.pt is damaged"):
        resumed(state)


@pytest.mark.parametrize("before", [[], [4], [4, 8]])
def test_a_kill_while_saving_keeps_the_earlier_state(tmp_path, monkeypatch, before):
    """Each call that renames or flushes a file is the last call before the kill, in turn."""
    moments, call = 0, 0

    def dying(function):
        def called(*given):
            nonlocal call
            call += 1
            if call == moments:
                raise KilledError
            return function(*given)

        return called

    while True:
        moments, call = moments + 1, 0
        state = tmp_path / str(moments) / "state.pt"
        saved(state, before)
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", dying(os.fsync))
            patched.setattr(Path, "replace", dying(Path.replace))
            try:
                saved(state, [12])
            except KilledError:
                assert resumed(state) == max(before, default=0)
            else:
                break
    assert moments > 2
    assert resumed(state) == 12
