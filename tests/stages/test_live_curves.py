"""Curves that grow while a training runs: what is in them, after a kill too, and that they decide nothing."""

import csv

import pytest

from pipeline.config import params, resolving
from pipeline.io.errors import InputError
from pipeline.training.live_curves import LiveCurves
from tests import project_params
from tests.folders import contents
from tests.killed import at_the_first_state
from tests.running import set_params, stage, succeed
from tests.stage_commands import train_with, trained


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("live"), "whole")


def live_rows(folder, kind, name):
    """Iterations and values of a live curve."""
    (path,) = (folder / "plots/metrics" / kind).glob(f"{name}.tsv")
    with path.open() as file:
        return [(int(row["step"]), float(row[name])) for row in csv.DictReader(file, delimiter="\t")]


def reported(path):
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_they_grow_and_a_run_that_goes_on_has_no_double_rows(folder):
    with at_the_first_state():
        stage(folder, f"{train_with(1, 'killed')} --live live")
    assert [step for step, _ in live_rows(folder / "live", "validation", "CIDEr-D")] == [2]
    succeed(folder, f"{train_with(1, 'killed')} --live live")
    for kind in ("loss", "validation"):
        rows = reported(folder / f"curves/killed/{kind}.csv")
        assert len(rows) > (kind == "validation")
        for name in rows[0].keys() - {"iteration"}:
            found = live_rows(folder / "live", kind, name.replace("/", "-"))
            assert [step for step, _ in found] == [int(row["iteration"]) for row in rows]
            assert [value for _, value in found] == pytest.approx([float(row[name]) for row in rows])
    whole, again = ((folder / to / "weights.safetensors").read_bytes() for to in ("whole", "killed"))
    assert whole == again


@pytest.mark.slow
def test_tensorboard_has_them_where_that_is_asked(folder):
    pytest.importorskip("tensorboard")
    set_params(folder, train__log="tensorboard")
    try:
        succeed(folder, f"{train_with(1, 'boarded')} --live board")
    finally:
        set_params(folder)
    (events,) = (folder / "board/tensorboard").iterdir()
    assert b"validation/CIDEr-D" in events.read_bytes()
    whole, boarded = ((folder / to / "weights.safetensors").read_bytes() for to in ("whole", "boarded"))
    assert whole == boarded


@pytest.mark.parametrize("log", params.Log.__args__)
def test_where_they_are_written_is_in_no_recipe(log):
    first, second, other = (
        resolving.resolve(project_params.settings(**changes), "tabletop", "scorer_cbr")
        for changes in ({}, {"train__log": log}, {"train__log": log, "train__iterations": 7})
    )
    assert first == second != other


def test_a_folder_with_another_file_is_refused_and_not_changed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # dvclive opens the git repository of the working directory
    curves = LiveCurves(tmp_path / "live")
    curves.losses({"iteration": 3, "own": 1.0})
    curves.end()
    (tmp_path / "live/notes.md").write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(InputError, match="live"):
        LiveCurves(tmp_path / "live")
    assert contents(tmp_path) == before
    (tmp_path / "live/notes.md").unlink()
    LiveCurves(tmp_path / "live").end()
