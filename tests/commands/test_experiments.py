"""The stage `experiments`: in a real DVC repository, and outside of one."""

import json
import subprocess
import sys

import pytest

from tests.running import refuse, succeed

DVC = (sys.executable, "-m", "dvc")
PIPELINE = """
stages:
  score:
    cmd: >-
      mkdir -p results/cells/tabletop/scorer/1 &&
      echo '{"CIDEr-D": 0.5}' > results/cells/tabletop/scorer/1/summary.json
    params: [loss]
    metrics: [results/cells/tabletop/scorer/1/summary.json: {cache: false}]
"""


GATHER = "experiments --out experiments.json"


@pytest.mark.slow
def test_a_real_experiment_is_gathered(tmp_path, monkeypatch):
    for name, value in (("AUTHOR", "a"), ("COMMITTER", "a")):
        monkeypatch.setenv(f"GIT_{name}_NAME", value)
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@example.org")
    monkeypatch.setenv("DVC_NO_ANALYTICS", "true")
    (tmp_path / "params.yaml").write_text("loss: {lambda_cbr: null}\n")
    (tmp_path / "dvc.yaml").write_text(PIPELINE)
    for command in (
        ("git", "init", "-q", "-b", "main"),
        (*DVC, "init", "-q"),
        (*DVC, "repro", "-q"),
        ("git", "add", "-A"),
        ("git", "commit", "-qm", "first"),
        (*DVC, "exp", "run", "-q", "-n", "more", "-S", "loss.lambda_cbr=0.004"),
    ):
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    for command in (["diff", "HEAD", "more"], ["show", "--only-changed"], ["list"]):
        shown = subprocess.run(
            (*DVC, "exp", *command), cwd=tmp_path, check=True, capture_output=True, text=True
        )
        assert ("more" if command == ["list"] else "0.004") in shown.stdout
    succeed(tmp_path, GATHER)
    metrics = {"tabletop/scorer/1": {"CIDEr-D": 0.5}}
    assert json.loads((tmp_path / "experiments.json").read_text()) == [
        {"name": "more", "params": {"loss.lambda_cbr": 0.004}, "metrics": metrics},
        {"name": "main", "params": {"loss.lambda_cbr": None}, "metrics": metrics},
    ]


def test_outside_of_a_repository_it_ends_in_one_line(tmp_path):
    said = refuse(tmp_path, GATHER, "error: `dvc exp show --json` failed (")
    assert said.startswith("error: `dvc exp show --json` failed (")
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
