"""Experiments as `dvc exp show --json` tells of them, and CIDEr-D against λ."""

import json
import re
from dataclasses import replace

import pytest

from pipeline.io.errors import InputError
from pipeline.reporting import dataset_results, dvc_experiments, tradeoffs
from pipeline.reporting.dvc_experiments import Experiment
from tests.report_lab import make_study
from tests.report_page import undrawn


def state(rev, name, values, score, **others):
    """As DVC 3.67 printed it: a commit, or the first of an experiment's revisions."""
    params = {"models": ["a"], "loss": {"lambda_cv": None, "lambda_cbr": None} | values}
    cell = "results/cells/tabletop/scorer/1"
    scores = {"results/cells/tabletop/constant/summary.json": {"data": {"CIDEr-D": 0.1}}}
    if score is not None:
        scores[f"{cell}/summary.json"] = {"data": {"CIDEr-D": score, "SPICE": 0.25}}
    data = {"rev": rev, "params": {"params.yaml": {"data": params}}, "metrics": scores, "deps": {}}
    return {"rev": rev, "name": name, "data": data, "error": None, "experiments": None} | others


def ran(*revs, executor=None):
    return {"revs": list(revs), "executor": executor, "name": revs[0]["name"]}


@pytest.fixture
def recorded():
    failed = {"rev": "f" * 40, "name": "bad", "data": None, "error": {"msg": "it failed"}}
    made = [
        ran(state("b" * 40, "late", {"lambda_cbr": 0.02}, 0.7)),
        ran(state("c" * 40, "early", {"lambda_cbr": 0.004}, 0.6), executor={"state": "success"}),
        ran(state("d" * 40, "now", {"lambda_cbr": 0.5}, 0.1), executor={"state": "running", "local": None}),
        ran(failed, executor={"state": "failed"}),
    ]
    commit = state("a" * 40, "main", {}, 0.5, experiments=made)
    return [state("workspace", None, {"lambda_cbr": 9.0}, 0.9), commit]


def test_finished_experiments_are_gathered_with_what_differs_and_their_cells(recorded):
    scores = {"tabletop/scorer/1": {"CIDEr-D": 0.6, "SPICE": 0.25}}
    found = dvc_experiments.gather(recorded)
    assert [(one.name, one.params) for one in found] == [
        ("early", {"loss.lambda_cbr": 0.004}),
        ("late", {"loss.lambda_cbr": 0.02}),
        ("main", {"loss.lambda_cbr": None}),
    ]
    assert found[0].metrics == scores  # neither the constant caption's nor a running one's


def test_an_experiment_without_scores_and_a_commit_twice_do_not_count(recorded):
    recorded[1]["experiments"].append(ran(state("e" * 40, "empty", {"lambda_cbr": 1.0}, None)))
    assert [one.name for one in dvc_experiments.gather([*recorded, recorded[1]])] == ["early", "late", "main"]
    assert dvc_experiments.gather([]) == []


@pytest.mark.parametrize("shown", [{}, [1], [{"rev": "a"}], "x", None, [{"rev": "a", "error": None}]])
def test_what_is_no_list_of_experiments_is_refused(shown):
    if shown == {}:
        shown = {"rev": 1}
    with pytest.raises(InputError, match="no list of experiments"):
        dvc_experiments.gather(shown)


