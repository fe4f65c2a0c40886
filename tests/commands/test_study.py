"""The command study: missing runs run once, and mistakes are one line."""

import argparse
import shutil
from contextlib import chdir
from pathlib import Path

import pytest

from commands import study
from pipeline.config.params import read_tree
from tests import project_params
from tests.running import refuse
from tests.study_lab import Fake, make_models_once, make_repository, opening, run_all


@pytest.fixture(autouse=True)
def made_once(monkeypatch):
    make_models_once(monkeypatch)
    monkeypatch.setattr(study, "_run", run_all)


@pytest.fixture
def repository(tmp_path):
    return make_repository(tmp_path)


def run(folder: Path, fake: Fake, seeds=(1, 2), show=False, name="two", unrecorded=False):
    """Run the study in a fake workspace. Return the runs."""
    asked = {"seeds": seeds, "show": show, "unrecorded": unrecorded}
    asked |= {"on": "local", "jobs": None, "cluster": None, "commit": True, "cancel": False}
    arguments = argparse.Namespace(name=name, dataset="tabletop", **asked)
    with chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setattr(study.workspace, "opened", opening(fake))
        study.study(arguments)
    return fake.ran


def test_missing_runs_run_once_and_the_table_is_written(repository, capsys):
    fake = Fake(repository / "work")
    assert run(repository, fake) == [
        (f"{label}, seed {seed}", seed) for seed in (1, 2) for label in ("RR", "SCORER", "λ")
    ]
    said = capsys.readouterr().out
    assert "6 runs: 0 finished, 6 missing" in said
    assert "SCORER − RR CIDEr-D +40.0 +40.0 to +40.0 p" in " ".join(said.split())
    written = {path.name: path.read_bytes() for path in (repository / "results/studies/two").iterdir()}
    assert sorted(written) == ["tabletop.md"]

    assert run(repository, Fake(repository / "work")) == []
    assert "6 runs: 6 finished, 0 missing" in capsys.readouterr().out
    assert written == {
        path.name: path.read_bytes() for path in (repository / "results/studies/two").iterdir()
    }


def test_a_further_seed_runs_only_that_seed(repository):
    run(repository, Fake(repository / "work"))
    again = run(repository, Fake(repository / "work"), seeds=(1, 2, 3))
    assert [seed for _, seed in again] == [3, 3, 3]


def test_an_interrupted_study_continues(repository):
    broken = Fake(repository / "work", stop_at=3)
    with pytest.raises(KeyboardInterrupt):
        run(repository, broken)
    assert not (repository / "results/studies/two").exists()
    rest = run(repository, Fake(repository / "work"))
    assert len(broken.ran) == 3
    assert len(rest) == 3
    assert {*broken.ran} & {*rest} == set()


def test_recorded_runs_are_left_out_if_asked(repository, capsys):
    run(repository, Fake(repository / "work"), seeds=(1,))
    shutil.rmtree(repository / "results/studies")  # as in a clone, which has only the records
    again = run(repository, Fake(repository / "work"), unrecorded=True)
    assert again == [(f"{label}, seed 2", 2) for label in ("RR", "SCORER", "λ")]
    said = capsys.readouterr().out
    assert "6 runs: 3 recorded, 3 missing" in said
    assert "1/2" in said
    assert "Left out: 3 run(s) with a record only" in said
    settings = read_tree(repository / "params.yaml")
    settings["dataset"]["tabletop"]["train"]["iterations"] += 1
    project_params.save(repository, settings)
    capsys.readouterr()
    assert len(run(repository, Fake(repository / "work"), unrecorded=True)) == 6, "other settings"
    assert "Left out" not in capsys.readouterr().out


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
            "--name two --dataset tabletop --on slurm --cluster absent.yaml",
            "absent.yaml is missing; name a file of a cluster's settings by --cluster",
        ),
        (
            "--name two --dataset tabletop --on slurm --cluster wrong.yaml",
            "wrong.yaml: unknown key partitoin; correct it",
        ),
    ],
)
def test_mistakes_are_one_line(repository, arguments, said):
    (repository / "wrong.yaml").write_text("{minutes: 5, partitoin: gpu}")
    refuse(repository, f"study {arguments}", said)
    assert not (repository / ".scratch").exists()
