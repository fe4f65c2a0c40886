"""The stage `study`: what is missing runs once, mistakes are one line, and DVC itself makes cells."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from pipeline.errors import InputError
from pipeline.params import read_tree
from pipeline.studying import study_cells, workspace
from stages import study
from tests import project_params
from tests.running import refuse
from tests.study_lab import Fake, make_models_once, make_repository, opening


@pytest.fixture(autouse=True)
def made_once(monkeypatch):
    make_models_once(monkeypatch)


@pytest.fixture
def repository(tmp_path):
    return make_repository(tmp_path)


def run(folder: Path, fake: Fake, seeds=(1, 2), show=False, name="two", unrecorded=False):
    """Run the study with a workspace that makes cells up; returns the cells that ran."""
    asked = {"seeds": seeds, "show": show, "unrecorded": unrecorded}
    arguments = argparse.Namespace(name=name, dataset="tabletop", **asked)
    with chdir(folder):
        study.study(arguments, opening(fake))
    return fake.ran


def test_missing_cells_run_once_and_the_table_is_written(repository, capsys):
    fake = Fake(repository / "work")
    assert run(repository, fake) == [
        (f"{label}, seed {seed}", seed) for seed in (1, 2) for label in ("RR", "SCORER", "λ")
    ]
    said = capsys.readouterr().out
    assert "6 cells: 0 finished, 6 missing" in said
    assert "SCORER − RR: +40.0 CIDEr-D [+40.0, +40.0], p" in said
    written = {path.name: path.read_bytes() for path in (repository / "results/studies/two").iterdir()}
    assert sorted(written) == ["tabletop.json", "tabletop.md"]
    assert json.loads(written["tabletop.json"])["seeds"] == [1, 2]

    assert run(repository, Fake(repository / "work")) == []
    assert "6 cells: 6 finished, 0 missing" in capsys.readouterr().out
    assert written == {
        path.name: path.read_bytes() for path in (repository / "results/studies/two").iterdir()
    }


def test_another_seed_runs_alone(repository):
    run(repository, Fake(repository / "work"))
    again = run(repository, Fake(repository / "work"), seeds=(1, 2, 3))
    assert [seed for _, seed in again] == [3, 3, 3]


def test_an_interrupted_study_goes_on(repository):
    broken = Fake(repository / "work", stop_at=3)
    with pytest.raises(KeyboardInterrupt):
        run(repository, broken)
    assert not (repository / "results/studies/two").exists()
    rest = run(repository, Fake(repository / "work"))
    assert len(broken.ran) == 3
    assert len(rest) == 3
    assert {*broken.ran} & {*rest} == set()


def test_recorded_cells_are_left_alone_where_that_is_asked(repository, capsys):
    run(repository, Fake(repository / "work"), seeds=(1,))
    shutil.rmtree(repository / "results/studies")  # as in a clone, which has the records alone
    (repository / "dvc.lock").write_text((repository / "dvc.lock").read_text().replace("fea7", "0ther"))
    again = run(repository, Fake(repository / "work"), unrecorded=True)
    assert again == [(f"{label}, seed 2", 2) for label in ("RR", "SCORER", "λ")]
    (repository / "results/records/tabletop/rr-2.json").unlink()
    assert run(repository, Fake(repository / "work"), unrecorded=True) == [("RR, seed 2", 2)], "it was lost"
    settings = read_tree(repository / "params.yaml")
    settings["dataset"]["tabletop"]["train"]["iterations"] += 1
    project_params.save(repository, settings)
    assert len(run(repository, Fake(repository / "work"), unrecorded=True)) == 6, "settings are others"
    assert "6 cells: 0 finished, 6 missing" in capsys.readouterr().out


def test_show_runs_and_writes_nothing(repository, capsys):
    assert run(repository, Fake(repository / "work"), show=True) == []
    assert not (repository / "results").exists() or not (repository / "results/studies").exists()
    assert "0/2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--name three --dataset tabletop", "unknown study 'three'; studies/ has two"),
        ("--name two --dataset absent", "unknown dataset 'absent'"),
        (
            "--name two --dataset clevr_dc",
            "clevr_dc is not prepared (prepare@clevr_dc has not run); name clevr_dc",
        ),
        (
            "--name two --dataset tabletop --seeds 2147483648",
            "the seed 2147483648 is not a whole number from 0",
        ),
    ],
)
def test_mistakes_are_one_line(repository, arguments, said):
    refuse(repository, f"study {arguments}", said)
    assert not (repository / ".scratch").exists()


# Stages that write what they were given, and count how often they ran.
PIPELINE = """
stages:
  code: {cmd: mkdir -p data && cp stages/x data/code, deps: [stages], outs: [data/code]}
  prepare: {matrix: {dataset: '${datasets}'}, cmd: echo pairs > data/pairs, outs: [data/pairs]}
  plan:
    matrix: {dataset: '${datasets}'}
    cmd: cp params.yaml data/plans
    params: [dataset]
    outs: [data/plans]
  extract:
    matrix: {dataset: '${datasets}', input: [grid]}
    cmd: echo features > data/features
    outs: [data/features]
  vocab: {matrix: {dataset: '${datasets}'}, cmd: echo vocab > data/vocab, outs: [data/vocab]}
  recipe:
    matrix: {dataset: '${datasets}', model: '${models}'}
    cmd: cp params.yaml recipe
    deps: [data/plans]
    params: [loss]
    outs: [recipe]
  start: {matrix: {dataset: '${datasets}', model: '${models}', seed: '${seeds}'}, cmd: 'true'}
  train:
    matrix: {dataset: '${datasets}', model: '${models}', seed: '${seeds}'}
    cmd: echo ${item.seed} >> RUNS && cat recipe data/features > weights
    deps: [recipe, data/features, data/code]
    outs: [weights]
  decode: {matrix: {dataset: '${datasets}', model: '${models}', seed: '${seeds}'}, cmd: 'true'}
  score:
    matrix: {dataset: '${datasets}', model: '${models}', seed: '${seeds}'}
    cmd: mkdir -p results && cp weights results/metrics.json
    deps: [weights]
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
PLAIN = SimpleNamespace(adapt={}, asks_negatives=False, input="grid", entry=SimpleNamespace(retrieves=False))


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> Path:
    """A DVC repository whose dataset d is prepared; beside it the runs of its training stage."""
    root = tmp_path_factory.mktemp("study") / "lab"
    for folder in ("models", "pipeline", "stages", "data/cards", ".dvc"):
        (root / folder).mkdir(parents=True)
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


