"""The folder of growing curves: its own files are replaced, and nobody else's."""

import pytest

from pipeline.io.errors import InputError
from pipeline.training.live_curves import LiveCurves
from pipeline.training.resuming import History

# what dvclive removes, or replaces, in any folder
THEIRS = ["dvc.yaml", "params.yaml", "report.md", "report.html", "metrics.json", "tensorboard/events", "mine"]


@pytest.fixture(autouse=True)
def _outside_the_repository(tmp_path, monkeypatch):
    """dvclive opens the one that it is in, and leaves its files open."""
    monkeypatch.chdir(tmp_path)


def grown(folder, log="dvclive", iterations=2):
    live = LiveCurves(folder, log)
    live.begin(History())
    for iteration in range(1, iterations + 1):
        live.losses({"iteration": iteration, "cap": 0.5})
        live.validation({"iteration": iteration, "true/change": 0.5})
    return live


def names(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", [*THEIRS, "plots/metrics/loss/mine.tsv"])
@pytest.mark.parametrize("own", [False, True])
def test_a_folder_with_a_file_of_somebodys_is_left(tmp_path, name, own):
    if own:
        grown(tmp_path / "live").end()
    mine = tmp_path / "live" / name
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text("mine")
    before = names(tmp_path)
    with pytest.raises(InputError, match=name):
        grown(tmp_path / "live")
    assert (mine.read_text(), names(tmp_path)) == ("mine", before)


@pytest.mark.parametrize("log", ["dvclive", "tensorboard"])
@pytest.mark.parametrize("ended", [False, True])
def test_another_run_replaces_all_of_an_earlier_one(tmp_path, log, ended):
    if log == "tensorboard":
        pytest.importorskip("tensorboard")
    live = grown(tmp_path / "live", log, iterations=3)
    if ended:  # else it was killed
        live.end()
    grown(tmp_path / "live", iterations=1)
    (curve,) = tmp_path.glob("live/plots/metrics/loss/cap.tsv")
    assert curve.read_text().split() == ["step", "cap", "1", "0.5"]
    assert not (tmp_path / "live/tensorboard").exists()


def test_nothing_is_written_where_no_log_is_wanted(tmp_path):
    (tmp_path / "mine").write_text("mine")
    grown(tmp_path, "none").end()
    assert names(tmp_path) == {"mine"}
