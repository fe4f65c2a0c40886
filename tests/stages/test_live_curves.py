"""Curves that grow while a training runs: their rows, also after a kill, and the files that they replace."""

import csv

import pytest

from pipeline.config import params, resolving
from pipeline.io.errors import InputError
from pipeline.training.live_curves import LiveCurves
from pipeline.training.resuming import History
from tests import project_params
from tests.folders import contents
from tests.killed import at_the_first_state
from tests.running import set_params, stage, succeed
from tests.stage_commands import train_with, trained


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("live"), "whole")


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ","))


@pytest.mark.slow
def test_a_resumed_run_has_no_double_rows(folder):
    curves = folder / "live/plots/metrics"
    with at_the_first_state():
        stage(folder, f"{train_with(1, 'killed')} --live live")
    assert [row["step"] for row in rows_of(curves / "validation/CIDEr-D.tsv")] == ["2"]
    succeed(folder, f"{train_with(1, 'killed')} --live live")
    for kind in ("loss", "validation"):
        rows = rows_of(folder / f"curves/killed/{kind}.csv")
        assert len(rows) > (kind == "validation")
        for name in rows[0].keys() - {"iteration"}:
            shown = name.replace("/", "-")
            found = rows_of(curves / kind / f"{shown}.tsv")
            assert [row["step"] for row in found] == [row["iteration"] for row in rows]
            values = [float(row[name]) for row in rows]
            assert [float(row[shown]) for row in found] == pytest.approx(values)
    whole, again = ((folder / to / "weights.safetensors").read_bytes() for to in ("whole", "killed"))
    assert whole == again


@pytest.mark.slow
def test_tensorboard_changes_no_weights(folder):
    pytest.importorskip("tensorboard")
    set_params(folder, train__log="tensorboard")
    succeed(folder, f"{train_with(1, 'boarded')} --live board")
    set_params(folder)
    (events,) = (folder / "board/tensorboard").iterdir()
    assert b"validation/CIDEr-D" in events.read_bytes()
    whole, boarded = ((folder / to / "weights.safetensors").read_bytes() for to in ("whole", "boarded"))
    assert whole == boarded


@pytest.mark.parametrize("log", params.Log.__args__)
def test_the_kind_of_curves_is_in_no_recipe(log):
    plain, logged = (
        resolving.resolve(project_params.settings(**changes), "tabletop", "scorer_cbr")
        for changes in ({}, {"train__log": log})
    )
    assert plain == logged


def grown(folder, log="dvclive", iterations=2):
    live = LiveCurves(folder, log)
    live.begin(History())
    for iteration in range(1, iterations + 1):
        live.losses({"iteration": iteration, "cap": 0.5})
        live.validation({"iteration": iteration, "true/changed": 0.5})
    return live


# files that dvclive removes or replaces in any folder, and others
@pytest.mark.parametrize(
    "name", ["dvc.yaml", "report.md", "tensorboard/events", "plots/metrics/loss/mine.tsv"]
)
@pytest.mark.parametrize("own", [False, True])
def test_a_folder_with_a_file_of_the_user_is_refused(tmp_path, monkeypatch, name, own):
    monkeypatch.chdir(tmp_path)
    if own:
        grown(tmp_path / "live").end()
    mine = tmp_path / "live" / name
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(InputError, match=name):
        grown(tmp_path / "live")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("log", ["dvclive", "tensorboard"])
@pytest.mark.parametrize("ended", [False, True])
def test_a_run_replaces_the_curves_of_an_earlier_run(tmp_path, monkeypatch, log, ended):
    monkeypatch.chdir(tmp_path)
    if log == "tensorboard":
        pytest.importorskip("tensorboard")
    live = grown(tmp_path / "live", log, iterations=3)
    if ended:  # otherwise, the run was killed
        live.end()
    grown(tmp_path / "live", iterations=1)
    (curve,) = tmp_path.glob("live/plots/metrics/loss/cap.tsv")
    assert curve.read_text().split() == ["step", "cap", "1", "0.5"]
    assert not (tmp_path / "live/tensorboard").exists()


def test_without_a_log_nothing_is_written(tmp_path):
    (tmp_path / "mine").write_text("mine")
    before = contents(tmp_path)
    grown(tmp_path, "none").end()
    assert contents(tmp_path) == before
