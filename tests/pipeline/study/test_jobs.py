"""The queue on this machine: a job runs once, failures stop no other job, and jobs are found again."""

import signal
import subprocess
import sys
import time

import pytest

from pipeline.io.errors import InputError
from pipeline.study import jobs, slurm
from pipeline.study.jobs import Local, Queue, cancel
from pipeline.study.slurm import Cluster, Slurm
from tests.cluster_jobs import HOLDS, ROOT, Shell

ONCE = f"[ -e out ] || {{ echo x >> ran; {HOLDS}; touch out; }}"
FRONT = """
import sys
from pathlib import Path
from pipeline.study.jobs import Local, Queue
from tests.cluster_jobs import Shell
Queue(Local(2), [Shell(Path(sys.argv[1]) / name, sys.argv[2]) for name in "ab"]).run()
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(jobs, "POLL", 0.05)


def until(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_jobs_run_once_and_a_limited_number_at_a_time(tmp_path):
    tasks = [Shell(tmp_path / str(n), "echo x >> ran; sleep 0.1") for n in range(3)]
    queue, most = Queue(Local(2), tasks), []
    while queue.turn():
        most.append(len(queue.running))
    assert queue.failed == []
    assert [(task.taken, task.ran()) for task in tasks] == [(1, ["x"])] * 3
    assert max(most) == 2


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("echo error: nan; echo later; exit 2", "nan"),
        ("exit 3", "it printed nothing"),
        ("echo Traceback; echo KeyError >&2; exit 1", "KeyError"),
        ("kill -KILL $$", "it was ended from outside"),
    ],
)
def test_a_failed_job_is_explained_and_the_others_continue(tmp_path, command, reason):
    bad, good = Shell(tmp_path / "bad", command), Shell(tmp_path / "good", "true")
    (line,) = Queue(Local(1), [bad, good]).run()
    assert line.startswith(f"bad: {reason}")
    assert (bad.taken, good.taken) == (0, 1)
    bad.command = "true"
    assert Queue(Local(1), [bad]).run() == []
    assert bad.taken == 1


def test_a_job_without_a_log_names_its_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(Local, "start", lambda self, folder, command: None)
    (line,) = Queue(Local(1), [Shell(tmp_path / "a", "true")]).run()
    assert f"does every node see {tmp_path / 'a'}?" in line


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_jobs_are_found_again_after_a_kill_and_end_with_an_interrupt(tmp_path, how):
    command = [sys.executable, "-c", FRONT, str(tmp_path), ONCE]
    front = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    tasks = [Shell(tmp_path / name, ONCE) for name in "ab"]
    until(lambda: all(task.ran() for task in tasks))
    front.send_signal(how)
    front.wait()
    active = Local(1).active([task.folder for task in tasks])
    assert len(active) == (2 if how == signal.SIGKILL else 0)
    queue = Queue(Local(2), tasks)
    queue.turn()
    for task in tasks:
        (task.folder / "go").touch()
    assert queue.run() == []
    assert [(task.taken, len(task.ran())) for task in tasks] == [(1, 1 if active else 2)] * 2


def test_cancel_ends_the_named_jobs_and_no_others(tmp_path):
    tasks = [Shell(tmp_path / name, ONCE) for name in "ab"]
    queue = Queue(Local(2), tasks)
    queue.turn()
    until(lambda: all(task.ran() for task in tasks))
    assert cancel(Local(1), [tasks[0].folder, tmp_path / "absent"]) == 1
    (tasks[1].folder / "go").touch()
    (line,) = queue.run()
    assert line.startswith("a: it was ended from outside")
    assert (tasks[0].taken, tasks[1].taken) == (0, 1)
    assert cancel(Local(1), [task.folder for task in tasks]) == 0


def test_a_task_waits_for_another_one(tmp_path):
    first = Shell(tmp_path / "a", ONCE)
    second = Shell(tmp_path / "b", "true", after=first)
    queue = Queue(Local(2), [first, second])
    for _ in range(3):
        queue.turn()
    assert [*queue.waiting.values()] == [second]
    (first.folder / "go").touch()
    assert queue.run() == []
    assert second.taken == 1


def test_the_repositorys_cluster_file_gives_options_of_sbatch():
    options = slurm.read(ROOT / slurm.FILE).options()
    assert {"--time=240", "--signal=B:USR2@120", "--cpus-per-task=8", "--mem=32768M"} <= {*options}
    assert {"--gpus-per-node=1", "--requeue"} <= {*options}
    options = Cluster(minutes=5, partition="short", flags={"account": "vision", "exclusive": True}).options()
    assert {"--partition=short", "--account=vision", "--exclusive"} <= {*options}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("minutes: 5\npartitoin: gpu", "unknown key partitoin"),
        ("gpus: 1", "the key minutes is missing"),
        ("minutes: soon", "minutes"),
    ],
)
def test_a_wrong_key_of_the_cluster_file_is_named(tmp_path, text, said):
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(InputError, match=rf"c\.yaml: .*{said}"):
        slurm.read(tmp_path / "c.yaml")


def test_a_cluster_that_does_not_answer_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="no sbatch"):
        Slurm(Cluster(minutes=5))
    for name in ("sbatch", "squeue"):
        (tmp_path / name).write_text("#!/bin/sh\necho 'squeue: error: no controller' >&2; exit 1\n")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(InputError, match=r"SLURM does not answer \(no controller\)"):
        Slurm(Cluster(minutes=5))
