"""The stage train as several processes: resuming, errors, memory."""

import json
import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest
import torch

from pipeline.compute import memory, process_group
from pipeline.config import recipe_file
from pipeline.datasets.schema import of_split, write_pairs
from pipeline.text import vocabularies
from pipeline.training.loop import Training
from tests.pipeline.training.test_loop import recipe
from tests.running import refuse, stage, succeed
from tests.spawned import spawn

pytestmark = pytest.mark.slow

RUN = {"iterations": 20, "validate_every": 10, "cache": "ram", "processes": 2}


@pytest.fixture
def folder(prepared, tmp_path):
    """Pairs and words to train on; `write_recipe` adds the recipe."""
    pairs = [
        replace(pair, captions=tuple(caption.removesuffix(" .") for caption in pair.captions))
        for pair in prepared.pairs
    ]
    write_pairs(tmp_path / "pairs.jsonl", pairs)
    captions = [caption for pair in of_split(pairs, "train") for caption in pair.captions]
    vocabularies.save(tmp_path / "vocab.json", prepared.vocabulary, vocabularies.count_words(captions, True))
    return tmp_path


def command(prepared, folder, to="weights", **changes):
    """The stage's command for a recipe with these settings of train."""
    recipe_file.save(folder / "recipe.yaml", replace(recipe(**RUN | changes)))
    features = Path(prepared.store.location.name).parent
    return (
        f"train --recipe recipe.yaml --seed 1 --pairs pairs.jsonl --vocab vocab.json --features {features} "
        f"--weights {to} --curves curves/{to} --provenance {to}.json --tokens plain"
    )


def kill_one(folder, started):
    """kill -9 for the second process as soon as there is a state to go on from."""
    while not list(folder.glob(".killed.*.scratch/state.pt")):
        time.sleep(0.01)
    os.kill(started[1].pid, signal.SIGKILL)


def test_a_killed_run_that_is_resumed_ends_in_the_same_bytes(prepared, folder, monkeypatch, capfd):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)  # one for each process, as `spawn` gives them
    spawn(succeed, 2, folder, command(prepared, folder, "whole"))
    assert json.loads((folder / "whole.json").read_text())["processes"] == 2
    started, popen = [], subprocess.Popen

    def noted(*given, **settings):
        process = popen(*given, **settings)
        started.append(process)
        return process

    monkeypatch.setattr(process_group.subprocess, "Popen", noted)
    killer = Thread(target=kill_one, args=(folder, started))
    killer.start()
    refuse(folder, command(prepared, folder, "killed"), "process 1 of 2 was ended by SIGKILL")
    killer.join()
    assert "Traceback" not in capfd.readouterr().err  # the other process says nothing of its loss
    assert all(process.returncode for process in started)
    assert not (folder / "killed").exists()
    assert list(folder.glob(".killed.*.scratch/state.pt"))
    spawn(succeed, 2, folder, command(prepared, folder, "killed"))
    names = ["weights.safetensors", *(f"../curves/{{}}/{name}.csv" for name in ("loss", "validation"))]
    for name in names:
        whole, resumed = (folder / to / name.format(to) for to in ("whole", "killed"))
        assert whole.read_bytes() == resumed.read_bytes()
    assert not any(folder.rglob("*.scratch"))


def said(folder, called):
    """Write the exit code and the errors of the stage in this process to a file."""
    done = stage(folder, called)
    (folder / f"{os.environ['RANK']}.said").write_text(f"{done.returncode} {done.stderr}")


def test_an_error_of_all_processes_is_printed_once(prepared, folder):
    called = command(prepared, folder)
    (folder / "vocab.json").write_text("{")
    spawn(said, 2, folder, called)
    silent, heard = sorted((folder / f"{rank}.said").read_text() for rank in range(2))
    assert silent == "2 "
    assert heard.startswith("2 error: vocab.json is not")
    assert heard.count("\n") == 1


def test_features_that_do_not_fit_are_refused_before_anything_is_written(prepared, folder, monkeypatch):
    before = set(folder.iterdir())
    monkeypatch.setattr(memory, "free", lambda device=None: 9_000)
    refuse(folder, command(prepared, folder, processes=1), "train.cache: the features of")
    assert set(folder.iterdir()) - before == {folder / "recipe.yaml"}


def test_memory_that_runs_out_is_one_line_with_half_the_batch(prepared, folder, monkeypatch):
    monkeypatch.setattr(Training, "step", lambda *_: torch.empty(10**16))
    said = refuse(folder, command(prepared, folder, processes=1), "memory ran out with batch: 4; half of it")
    assert "may fit: batch: 2 (" in said
    assert not (folder / "weights").exists()
