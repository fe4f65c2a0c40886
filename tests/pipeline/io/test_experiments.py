"""An experiment in a copy of the repository stops at its first stage if its results would be lost."""

import json
import shlex
import subprocess
import sys
from contextlib import chdir

import pytest
from dvc.cli import main as dvc

from pipeline.io import experiments
from pipeline.io.errors import InputError
from tests.running import ROOT

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # DVC's own
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@localhost")
CHECK = "from pipeline.io.experiments import check; check({'root': 'raw'})"
STAGE = f"{shlex.quote(sys.executable)} -c {shlex.quote(CHECK)} && cp params.yaml out"


def git(folder, *words: str) -> None:
    subprocess.run([*GIT, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path):
    """A repository of DVC with two commits and one stage; git does not track the folder `raw`."""
    folder = tmp_path / "repository"
    for name in (".dvc", "raw"):
        (folder / name).mkdir(parents=True)
    (folder / ".dvc/config").write_text((ROOT / ".dvc/config").read_text())
    (folder / ".dvc/.gitignore").write_text("/tmp\n/cache\n")
    (folder / ".gitignore").write_text("/raw\n")
    (folder / "params.yaml").write_text("beam: 1\n")
    stage = {"cmd": STAGE, "always_changed": True, "outs": [{"out": {"cache": False}}]}
    (folder / "dvc.yaml").write_text(json.dumps({"stages": {"watch": stage}}))
    git(tmp_path, "init", "--quiet", str(folder))
    for message in ("one", "two"):
        (folder / "README").write_text(message)
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--message", message)
    return folder


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def experiment(folder, *words: str) -> int:
    with chdir(folder):
        return dvc(["exp", "run", "--temp", "--quiet", "-S", "beam=3", *words])


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """Let the current folder be DVC's copy of a repository , the argument."""

    def of(repository):
        (tmp_path / "copy").mkdir()
        monkeypatch.chdir(tmp_path / "copy")
        monkeypatch.setenv("DVC_ROOT", str(repository))

    return of


def test_a_shallow_clone_is_refused_with_the_command_that_helps(repository, tmp_path, copy):
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{repository}", "shallow")
    copy(tmp_path / "shallow")
    with pytest.raises(InputError, match=r"shallow is a shallow clone.*`git fetch --unshallow`"):
        experiments.check({})
    git(tmp_path / "shallow", "fetch", "--unshallow")
    experiments.check({})


def test_a_folder_that_only_the_original_repository_has_is_named(repository, copy):
    copy(repository)
    experiments.check({"key": "missing in both", "other": str(repository / "raw")})
    with pytest.raises(InputError, match=r"dataset\.d\.root: raw is not in .*/repository/raw, or "):
        experiments.check({"dataset.d.root": "raw"})


def test_outside_of_a_copy_nothing_is_checked(repository, monkeypatch):
    monkeypatch.chdir(repository)
    for root in ("", str(repository)):
        monkeypatch.setenv("DVC_ROOT", root)
        experiments.check({"root": "nowhere"})
    monkeypatch.delenv("DVC_ROOT")
    experiments.check({"root": "nowhere"})


@pytest.mark.slow
def test_dvc_stops_such_an_experiment_at_its_first_stage(repository, tmp_path, capfd):
    assert experiment(repository) != 0
    assert "--copy-paths raw" in capfd.readouterr().err
    assert experiment(repository, "--copy-paths", "raw") == 0
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{repository}", "shallow")
    assert experiment(tmp_path / "shallow") != 0
    assert "git fetch --unshallow" in capfd.readouterr().err
    git(tmp_path / "shallow", "fetch", "--quiet", "--unshallow")
    assert experiment(tmp_path / "shallow") == 0