@pytest.mark.slow
def test_a_cell_trains_once_and_leaves_the_working_tree(lab):
    before = tree(lab)
    cell = study_cells.Cell("one", "d", "m", 1, PARAMS | {"loss": {"x": 2}}, PLAIN, "key")
    with workspace.opened(lab, "d", ["grid"]) as place:
        place.run(cell)
        made = (place.folder / "results/metrics.json").read_text()
        assert made == yaml.safe_dump(cell.params, sort_keys=False) + "features\n"
        # as if other cells had come between: it is forgotten where it ran, but not in the run cache
        (place.folder / "weights").unlink()
        (place.folder / "dvc.lock").write_bytes((lab / "dvc.lock").read_bytes())
        place.run(cell)
        assert (place.folder / "results/metrics.json").read_text() == made
        with pytest.raises(InputError, match="another study runs"), workspace.opened(lab, "d", ["grid"]):
            pass
        # what a row sets of the dataset's own settings reaches its recipe
        other = replace(cell, seed=2, params=cell.params | {"seeds": [2], "dataset": {"d": {"y": 5}}})
        place.run(other)
        assert "y: 5" in (place.folder / "results/metrics.json").read_text()
    with workspace.opened(lab, "d", ["grid"]):
        pass  # a cell's own settings leave the data what they are
    assert (lab.parent / "runs").read_text() == "1\n2\n"
    assert before == tree(lab)


@pytest.mark.slow
def test_a_cell_of_other_code_trains_anew(lab):
    cell = study_cells.Cell("one", "d", "m", 3, PARAMS | {"seeds": [3]}, PLAIN, "key")
    for text, count in (("other", 1), ("", 2)):
        (lab / "stages/x").write_text(text)
        with workspace.opened(lab, "d", ["grid"]) as place:
            place.run(cell)
        assert (lab.parent / "runs").read_text().split().count("3") == count


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


def test_a_cell_that_fails_ends_the_study(tmp_path, monkeypatch):
    monkeypatch.setattr(workspace.Workspace, "dvc", lambda self, *arguments: 255)
    cell = study_cells.Cell("one, seed 1", "d", "m", 1, PARAMS, PLAIN, "key")
    with (tmp_path / "lock").open("w") as lock, pytest.raises(InputError) as refused:
        workspace.Workspace(tmp_path, lock, {}).run(cell)
    assert str(refused.value).startswith(
        "the cell one, seed 1 failed (`dvc repro` left with 255; what it said"
    )


def test_what_dvc_started_ends_with_the_study(tmp_path, monkeypatch):
    monkeypatch.setattr(workspace, "DVC", ("sh", "-c", "sleep 60 & echo $! > child; wait", "dvc"))

    def interrupted(*_):
        while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text():
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "wait", once(interrupted, subprocess.Popen.wait))
    with (tmp_path / "lock").open("w") as lock, pytest.raises(KeyboardInterrupt):
        workspace.Workspace(tmp_path, lock, dict(os.environ)).dvc("repro")
    child = Path("/proc") / (tmp_path / "child").read_text().strip() / "cmdline"
    deadline = time.monotonic() + 10
    while child.exists() and child.read_bytes() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not child.exists() or not child.read_bytes()  # a zombie has no command line


def once(first, then):
    """A function that is `first` when it is called first, and `then` afterwards."""
    calls = iter([first])
    return lambda *arguments, **keywords: next(calls, then)(*arguments, **keywords)


def tree(root: Path) -> dict[str, bytes]:
    """All files outside DVC's and our scratch folders."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not {".dvc", ".scratch"} & set(path.relative_to(root).parts)
    }
