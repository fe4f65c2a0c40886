"""Curves that grow while a training runs: what is in them, after a kill too, and that they decide nothing."""

import csv
import json
from pathlib import Path

import pytest

from pipeline.config import params, resolving
from pipeline.io.errors import InputError
from pipeline.training.live_curves import CONTENTS, LiveCurves
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


EARLIER = {
    "metrics.json": json.dumps({"loss": {"total": 1.0}, "rate": {}, "step": 2}),
    "plots/metrics/loss/total.tsv": "step\ttotal\n2\t1.0\n",
    "plots/metrics/validation/CIDEr-D-change.tsv": "",
    "tensorboard/events.out.tfevents.1.host.2.0": "bytes",
}


def earlier(folder, place, changes):
    """A folder as versions of before the records left it, with these files in it or, by None, without."""
    for name, text in (EARLIER | changes).items():
        (folder / place / name).parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            (folder / place / name).write_text(text)
    return Path(place)


@pytest.mark.parametrize("changes", [{}, {"metrics.json": None}, {"plots/metrics/rate/a.tsv": "step\ta\n"}])
def test_curves_of_an_earlier_version_are_replaced_without_being_moved(tmp_path, monkeypatch, changes):
    monkeypatch.chdir(tmp_path)
    place = earlier(tmp_path, "results/live/tabletop/rr/1", changes)
    curves = LiveCurves(place)
    curves.losses({"iteration": 3, "own": 1.0})
    curves.end()
    assert sorted(path.name for path in place.rglob("*.*")) == [".made.json", "metrics.json", "own.tsv"]
    CONTENTS.check(place)


@pytest.mark.parametrize(
    ("place", "changes"),
    [
        ("results/live/a", {"dvc.yaml": "mine"}),
        ("results/live/a", {"metrics.json": '{"accuracy": 1}'}),
        ("results/live/a", {"metrics.json": "[" * 9}),
        ("results/live/a", {"plots/metrics/loss/total.tsv": "my notes"}),
        ("results/live/a", {"plots/metrics/mine/total.tsv": "step\ttotal\n"}),
        ("results/live/a", {"tensorboard/notes": "mine"}),
        ("results/live/a", {".made.json": "{}"}),
        ("results/live", {}),
        ("somewhere/else", {}),
    ],
)
def test_what_may_be_somebodys_is_none_of_an_earlier_version(tmp_path, monkeypatch, place, changes):
    monkeypatch.chdir(tmp_path)
    path = earlier(tmp_path, place, changes)
    before = contents(tmp_path)
    with pytest.raises(InputError, match=place):
        LiveCurves(path)
    assert contents(tmp_path) == before


def test_a_link_out_of_the_folder_of_curves_is_none_of_an_earlier_version(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    earlier(tmp_path, "somewhere/a", {})
    (tmp_path / "results").mkdir()
    (tmp_path / "results/live").symlink_to(tmp_path / "somewhere")
    LiveCurves(Path("results/live/a")).end()  # on another disk
    (tmp_path / "results/live/b").symlink_to(tmp_path / "somewhere/a")
    with pytest.raises(InputError, match="is a link"):
        LiveCurves(Path("results/live/b"))
