"""The cells of a study by DVC itself: trained once, committed, of this code and these data."""

import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from pipeline.io.errors import InputError
from pipeline.scoring import spice_files
from pipeline.study import study_cells, workspace
from pipeline.study.cell_task import CellTask
from pipeline.study.places import Local
from pipeline.study.queue import Queue
from tests.running import ROOT

# Stages that write what they were given, and count how often they ran.
PIPELINE = """
stages:
  code: {cmd: mkdir -p data && cp stages/x data/code, deps: [stages/x], outs: [data/code]}
  prepare: {matrix: {dataset: '${datasets}'}, cmd: mkdir data/pairs && touch data/pairs/p, outs: [data/pairs]}
  plan:
    matrix: {dataset: '${datasets}'}
    cmd: cp params.yaml data/plans
    params: [dataset]
    outs: [data/plans]
  extract:
    matrix: {dataset: '${datasets}', input: [grid]}
    cmd: mkdir data/features && echo features > data/features/f
    outs: [data/features]
  vocab:
    matrix: {dataset: '${datasets}'}
    cmd: mkdir data/vocab && echo vocab > data/vocab/v
    outs: [data/vocab]
  recipe:
    matrix: {dataset: '${datasets}', model: '${models}'}
    cmd: mkdir -p data/recipes/d && cp params.yaml data/recipes/d/m.yaml && touch data/recipes/d/m.first.yaml
    deps: [data/plans]
    params: [loss]
    outs: [data/recipes/d/m.yaml, data/recipes/d/m.first.yaml]
  start:
    matrix: {dataset: '${datasets}', model: '${models}', seed: '${seeds}'}
    cmd: mkdir -p starts && echo ${item.model} > starts/s
    deps: [data/features]
    outs: [starts/s]
  train:
    matrix: {dataset: '${datasets}', model: '${models}', seed: '${seeds}'}
    cmd: echo ${item.seed} >> RUNS && cat data/recipes/d/m.yaml data/features/f > weights
    deps: [data/recipes/d/m.yaml, data/features, data/code, starts/s]
    outs: [weights]
  decode:
    matrix: {dataset: '${datasets}', model: '${models}', seed: '${seeds}'}
    cmd: if grep -q 13 params.yaml; then echo 'error, the last line'; exit 1; fi; cp weights captions
    deps: [weights]
    outs: [captions]
  score:
    matrix: {dataset: '${datasets}', model: '${models}', seed: '${seeds}'}
    cmd: mkdir -p results && cp captions results/metrics.json
    deps: [captions]
    outs: [results/metrics.json: {cache: false}]
"""


PARAMS = {
    "datasets": ["d"],
    "models": ["m"],
    "seeds": [1],
    "loss": {"x": 1},
    "dataset": {"d": {"y": 1}},
}


