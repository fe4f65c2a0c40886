"""The tables behind `dvc plots show`, and the summary behind `dvc metrics show`."""

import json
from pathlib import Path

import pytest
import yaml

from pipeline.reporting import dataset_results, dvc_plots
from pipeline.scoring.metric_names import summary
from tests.report_lab import make_study

ROOT = Path(__file__).parents[3]
PIPELINE = yaml.load((ROOT / "dvc.yaml").read_text(), yaml.CSafeLoader)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    root = tmp_path_factory.mktemp("study")
    params = make_study(root)
    curves = root / "results/curves/tabletop/scorer/2"
    for kind, header in (("loss", "iteration,cap"), ("validation", "iteration,CIDEr-D")):
        (curves / f"{kind}.csv").write_text(f"{header}\n")  # as of imported weights
    return root, dvc_plots.tables(dataset_results.read(root, params))


def test_every_run_is_in_one_table(study):
    root, found = study
    runs = [f"tabletop/{model}/{seed}" for model in ("subtraction", "scorer") for seed in (1, 2)]
    assert list(dict.fromkeys(row["run"] for row in found["validation.json"])) == runs[:3]
    assert [row for row in found["validation.json"] if row["run"] == runs[0]] == [
        {"run": runs[0], "curve": "validation", "iteration": 150, "CIDEr-D": 0.255},
        {"run": runs[0], "curve": "validation", "iteration": 300, "CIDEr-D": 0.51},
    ]
    terms = {run: {row["curve"] for row in found["losses.json"] if row["run"] == run} for run in runs}
    assert list(terms.values()) == [{"cap"}, {"cap"}, {"cap", "cv"}, set()]
    assert len(found["losses.json"]) == 2 * 30 + 60
    types = {run: [] for run in ("tabletop/constant", *runs)}
    for row in found["types.json"]:
        types[row["run"]].append(row["type"])
    assert list(types.values()) == [["color", "texture", "add", "drop", "move", "no_change"]] * 5
    written = json.loads((root / "results/runs" / runs[3] / "metrics.json").read_text())
    assert found["types.json"][-1]["CIDEr-D"] == written["no_change"]["CIDEr-D"]


def test_dvc_draws_columns_that_the_tables_have(study):
    _, found = study
    drawn = set()
    for entry in PIPELINE["plots"]:
        (plot,) = entry.values()
        template = json.loads((ROOT / f".dvc/plots/{plot['template']}.json").read_text())
        ((path, column),) = plot["y"].items()
        rows = found[Path(path).name]
        fields = {template["facet"]["row"]["field"], "run", plot["x"], column} - {"rev"}
        assert all(fields <= row.keys() for row in rows)
        assert isinstance(rows[0][column], float)
        assert plot["title"]
        assert plot["x_label"]
        assert plot["y_label"]
        drawn.add(Path(path).name)
    assert drawn == set(found)


def test_the_summary_has_the_shown_scores_and_truth_first():
    total = {"BLEU-1": 0.5, "BLEU-4": 0.25, "METEOR": 0.2, "ROUGE-L": 0.4, "CIDEr-D": 1.2, "SPICE": None}
    total["true/changed"] = 0.0
    tree = {"total": total, "change": {"CIDEr-D": 0.1, "true": 0.0}, "change_accuracy": 0.75, "scorers": {}}
    tree |= {"scored": {"pairs": 9, "left_out": 0, "references_sha256": "a" * 64}, "distinct_captions": 3}
    tree |= {"repetition": {"share": 0.5, "without_words": 0}}
    expected = {"BLEU-4": 0.25, "METEOR": 0.2, "ROUGE-L": 0.4, "CIDEr-D": 1.2, "change_accuracy": 0.75}
    expected |= {"pairs": 9, "left_out": 0, "references_sha256": "a" * 16, "distinct_captions": 3}
    expected |= {"commonest_share": 0.5, "without_words": 0}
    assert [*summary(tree).items()] == [("true/changed", 0.0), *expected.items()]
