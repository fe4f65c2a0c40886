"""Resuming from the files that a kill or a disk left: whole ones are taken up, damaged ones are named."""

import os
from pathlib import Path

import pytest
import torch
from torch import nn

from pipeline.training import resuming
from pipeline.training.resuming import History
from tests.killed import KilledError

CPU = torch.device("cpu")


def made():
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    return model, torch.optim.Adam(model.parameters())


def saved(state, iterations):
    """Saves with weights that are the iteration's number; returns what a run then resumes from."""
    model, optimiser = made()
    for iteration in iterations:
        nn.init.constant_(model.weight, iteration)
        resuming.save(state, History(iteration=iteration), model, optimiser)


def resumed(state):
    """The iteration that is taken up, and what is said."""
    model, optimiser = made()
    fresh = model.weight.clone()
    history, said = resuming.resume(state, model, optimiser, CPU)
    assert torch.equal(
        model.weight, torch.full_like(fresh, history.iteration) if history.iteration else fresh
    )
    return history.iteration, said


def flip(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def test_the_last_save_is_taken_up_in_silence(tmp_path):
    state = tmp_path / "a" / "state.pt"
    assert resumed(state) == (0, "")
    saved(state, [4])
    assert resumed(state) == (4, "")
    saved(state, [8, 12])
    assert resumed(state) == (12, "")


def test_a_damaged_file_is_named_and_the_one_before_is_taken_up(tmp_path):
    state = tmp_path / "state.pt"
    for damage in (cut, lambda path: flip(path, -1000), lambda path: path.write_bytes(b"")):
        saved(state, [4, 8, 12])
        damage(state)
        assert resumed(state) == (8, f"{state} is damaged; training continues from iteration 8")
        saved(state, [12])
        assert resumed(state) == (12, "")


def test_every_flipped_bit_is_noticed(tmp_path):
    state = tmp_path / "state.pt"
    saved(state, [4])
    whole = state.read_bytes()
    for place in range(0, len(whole), 97):
        flip(state, place)
        assert resumed(state) == (0, f"{state} is damaged; training starts from the beginning")
        state.write_bytes(whole)
    assert resumed(state) == (4, "")


def test_where_nothing_is_whole_it_begins_anew(tmp_path):
    state = tmp_path / "state.pt"
    saved(state, [4, 8])
    cut(state)
    cut(tmp_path / "before.state.pt")
    both = f"{state} and {tmp_path / 'before.state.pt'} are damaged; training starts from the beginning"
    assert resumed(state) == (0, both)
    saved(state, [4, 8])
    (tmp_path / "state.pt.sha256").write_bytes(b"\xff\x00")
    assert resumed(state) == (0, both)
    (tmp_path / "state.pt.sha256").unlink()
    assert resumed(state) == (0, both)


@pytest.mark.parametrize("before", [[], [4], [4, 8]])
def test_a_kill_at_any_moment_of_a_save_loses_no_earlier_one(tmp_path, monkeypatch, before):
    """Every call that renames or syncs is the last one, in turn."""
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
                assert resumed(state) == (max(before, default=0), "")
                saved(state, [16])
                assert resumed(state) == (16, "")
            else:
                break
    assert moments > 4
    assert resumed(state) == (12, "")
