"""The queue on this machine: every job is done once, whatever is killed, and a failure stops no other."""

import os
import signal
import subprocess
import sys
import time

import pytest

from pipeline.study import job, queue
from pipeline.study.places import CANCELLED, Local
from pipeline.study.queue import Queue, cancel
from tests.cluster_jobs import ROOT, Shell, once

HOLDS = "while [ ! -e go ]; do sleep 0.05; done"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(queue, "POLL", 0.05)
    monkeypatch.setattr(job, "POLL", 0.05)


def until(there, seconds=30.0):
    end = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < end
        time.sleep(0.02)


def states(found):
    return [entry.state for entry in found.entries]


def test_all_are_done_once_and_some_at_a_time(tmp_path):
    tasks = [Shell(tmp_path / str(n), once("a")) for n in range(3)]
    most = []
    found = Queue(Local(2), tasks)
    assert found.run(lambda: most.append(sum(entry.state == "running" for entry in found.entries))) == []
    assert [(task.taken, task.ran()) for task in tasks] == [(1, ["a"])] * 3
    assert max(most) == 2


def test_one_that_fails_tells_its_last_error_line_and_the_others_go_on(tmp_path):
    bad = Shell(tmp_path / "bad", "echo 'error: the loss is nan; lower it' >&2; echo later; exit 2")
    mute = Shell(tmp_path / "mute", "exit 1")
    good = Shell(tmp_path / "good", once("a"))
    failed = Queue(Local(1), [bad, mute, good]).run()
    assert [(entry.task.name, entry.state, entry.line) for entry in failed] == [
        ("bad", "failed", "the loss is nan; lower it"),
        ("mute", "failed", "it said nothing"),
    ]
    assert (good.taken, bad.taken) == (1, 0)
    # it is mended, and started again
    bad.commands = (once("b"),)
    assert Queue(Local(1), [bad]).run() == []
    assert bad.taken == 1


def test_a_job_that_is_killed_goes_on_behind_what_it_made(tmp_path):
    task = Shell(tmp_path / "a", once("first"), f"echo second >> ran; {HOLDS}; touch out1")
    found = Queue(Local(1), [task])
    found.turn()
    until(lambda: task.ran() == ["first", "second"])
    os.killpg(job.holder(task.folder), signal.SIGKILL)
    (task.folder / "go").touch()
    assert found.run() == []
    assert task.ran() == ["first", "second", "second"]
    assert task.taken == 1


def test_one_that_ends_again_and_again_without_a_verdict_is_given_up(tmp_path):
    task = Shell(tmp_path / "a", "echo a >> ran; kill -TERM $$")
    (entry,) = Queue(Local(1), [task]).run()
    assert entry.state == "failed"
    assert "ended 3 times without coming further (it was ended from outside (exit code" in entry.line
    assert task.ran() == ["a"] * 3


def test_one_that_never_began_names_the_folder_that_nodes_must_see(tmp_path, monkeypatch):
    monkeypatch.setattr(Local, "start", lambda self, job: None)
    (entry,) = Queue(Local(1), [Shell(tmp_path / "a", "true")]).run()
    assert f"before it began; do all nodes see {tmp_path / 'a'}? put the repository on a disk" in entry.line


FRONT = """
import sys
from pathlib import Path
from pipeline.study.places import Local
from pipeline.study.queue import Queue
from tests.cluster_jobs import Shell
Queue(Local(2), [Shell(Path(sys.argv[1]) / name, sys.argv[2]) for name in "ab"]).run()
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_front_that_is_killed_finds_its_jobs_again(tmp_path, how):
    command = [sys.executable, "-c", FRONT, str(tmp_path), once("x", HOLDS)]
    front = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    tasks = [Shell(tmp_path / name, once("x", HOLDS)) for name in "ab"]
    until(lambda: all(task.ran() for task in tasks))
    front.send_signal(how)
    front.wait()
    lives = [job.holder(task.folder) is not None for task in tasks]
    assert lives == [how == signal.SIGKILL] * 2  # by Ctrl-C they end with it
    found = Queue(Local(2), tasks)
    found.turn()
    for task in tasks:
        (task.folder / "go").touch()
    assert found.run() == []
    assert [(task.taken, len(task.ran())) for task in tasks] == [(1, 1 if lives[0] else 2)] * 2


def test_cancel_ends_the_named_jobs_and_no_other(tmp_path):
    tasks = [Shell(tmp_path / name, once("x", HOLDS)) for name in "ab"]
    found = Queue(Local(2), tasks)
    found.turn()
    until(lambda: all(task.ran() for task in tasks))
    assert cancel(Local(1), [tasks[0].folder, tmp_path / "absent"]) == 1
    until(lambda: found.turn() and "cancelled" in states(found))
    assert states(found) == ["cancelled", "running"]
    (tasks[1].folder / "go").touch()
    assert [entry.task.name for entry in found.run()] == ["a"]
    assert (tasks[0].taken, tasks[1].taken) == (0, 1)
    assert cancel(Local(1), [task.folder for task in tasks]) == 0
    (tasks[0].folder / "go").touch()  # a new start goes on
    assert Queue(Local(1), tasks[:1]).run() == []
    assert not (tasks[0].folder / CANCELLED).exists()


def test_one_that_shares_waits_for_the_other(tmp_path):
    first = Shell(tmp_path / "a", once("x", HOLDS))
    second = Shell(tmp_path / "b", once("x"), after=first)
    found = Queue(Local(2), [first, second])
    for _ in range(3):
        found.turn()
    assert states(found) == ["running", "waiting"]
    until(lambda: first.ran())
    (first.folder / "go").touch()
    assert found.run() == []
    assert second.taken == 1


def test_a_second_process_on_a_job_waits_for_the_first(tmp_path):
    task = Shell(tmp_path / "a", once("x", HOLDS))
    processes = []
    for _ in range(2):  # as where SLURM believes the first one's node to be dead
        local = Local(1)
        local.start(task.begin([]))
        until(lambda: task.ran())
        processes += local.processes.values()
    time.sleep(0.5)
    assert task.ran() == ["x"]
    (task.folder / "go").touch()
    assert [process.wait(30) for process in processes] == [0, 0]
    assert task.ran() == ["x"]
