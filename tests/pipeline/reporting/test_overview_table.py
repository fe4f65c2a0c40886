"""The score tables: numbers as they stand in the metrics files, means and deviations over seeds."""

import json

import pytest

from pipeline.io.errors import InputError
from pipeline.reporting import dataset_results, overview_table
from tests.report_lab import QUARTILES, make_study, write_json

PARTS = ("total", "change", "no_change", "color", "texture", "add", "drop", "move", *QUARTILES)
WHOLE = ("change_accuracy", "exact_match", "distinct_captions", "mean_length")
GROUPS = (*PARTS, "attributes", "localisation")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    root = tmp_path_factory.mktemp("study")
    return root, make_study(root)


@pytest.fixture(scope="module")
def records(study):
    return overview_table.records(dataset_results.read(*study))


def metrics_file(root, *cell):
    return json.loads(root.joinpath("results/cells/tabletop", *cell, "metrics.json").read_text())


def test_records_are_the_metrics_files_numbers(study, records):
    root, _ = study
    runs = {("constant", None): metrics_file(root, "constant")}
    runs |= {
        (model, seed): metrics_file(root, model, str(seed))
        for model in ("subtraction", "scorer")
        for seed in (1, 2)
    }
    assert [(r["model"], r["seed"], r["subset"]) for r in records] == [
        (*run, p) for run in runs for p in GROUPS
    ]
    for record in records:
        file = runs[record["model"], record["seed"]]
        told = {name: file[name] for name in WHOLE} if record["subset"] == "total" else {}
        names = {key: record[key] for key in ("dataset", "model", "seed", "subset")}
        assert record == names | file[record["subset"]] | told
        assert record["dataset"] == "tabletop"


def made_up(*values):
    return [
        {"dataset": "d", "model": "m", "seed": seed, "subset": "total", "CIDEr-D": value}
        for seed, value in enumerate(values)
    ]


def test_mean_and_sample_standard_deviation():
    *_, last = overview_table.rows(made_up(1.0, 1.2, 1.7), "d")
    # by hand: the deviations are -.3, -.1 and .4, their squares' sum is .26, and .26 / 2 = .13
    assert last.runs == 3
    own = last.scores["total", "CIDEr-D"]
    assert (own.mean, own.sd) == pytest.approx((1.3, 0.13**0.5))
    assert last.printed("total", "CIDEr-D") == "130.0 ± 36.1"


def test_what_some_runs_lack_has_no_mean():
    records = made_up(1.0, 1.2)
    records[0]["SPICE"] = 0.3
    first, second, last = overview_table.rows(records, "d")
    assert [row.printed("total", "SPICE") for row in (first, second, last)] == ["30.0", "–", "–"]


@pytest.mark.parametrize("value", [{}, [1], [{"model": "m"}], [made_up(0.5)[0] | {"CIDEr-D": "x"}]])
def test_scores_that_are_none_are_refused(tmp_path, value):
    write_json(tmp_path / "scores.json", value)
    with pytest.raises(InputError, match=r"scores\.json: .*; run `dvc repro`"):
        overview_table.read(tmp_path / "scores.json")