def test_what_is_gathered_is_read_again(recorded, tmp_path):
    found = dvc_experiments.gather(recorded)
    (tmp_path / "e.json").write_text(json.dumps(dvc_experiments.records(found)))
    assert dvc_experiments.read(tmp_path / "e.json") == found


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", '[{"name": "a"}]', "[[[", '[{"name":"a","params":{},"metrics":1}]']
)
def test_a_damaged_file_is_named_on_one_line(tmp_path, text):
    path = tmp_path / "experiments.json"
    assert dvc_experiments.read(path) == []
    path.write_text(text)
    with pytest.raises(InputError, match=r"experiments\.json") as raised:
        dvc_experiments.read(path)
    assert "\n" not in str(raised.value)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    root = tmp_path_factory.mktemp("study")
    params = make_study(root)
    return dataset_results.read(root, params)[0], params


def experiment(weight, scores, key="loss.lambda_cv", **others):
    metrics = {f"tabletop/{cell}": {"CIDEr-D": score} for cell, score in scores.items()}
    return Experiment(f"e{weight}", {key: weight} | others, metrics)


def test_a_panel_for_each_weight_that_has_two_values_and_of_models_that_have_its_term(study):
    made = [
        experiment(0.7, {"scorer/1": 0.5, "scorer/2": 0.7, "subtraction/1": 0.1}),
        experiment(None, {"scorer/1": 0.4}),  # null: the dataset's own
        experiment(0.5, {"scorer/1": 0.9}, key="loss.lambda_cbr"),
    ]
    made = [
        replace(one, params={"loss.lambda_cv": None, "loss.lambda_cbr": None} | one.params) for one in made
    ]
    (panel,) = tradeoffs.panels(study[0], made, study[1])
    assert panel.title == "CIDEr-D × 100 against λ of view-invariance"
    own = study[1].of("tabletop").loss
    cv, cbr = f"{own['lambda_cv']:g}", f"{own['lambda_cbr']:g}"
    assert f"scorer (loss.lambda_cbr = {cbr}): 40.0 at {cv}, 60.0 at 0.7." in panel.told
    assert "subtraction" not in panel.told
    assert "0.7</text>" in panel.svg
    assert "#0f0f" not in panel.svg


def test_one_value_or_another_dataset_is_no_panel(study):
    results, params = study
    assert tradeoffs.panels(results, [], params) == []
    assert tradeoffs.panels(results, [experiment(0.01, {"scorer/1": 0.5})], params) == []
    both = [experiment(weight, {"scorer/1": 0.5}) for weight in (0.01, 0.1)]
    assert len(tradeoffs.panels(results, both, params)) == 1
    assert tradeoffs.panels(replace(results, dataset="clevr_change"), both, params) == []


@pytest.mark.parametrize("dataset", ["clevr_dc"])
def test_a_term_that_a_dataset_has_no_weight_of_is_no_panel_and_no_obstacle(study, dataset):
    """Of IDC-PCL's judging nothing is published there."""
    results, params = study
    assert "lambda_judge" not in params.of(dataset).loss
    made = [
        experiment(weight, {"scorer/1": 0.5}, **{"loss.lambda_judge": judge})
        for weight in (None, 0.7)
        for judge in (None, 0.5)
    ]
    made = [replace(one, metrics={f"{dataset}/scorer/1": {"CIDEr-D": 0.5}}) for one in made]
    (panel,) = tradeoffs.panels(replace(results, dataset=dataset), made, params)
    assert "view-invariance" in panel.title
    assert "scorer (loss.lambda_judge = null)" in panel.told
    assert "scorer (loss.lambda_judge = 0.5)" in panel.told


def test_other_settings_are_lines_of_their_own(study):
    made = [
        experiment(weight, {"scorer/1": 0.5 + weight}, **{"train.iterations": iterations})
        for weight in (0.0, 0.01)
        for iterations in (10, 20)
    ]
    (panel,) = tradeoffs.panels(study[0], made, study[1])
    assert "scorer (train.iterations = 10): 50.0 at 0, 51.0 at 0.01" in panel.told
    assert "scorer (train.iterations = 20): 50.0 at 0, 51.0 at 0.01" in panel.told
    assert len(re.findall(r"train\.iterations = \d0</text>", panel.svg)) == 2


def test_the_page_draws_them(study):
    results, params = study
    made = [experiment(weight, {"scorer/1": 0.5, "scorer/2": 0.6}) for weight in (0.01, 0.1)]
    assert tradeoffs.panels(results, made, params) == tradeoffs.panels(results, made, params) != []
    assert "<h3>Weights of the losses</h3>" in undrawn([results], params, made)
    assert "<h3>Weights of the losses</h3>" not in undrawn([results], params)
