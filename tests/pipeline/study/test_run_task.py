"""The job of a run: its DVC stages, and when it waits for another run."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from pipeline.io.errors import InputError
from pipeline.study.run_task import RunTask, command
from pipeline.study.study_runs import Run
from pipeline.study.workspace import LOCK, Base, locked_stages, workspaces


@dataclass
class Phase:
    epochs: int


def run(key, phase=None, seed=1):
    recipe = SimpleNamespace(
        pretraining=Phase(phase) if phase else None,
    )
    return Run(key, "d", "m", seed, {}, recipe, key)


@pytest.fixture
def task(tmp_path, monkeypatch):
    """Make tasks whose workspaces are empty folders."""

    def make_workspace(task_run):
        (folder,) = workspaces([task_run], tmp_path)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    monkeypatch.setattr(Base, "workspace_of", lambda self, task_run: make_workspace(task_run))
    return lambda task_run: RunTask(
        task_run, Base(tmp_path, tmp_path, ("code", "vocab@d")), True, lambda _: None
    )


@pytest.mark.parametrize(
    ("study_run", "before", "after"),
    [
        (run("a"), "settings recipe@d-m-1", "train@d-m-1 decode@d-m-1 score@d-m-1"),
        (
            run("a", phase=3),
            "settings recipe@d-m-1 pretrain@d-m-1",
            "train@d-m-1 decode@d-m-1 score@d-m-1",
        ),
    ],
)
def test_the_stages_of_a_run(study_run, before, after):
    for commits, flag in ((True, ""), (False, "--no-commit ")):
        *_, checkout, first, last = command(study_run, ["code", "vocab@d"], commits).split(" && ")
        assert checkout == "python -m dvc checkout --quiet code vocab@d"
        assert first == f"python -m dvc repro --single-item {before}"
        assert last == f"python -m dvc repro --single-item {flag}{after}"


def test_a_run_waits_for_the_one_that_trains_the_same_phase(task):
    first, second = task(run("one", phase=3)), task(run("other", phase=3))
    assert first.begin([]) is not None
    assert second.begin([first]) is None
    (first.folder / LOCK).write_text("stages:\n  recipe@d-m-1:\n  pretrain@d-m-12:\n")
    assert second.begin([first]) is None
    (first.folder / LOCK).write_text("stages:\n  recipe@d-m-1:\n  pretrain@d-m-1:\n")
    assert second.begin([first]) is not None


@pytest.mark.parametrize("other_run", [run("b", phase=4), run("b", phase=3, seed=2), run("b")])
def test_a_run_of_another_phase_waits_for_none(task, other_run):
    first = task(run("one", phase=3))
    first.begin([])
    assert task(other_run).begin([first]) is not None


@pytest.mark.parametrize("text", ["", "schema: '2.0'\n", "schema: '2.0'\nstages:\n", "schema: '2.0'\nstag"])
def test_a_dvc_lock_that_a_kill_has_cut_off_is_named(tmp_path, text):
    (tmp_path / LOCK).write_text(text)
    with pytest.raises(InputError, match=r"dvc\.lock .*remove it"):
        locked_stages(tmp_path)