# of a model that has no phase before captioning
PLAIN = SimpleNamespace(
    adapt={}, asks_negatives=False, input="grid", entry=SimpleNamespace(retrieves=False), train={}
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> Path:
    """A DVC repository whose dataset d is prepared; beside it the runs of its training stage."""
    root = tmp_path_factory.mktemp("study") / "lab"
    for folder in ("data/cards", ".dvc"):
        (root / folder).mkdir(parents=True)
    for folder in ("models", "pipeline", "stages", "commands"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "data/cards/d.yaml").write_text("{}")
    (root / "stages/x").touch()
    for name in workspace.KEPT:
        (root / name).parent.mkdir(parents=True)
        (root / name).touch()
    (root / ".dvcignore").touch()
    (root / "datasets.yaml").write_text("{}")
    (root / ".dvc/config").write_text("[core]\nno_scm = true\nanalytics = false\n")
    (root / "params.yaml").write_text(yaml.safe_dump(PARAMS))
    (root / "dvc.yaml").write_text(PIPELINE.replace("RUNS", str(root.parent / "runs")))
    subprocess.run(
        [sys.executable, "-m", "dvc", "repro", "-q", *study_cells.prepared("d", ["grid"])],
        cwd=root,
        check=True,
    )
    return root


def cell_of(key: str, **changes) -> study_cells.Cell:
    """Of the model m on the dataset d; its params.yaml has these changes."""
    (seed,) = changes.get("seeds", [1])
    return study_cells.Cell(f"cell {key}", "d", "m", seed, PARAMS | changes, PLAIN, key)


def ran(lab: Path, *cells: study_cells.Cell, commits: bool = True) -> dict[str, str]:
    """Run them, one after another; what the finished ones made, and what the others said last, by key."""
    found = {}

    def taking(key):
        return lambda made: found.update({key: (made / "results/metrics.json").read_text()})

    with workspace.opened(lab, "d", ["grid"]) as place:
        tasks = [CellTask(cell, place, commits, taking(cell.key)) for cell in cells]
        failed = Queue(Local(1), tasks).run()
    return found | {entry.task.cell.key: entry.line for entry in failed}


def runs(lab: Path) -> list[str]:
    return (lab.parent / "runs").read_text().split()


@pytest.mark.slow
def test_a_cell_trains_once_and_leaves_the_working_tree(lab):
    before = tree(lab)
    cells = [cell_of("one", loss={"x": 2}), cell_of("two", seeds=[2], dataset={"d": {"y": 5}})]
    found = ran(lab, *cells)
    assert found["one"] == yaml.safe_dump(cells[0].params, sort_keys=False) + "features\n"
    assert "y: 5" in found["two"]  # what a row sets of the dataset's own settings reaches its recipe
    assert runs(lab) == ["1", "2"]
    # forgotten, but in the run cache, as if a study of another name or `dvc repro` had trained it
    assert ran(lab, replace(cells[0], key="other")) == {"other": found["one"]}
    assert runs(lab) == ["1", "2"]
    assert before == tree(lab)
    assert not list((lab / workspace.FOLDER / "cells").iterdir())


@pytest.mark.slow
def test_dvc_itself_finds_what_a_study_committed_and_nothing_else(lab):
    ran(lab, cell_of("kept", seeds=[4]))
    ran(lab, cell_of("dropped", seeds=[5]), commits=False)
    for seed, count in ((4, 1), (5, 2)):
        copy = lab.parent / f"copy{seed}"
        shutil.copytree(lab, copy, ignore=shutil.ignore_patterns(".scratch"), symlinks=True)
        (copy / "params.yaml").write_text(yaml.safe_dump(PARAMS | {"seeds": [seed]}))
        command = [sys.executable, "-m", "dvc", "repro", "-q", f"score@d-m-{seed}"]
        subprocess.run(command, cwd=copy, check=True)
        assert runs(lab).count(str(seed)) == count


@pytest.mark.slow
def test_a_cell_of_other_code_trains_anew_and_one_that_fails_stops_no_other(lab):
    for text, count in (("other", 1), ("", 2)):
        (lab / "stages/x").write_text(text)
        found = ran(lab, cell_of(f"bad{count}", loss={"x": 13}), cell_of(f"good{count}", seeds=[3]))
        assert found[f"bad{count}"] == "error, the last line"
        assert found[f"good{count}"].endswith("features\n")
        assert runs(lab).count("3") == count


@pytest.mark.slow
def test_a_job_finds_spices_files_under_the_name_that_dvc_repro_has(lab, monkeypatch):
    monkeypatch.delenv(spice_files.VARIABLE, raising=False)
    with workspace.opened(lab, "d", ["grid"]) as place:
        job = CellTask(cell_of("spice"), place, False, print).begin([])
    command = "from pipeline.scoring import spice_files as s; print(s.shown(), s.folder().resolve())"
    said = subprocess.run(
        [sys.executable, "-c", command],
        cwd=job.folder,
        env=os.environ | job.environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said == f".cache/spice {lab.resolve() / '.cache/spice'}\n"


def test_one_study_at_a_time(lab, monkeypatch):
    monkeypatch.setattr(workspace, "PATIENCE", 0.0)
    with (
        workspace._locked(lab),
        pytest.raises(InputError, match="another study runs"),
        workspace.opened(lab, "d", ["grid"]),
    ):
        pass


def test_code_that_cannot_be_read_ends_the_study(lab):
    (lab / "stages/x").unlink()
    with pytest.raises(InputError, match=r"the stage code failed"), workspace.opened(lab, "d", ["grid"]):
        pass
    (lab / "stages/x").touch()


def test_data_of_other_code_are_refused(lab):
    text = (lab / "dvc.yaml").read_text()
    (lab / "dvc.yaml").write_text(text.replace("echo vocab", "echo words"))
    said = (
        "the prepared data of d are not up to date or not in DVC's cache; name d in `datasets` of params.yaml"
    )
    with pytest.raises(InputError, match=said), workspace.opened(lab, "d", ["grid"]):
        pass
    (lab / "dvc.yaml").write_text(text)


def test_what_dvc_started_ends_with_the_study(tmp_path, monkeypatch):
    def interrupted(*_):
        while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text():
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    command = ("sh", "-c", "sleep 60 & echo $! > child; wait", "dvc")
    with (tmp_path / "lock").open("w") as lock, pytest.raises(KeyboardInterrupt):
        workspace.Workspace(tmp_path, tmp_path, lock, dict(os.environ)).run(command)
    child = Path("/proc") / (tmp_path / "child").read_text().strip() / "cmdline"
    deadline = time.monotonic() + 10
    while child.exists() and child.read_bytes() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not child.exists() or not child.read_bytes()  # a zombie has no command line


def tree(root: Path) -> dict[str, bytes]:
    """All files outside DVC's and our scratch folders."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not {".dvc", ".scratch", "__pycache__"} & set(path.relative_to(root).parts)
    }
