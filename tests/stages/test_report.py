"""The stages `constant` and `report`: outputs, printed tables, and mistakes."""

import json

import pandas as pd
import pytest

from pipeline.datasets.schema import of_split, read_pairs
from pipeline.io.folder_records import RECORD
from pipeline.reporting.score_table import of_metrics
from tests.folders import contents
from tests.report_lab import make_cell, make_study, write_json
from tests.running import refuse, succeed

INPUTS = "--pairs data/pairs/tabletop.jsonl --manifest data/pairs/tabletop.manifest.json"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    root = tmp_path_factory.mktemp("study")
    make_study(root)
    succeed(root, "report --out results/report")
    return root


def test_the_report_is_one_page_and_its_numbers(study):
    out = study / "results/report"
    assert sorted(path.name for path in out.iterdir()) == [
        RECORD, "index.html", "losses.json", "notes.json", "scores.csv", "types.json", "validation.json",
    ]  # fmt: skip
    scores = pd.read_csv(out / "scores.csv")
    runs = ["constant", *(f"{model}/{seed}" for model in ("subtraction", "scorer") for seed in (1, 2))]
    assert [*scores["run"].unique()] == runs
    file = json.loads((study / "results/runs/tabletop/scorer/2/metrics.json").read_text())
    total = scores[(scores["run"] == "scorer/2") & (scores["subset"] == "total")]
    assert dict(zip(total["metric"], total["value"], strict=True)) == file["total"] | {
        name: value for name, value in file.items() if not isinstance(value, dict)
    }
    assert json.loads((out / "notes.json").read_text()) == {"tabletop": []}


def test_a_second_report_has_the_same_bytes_and_ignores_stale_runs(study):
    before = contents(study / "results/report")
    test = of_split(read_pairs(study / "data/pairs/tabletop.jsonl"), "test")
    make_cell(study, "tabletop", "rr", 1, test, 0.9)
    (study / "results/runs/clevr_change/constant").mkdir(parents=True)
    succeed(study, "report")
    assert contents(study / "results/report") == before


def test_show_prints_truth_first_in_80_columns(tmp_path, capsys):
    scores = {"BLEU-4": 0.5, "METEOR": 0.25, "ROUGE-L": 0.75, "CIDEr-D": 1.25, "change_accuracy": 0.5}
    tables = [
        of_metrics(
            {
                "total": scores | {"true/changed": true[0], "true/unchanged": true[1]},
                "change": scores,
            },
            dataset="tabletop",
            run=model,
            model=model,
            seed=seed,
        )
        for model, seed, true in (("constant", "", (0.0, 1.0)), ("subtraction", "1", (0.37, 0.98)))
    ]
    write_json(tmp_path / "results/report/notes.json", {})
    pd.concat(tables).to_csv(tmp_path / "results/report/scores.csv", index=False)
    succeed(tmp_path, "report --show")
    _, *heads, rule, constant, model, _ = capsys.readouterr().out.splitlines()
    assert max(map(len, (*heads, rule, constant, model))) <= 80
    assert constant.split() == ["constant", "0.0", "100.0", "50.0", "25.0", "75.0", *["125.0"] * 2, "50.0"]
    assert model.split()[:4] == ["subtraction", "1", "37.0", "98.0"]


def test_show_without_a_report_is_one_line(tmp_path, capsys):
    said = "error: results/report/scores.csv is missing; run `dvc repro` to make it\n"
    assert refuse(tmp_path, "report --show", said) == said
    assert capsys.readouterr().out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_missing_run_is_named_and_the_old_report_stays(study):
    path = study / "results/runs/tabletop/scorer/1/captions.json"
    kept, before = path.read_bytes(), contents(study / "results/report")
    path.unlink()
    try:
        refuse(study, "report", "results/runs/tabletop/scorer/1/captions.json is missing; run `dvc repro`")
    finally:
        path.write_bytes(kept)
    assert contents(study / "results/report") == before


@pytest.mark.usefixtures("made_up_meteor")
def test_the_constant_caption_is_chosen_on_validation_and_scored_on_test_as_a_models(study):
    inputs = f"--dataset tabletop {INPUTS} --captions captions.json"
    succeed(study, f"constant {inputs} --out metrics.json")
    entries = json.loads((study / "captions.json").read_text())
    test = of_split(read_pairs(study / "data/pairs/tabletop.jsonl"), "test")
    assert [entry["image_id"] for entry in entries] == [pair.pair_id for pair in test]
    # half of the validation pairs have not changed, and a caption of four words has n-grams of four
    assert {entry["caption"] for entry in entries} == {"there is no change"}
    succeed(study, f"score {inputs} --out model.json")
    metrics, model = (json.loads((study / f"{name}.json").read_text()) for name in ("metrics", "model"))
    human = metrics.pop("human")
    assert 0 < human["pairs"] <= len(test)
    assert human["constant"]["caption"]
    same = [{key: value for key, value in each.items() if key != "hashes"} for each in (metrics, model)]
    assert same[0] == same[1]
    assert metrics["total"]["agrees"] == 0.5  # no scenes there
    assert metrics["change_accuracy"] == 0.5
    assert metrics["scorers"]["references"] == "clevr_change"


def test_the_constant_caption_needs_test_pairs(study, tmp_path):
    lines = (study / "data/pairs/tabletop.jsonl").read_text().split("\n")
    (tmp_path / "pairs.jsonl").write_text("\n".join(line for line in lines if '"test"' not in line))
    (tmp_path / "params.yaml").write_bytes((study / "params.yaml").read_bytes())
    files = "--pairs pairs.jsonl --manifest manifest.json --captions captions.json --out metrics.json"
    refuse(tmp_path, f"constant --dataset tabletop {files}", "has no pair of the split test")
