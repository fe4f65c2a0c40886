"""Processes start together and end together, whatever ends one of them."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest
import torch

from pipeline.compute.process_group import ALONE, Ranks, check_group, processes, start
from pipeline.io.errors import InputError
from tests.spawned import CONTEXT

STARTED = "tests.pipeline.compute.waiting"


def numbers(folder):
    """Number of each started process -> its id, the number of processes, its threads."""
    return {file.name: [int(x) for x in file.read_text().split()] for file in folder.glob("[0-9]")}


def ended(number):
    """Return True if a process does not exist any more, or has only its exit code left."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rsplit(")")[-1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def interruptible(module, arguments, count):
    """Call `start` in another process, which Ctrl-C ends even if the tests ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        start(module, arguments, count)
    except KeyboardInterrupt:
        sys.exit(130)


def test_all_end_well(tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    assert start(STARTED, [str(tmp_path), "0", "0", "0"], 3) == 0
    found = numbers(tmp_path)
    assert sorted(found) == ["0", "1", "2"]
    assert all((world, threads) == (3, 2) for _, world, threads in found.values())
    assert len({number for number, _, _ in found.values()} | {os.getpid()}) == 4


@pytest.mark.parametrize("orders", [["wait", "2"], ["2", "wait"]], ids=str)
def test_a_process_that_fails_ends_the_others_and_gives_the_exit_code(tmp_path, orders):
    begun = time.monotonic()
    assert start(STARTED, [str(tmp_path), *orders], 2) == 2
    assert time.monotonic() - begun < 30
    assert all(ended(number) for number, _, _ in numbers(tmp_path).values())


def test_a_killed_process_is_named_in_one_line(tmp_path):
    with pytest.raises(InputError, match=r"process 1 of 2 was ended by SIGKILL .*; run again") as caught:
        start(STARTED, [str(tmp_path), "wait", "die"], 2)
    assert "\n" not in str(caught.value)
    assert all(ended(number) for number, _, _ in numbers(tmp_path).values())


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked for in /proc")
@pytest.mark.parametrize(
    ("how", "order", "ready"),
    [(signal.SIGKILL, "follow", "*.follows"), (signal.SIGINT, "wait", "[01]")],
    ids=["SIGKILL", "SIGINT"],
)
def test_processes_end_when_their_starter_is_killed_or_interrupted(tmp_path, how, order, ready):
    starter = CONTEXT.Process(target=interruptible, args=(STARTED, [str(tmp_path), order, order], 2))
    starter.start()
    while len(list(tmp_path.glob(ready))) < 2:
        assert starter.exitcode is None
        time.sleep(0.05)
    assert not any(ended(number) for number, _, _ in numbers(tmp_path).values())
    os.kill(starter.pid, how)
    starter.join(10)
    assert starter.exitcode == {signal.SIGKILL: -signal.SIGKILL, signal.SIGINT: 130}[how]
    until = time.monotonic() + 10
    while not all(ended(number) for number, _, _ in numbers(tmp_path).values()):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_processes_must_divide_the_batch():
    assert processes({"processes": 4, "batch": 8}) == 4
    with pytest.raises(InputError, match=r"train\.processes, 3, does not divide train\.batch, 8"):
        processes({"processes": 3, "batch": 8})


def test_torchrun_must_start_as_many_as_the_recipe_says():
    settings = {"processes": 2, "batch": 8}
    check_group(settings, Ranks(1, 2))
    for ranks in (ALONE, Ranks(1, 4)):
        with pytest.raises(InputError, match=r"torchrun started [14] processes, train\.processes is 2"):
            check_group(settings, ranks)


def test_more_processes_than_gpus_are_not_started(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(InputError, match=r"train\.processes is 4, but this machine has 2 GPU"):
        start(STARTED, [str(tmp_path), *4 * "0"], 4)
    assert numbers(tmp_path) == {}
