"""A job's verdict from its exit code and log; a state file that is damaged is refused by name."""

import json

import pytest

from pipeline.io.errors import InputError
from pipeline.study import job
from pipeline.study.job import Job

BY_DVC = "echo \"ERROR: failed to reproduce 'train@d-m-1': failed to run: python -m x, exited with {}\""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(job, "SIGNALLED", 0.0)


@pytest.mark.parametrize(
    ("command", "state", "line"),
    [
        ("true", "done", None),
        ("exit 3", "failed", "it said nothing"),
        ("echo error: nan; echo later; exit 2", "failed", "nan"),
        (f"echo 'error: disk full'; {BY_DVC.format(2)}; exit 255", "failed", "disk full"),
        (f"echo Traceback; echo KeyError; {BY_DVC.format(1)}; exit 255", "failed", "KeyError"),
        ("echo 'ERROR: output x does not exist'; exit 255", "failed", "ERROR: output x does not exist"),
        # killed by the system, by SLURM's signal before the end of the time, through a shell of DVC's
        ("kill -KILL $$", "ended", "it was ended from outside (exit code -9)"),
        ("exit 143", "ended", "it was ended from outside (exit code 143)"),
        (f"{BY_DVC.format(-9)}; exit 255", "ended", "it was ended from outside (exit code -9)"),
        (f"{BY_DVC.format(137)}; exit 255", "ended", "it was ended from outside (exit code 137)"),
    ],
)
def test_a_verdict(tmp_path, command, state, line):
    Job(str(tmp_path), str(tmp_path), "echo error: of an earlier start; exit 1")()
    Job(str(tmp_path), str(tmp_path), command)()
    found = job.state(tmp_path)
    assert (found["state"], found.get("line")) == (state, line)


def test_what_is_done_is_not_done_again(tmp_path):
    for _ in range(2):
        Job(str(tmp_path), str(tmp_path), "echo x >> ran")()
    assert (tmp_path / "ran").read_text() == "x\n"


def test_the_stage_at_work_is_the_last_one_in_the_log(tmp_path):
    assert job.stage(tmp_path) == ""
    (tmp_path / job.LOG).write_text("Running stage 'start@d-m-1':\n> x\nRunning stage 'train@d-m-1':\n> y\n")
    assert job.stage(tmp_path) == "train"


@pytest.mark.parametrize("key", ["state", "node", "line"])
@pytest.mark.parametrize("value", [None, -1, 2**70, True, "\0", [], {"a": 1}])
def test_a_damaged_state_is_refused_by_its_key(tmp_path, key, value):
    tree = {"state": "failed", "node": "n", "line": "x"} | {key: value}
    (tmp_path / job.STATE).write_text(json.dumps(tree))
    if key != "state" and isinstance(value, str):
        assert job.state(tmp_path)[key] == value
        return
    with pytest.raises(InputError, match=rf"state\.json: {key}"):
        job.state(tmp_path)
