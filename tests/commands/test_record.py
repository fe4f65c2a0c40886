"""Records of the runs of the pipeline: finished ones, with the current settings."""

import pytest

from commands import record
from pipeline.config import recipe_file
from pipeline.results import own_records, records
from tests import project_params
from tests.running import refuse, succeed
from tests.study_lab import Fake, make_models_once, make_repository


@pytest.fixture
def root(tmp_path, monkeypatch):
    """The first seed of rr is finished, the second is not."""
    make_models_once(monkeypatch)
    make_repository(tmp_path)
    project_params.write(tmp_path, models=["rr"], seeds=[1, 2])
    monkeypatch.chdir(tmp_path)
    run, _ = record.runs(tmp_path)
    Fake(tmp_path).do(run)
    recipe_file.save(tmp_path / "data/recipes/tabletop/rr/1/recipe.yaml", run.recipe)
    return tmp_path


def test_finished_runs_have_records(root):
    succeed(root, "record")
    one, two = record.runs(root)
    assert own_records.recorded(root, one, {})
    assert not own_records.recorded(root, two, {})
    found = records.read(records.path(root, one, {}))
    assert (found["key"], found["seed"], found["changes"]) == (one.key, 1, {})
    assert found["validation"]["true/changed"] == {"300": 0.0, "600": 0.1}


def test_own_records_have_a_page_and_are_published_by_a_command(root, capsys):
    refuse(root, "record --promote", "results/own/records has no record of this params.yaml")
    succeed(root, "record")
    succeed(root, "results --own")
    page = (root / "results/own/results.md").read_text()
    assert page.startswith("# Own results\n")
    assert "## tabletop: scores\n" in page
    assert "](results-seeds.svg)" in page
    project_params.write(root, models=["rr"], seeds=[1, 2], decode__beam=3)
    capsys.readouterr()
    refuse(root, "results --own", "results/own/records has no record for the page")
    assert "left out: 1 own record(s)" in capsys.readouterr().out
    project_params.write(root, models=["rr"], seeds=[1, 2])
    succeed(root, "record --promote")
    assert {path.name for path in (root / "results/records/tabletop").iterdir()} == {
        "pairs.json",
        "rr-1.csv",
        "rr-1.json",
    }


def test_a_run_of_other_settings_is_refused(root):
    project_params.write(root, model__rr__dropout=0.5, models=["rr"], seeds=[1])
    refuse(root, "record", "results/runs/tabletop/rr/1 was made with other settings or code; run `dvc")
    assert not (root / "results/own").exists()


def test_without_a_finished_run_there_is_nothing_to_record(root):
    project_params.write(root, models=["ccr"], seeds=[1])
    refuse(root, "record", "no run of params.yaml has pairs.jsonl in results/runs; run `dvc repro`")


def test_a_large_test_split_has_no_record(root, monkeypatch, capsys):
    monkeypatch.setattr(records, "MOST_PAIRS", 3)
    succeed(root, "record")
    assert (
        "results/runs/tabletop/rr/1: no record, as there are more than 3 test pairs"
        in capsys.readouterr().out
    )
    assert not (root / "results/own").exists()
