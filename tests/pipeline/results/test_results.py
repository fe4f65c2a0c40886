"""The page of results: numbers by hand, verdicts that need pairs and seeds, the page as it is committed."""

import json
import math
from dataclasses import replace
from statistics import mean, stdev

import pytest

from commands import results
from pipeline.config import resolving
from pipeline.config.params import Params
from pipeline.io.errors import InputError
from pipeline.results import record_comparisons, records, results_figures, results_page
from pipeline.scoring.metric_names import ACCURACY
from pipeline.study.study_cells import Cell
from tests import project_params
from tests.recorded import PAIRS, groups, write
from tests.running import refuse, succeed


def test_means_and_deviations_by_hand(root):
    found = groups(root)["rr"]
    shares = [(PAIRS - wrong) / PAIRS for wrong in (4, 5, 6)]
    spread = found.score("total", ACCURACY)
    assert (spread.mean, spread.sd, spread.runs) == pytest.approx((mean(shares), stdev(shares), 3))
    of_changes = [(20 - wrong) / 20 for wrong in (2, 3, 3)]  # the even ones of the first 4, 5, 6 pairs
    assert found.score("change", ACCURACY).mean == pytest.approx(mean(of_changes))
    assert found.score("viewpoint_iou_q4", ACCURACY).mean == 1.0
    assert found.score("total", "BLEU-4").mean == pytest.approx(0.52)


def test_in_a_quartile_of_many_changes_silence_is_no_worse_than_elsewhere(root):
    """rr's first seed is wrong about pairs 0 to 3; with silent captions, about all even ones."""
    found = groups(root)["rr"].each()[0]
    found.pairs["subsets"]["viewpoint_iou_q1"] = [0, 2, 4, 6, 8, 3, 5, 7]
    assert found.score("viewpoint_iou_q1", ACCURACY).mean == pytest.approx(5 / 8)
    assert found.balanced("viewpoint_iou_q1").mean == pytest.approx((3 / 5 + 2 / 3) / 2)
    silent = replace(found, records=(found.records[0] | {"right": "01" * (PAIRS // 2)},))
    assert silent.balanced("viewpoint_iou_q1").mean == 0.5
    found.pairs["subsets"]["viewpoint_iou_q1"] = [0, 4, 8]  # no pair without a change: of the others alone
    assert found.balanced("viewpoint_iou_q1").mean == pytest.approx(2 / 3)


def test_the_spread_of_the_page_is_pooled_over_models_that_have_begun(root):
    """Of 20 changes rr's seeds tell 18, 17 and 17 truly, ccr's all, 18 and 16; scorer tells nothing."""
    for seed in (1, 2, 3):
        write(root, "ccr", seed, (0, 4, 8)[seed - 1])
        write(root, "scorer", seed, 38)
        (root / f"results/records/tabletop/subtraction-{seed}.json").unlink()
    page = results_page.page([record_comparisons.read(root, "tabletop")], [], project_params.settings())
    said = " ".join(page[page.index("**tabletop**") :].split())
    sd = 100 * math.sqrt((stdev([18, 17, 17]) ** 2 + stdev([20, 18, 16]) ** 2) / 2) / 20
    assert said.startswith(f"**tabletop** (2 models): what is true of changes varies by {sd:.1f} points")
    assert f"one in 20 differs by {1.95996 * math.sqrt(2) * sd:.1f} points or more" in said
    assert f"show a difference of {2.8016 * math.sqrt(2 / 5) * sd:.1f} points" in said


def test_seeds_wanted_by_the_formula():
    # n = 2 (1.95996 + 0.84162)^2 sd^2 / d^2 = 15.69 (sd / d)^2
    assert results_page.seeds_wanted(0.02) == 16
    assert results_page.seeds_wanted(0.04) == 63
    assert results_page.seeds_wanted(0.0001) == 2
    assert results_page.shown(0.02, 16) <= 0.02 < results_page.shown(0.02, 15)


def test_the_spread_over_pairs_is_a_single_runs(root):
    """Of ccr's two runs one is true where the other is not: their mean does not vary, each run does."""
    for seed, true in ((1, "1100"), (2, "0011")):
        write(root, "ccr", seed, 0)
        file = root / f"results/records/tabletop/ccr-{seed}.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"true": true * (PAIRS // 4)}))
    own = groups(root)["ccr"]
    assert results_page.over_pairs(own) == pytest.approx(0, abs=1e-12)
    assert results_page.over_pairs(own.each()[0]) == pytest.approx(0.5 / math.sqrt(PAIRS / 2), rel=0.1)


def test_the_page_prints_what_is_recorded(root):
    write(root, "rr", 1, 3, changes={"model.rr.switches.norm_epsilon": 0.1})
    found = record_comparisons.read(root, "tabletop")
    said = results_page.page([found], ["![a](b.svg)"], project_params.settings())
    assert "| rr (3) | 86.7 ± 2.9 | 88.3 ± 2.9 | 87.5 ± 2.5 | 52.0 ± 1.0 | 52.0 ± 1.0 |" in said
    assert "| rr (norm_epsilon 0.1) (1) | 90.0 | 95.0 | 92.5 | 51.0 |" in said
    assert said.index("True captions by kind") < said.index("Change accuracy by kind")
    assert "| rr | 46.7 ± 11.5 | 100.0 ± 0.0 | 100.0 ± 0.0 | 100.0 ± 0.0 |" in said  # of 5 changes a quartile
    assert "### Ablations on tabletop" in said
    assert "| rr > subtraction (SCORER, Table 6) | tabletop | 3 | holds | +38.3 [" in said
    assert " | holds | +37.5 [" in said
    assert said.index("| subtraction (3) |") < said.index("| rr (3) |"), "the models' order is params.yaml's"
    one = results_page.page([[group.each()[0] for group in found]], [], project_params.settings())
    assert "cannot be told" in one
    assert "How steady" not in one


def test_datasets_stand_beside_each_other_by_viewpoint(root):
    """Models in params.yaml's order; one that a dataset lacks has a dash there."""
    one = [record_comparisons.read(root, "tabletop")]
    assert "How far the camera moves" not in results_page.page(one, [], project_params.settings())
    write(root, "rr", 1, 10, dataset="tabletop_wide")
    write(root, "ccr", 1, 0, dataset="tabletop_wide")
    write(root, "ccr", 1, 20, dataset="tabletop_wide", changes={"model.ccr.dropout": 0.5})
    page = results_page.page(
        [*one, record_comparisons.read(root, "tabletop_wide")], [], project_params.settings()
    )
    table = page[page.index("## How far the camera moves") : page.index("## tabletop\n")].splitlines()
    assert [line for line in table if line.startswith("| ") and "---" not in line][1:] == [
        "| subtraction | 48.3 ± 2.9 | – |",
        "| rr | 86.7 ± 2.9 | 75.0 |",
        "| ccr | – | 100.0 |",
    ]


def test_each_models_iterations_are_told_where_they_differ(root):
    page = results_page.page([record_comparisons.read(root, "tabletop")], [], project_params.settings())
    assert f"\n{PAIRS} test pairs, 1500 iterations of 8 scenes.\n" in page
    for seed in (1, 2, 3):
        file = root / f"results/records/tabletop/rr-{seed}.json"
        train = {"iterations": 900, "batch": 16}
        file.write_text(json.dumps(json.loads(file.read_text()) | {"train": train}))
    page = results_page.page([record_comparisons.read(root, "tabletop")], [], project_params.settings())
    own = "1500 iterations of 8 scenes (subtraction); 900 iterations of 16 scenes (rr)"
    assert f"\n{PAIRS} test pairs, {own}.\n" in page


def test_ablations_come_after_their_model_a_weight_by_its_size(root):
    weight, heads = "dataset.tabletop.loss.lambda_cv", "dataset.tabletop.sizes.heads"
    for changes in ({weight: 1.0}, {weight: 1e-05}, {weight: 0.3}, {"model.scorer.switches.mtm": "max_pool"}):
        write(root, "scorer", 1, 4, changes=changes)
    write(root, "rr", 1, 4, changes={heads: 8})
    write(root, "scorer", 1, 4)
    page = results_page.page([record_comparisons.read(root, "tabletop")], [], project_params.settings())
    table = page[page.index("### Ablations") :]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines() if line.startswith("| ")]
    ours = ["rr (3)", "rr (heads 8) (1)", "scorer (1)", "scorer (lambda_cv 1e-05) (1)"]
    assert rows[1:8] == [
        *ours,
        "scorer (lambda_cv 0.3) (1)",
        "scorer (lambda_cv 1.0) (1)",
        "scorer (mtm max_pool) (1)",
    ]


@pytest.mark.parametrize(("wrong", "said"), [(38, "subtraction."), (36, None)])
def test_a_model_that_has_not_begun_is_named(root, wrong, said):
    """Right of one change in 20, which is nothing, or of two."""
    for seed in (1, 2, 3):
        write(root, "subtraction", seed, wrong)
    page = results_page.page([record_comparisons.read(root, "tabletop")], [], project_params.settings())
    assert ("Not begun within these iterations" in page) == (said is not None)
    assert said is None or f"than one in 10 pairs that have one): {said}" in page


def test_an_ablation_that_has_not_begun_is_named_below_the_ablations(root):
    write(root, "scorer", 1, 4)
    write(root, "scorer", 1, 38, changes={"model.scorer.switches.fusion": "sum"})
    page = results_page.page([record_comparisons.read(root, "tabletop")], [], project_params.settings())
    models, ablations = page.split("### Ablations")
    assert "Not begun" not in models
    assert "than one in 10 pairs that have one): scorer (fusion sum).\n" in ablations


def test_other_records_make_another_page_and_other_figures(root, tmp_path):
    def made():
        found = record_comparisons.read(root, "tabletop")
        figures = results_figures.write(tmp_path / "out", [found], project_params.settings())
        drawn = [path.read_bytes() for path in sorted((tmp_path / "out").iterdir())]
        return results_page.page([found], figures, project_params.settings()), drawn

    (page, drawn), again = made(), made()
    assert (page, drawn) == again
    write(root, "rr", 2, 30)
    other_page, other_drawn = made()
    assert other_page != page
    assert all(one != other for one, other in zip(drawn, other_drawn, strict=True))


def test_records_of_other_pairs_are_refused(root):
    file = root / "results/records/tabletop/rr-2.json"
    file.write_text(file.read_text().replace('"right": "0', '"right": "00'))
    with pytest.raises(InputError, match=r"rr-2\.json is of other test pairs than .*pairs\.json; restore"):
        record_comparisons.read(root, "tabletop")


@pytest.mark.parametrize("key", ["captions", "faults", "METEOR"])
def test_records_of_fewer_captions_or_numbers_are_refused(root, key):
    file = root / "results/records/tabletop/rr-2.json"
    record = json.loads(file.read_text())
    record[key] = record[key][:-2]
    file.write_text(json.dumps(record))
    with pytest.raises(InputError, match=r"rr-2\.json is of other test pairs than .*pairs\.json; restore"):
        record_comparisons.read(root, "tabletop")


def test_without_a_record_the_page_says_so_and_how_to_make_one(root, monkeypatch):
    """And the figures of an earlier page are gone."""
    project_params.write(root)
    monkeypatch.chdir(root)
    results.write(root / "docs")
    drawn = {path.name for path in (root / "docs").glob("results*")}
    assert drawn == {
        "results.md",
        "results-seeds.svg",
        "results-viewpoint.svg",
        "results-judges.svg",
        "results-false-words.svg",
    }
    assert "There is no record yet" not in (root / "docs/results.md").read_text()
    for path in (root / "results/records/tabletop").iterdir():
        path.unlink()
    results.write(root / "docs")
    (page,) = (root / "docs").glob("results*")
    said = page.read_text()
    assert said.endswith("\nThere is no record yet, and so there is no table here.\n")
    assert "make study NAME=all-models DATASET=tabletop" in said
    assert "](results-" not in said
    assert "|" not in said


def test_a_record_without_truth_is_none(root):
    """As they were made of features that do not see."""
    file = root / "results/records/tabletop/rr-2.json"
    old = {key: value for key, value in json.loads(file.read_text()).items() if key != "true"}
    file.write_text(json.dumps(old))
    with pytest.raises(InputError, match=r"rr-2\.json: the key true is missing"):
        record_comparisons.read(root, "tabletop")


def test_a_record_of_other_settings_is_on_no_page(tmp_path):
    write(tmp_path, "rr", 1, 4, changes={"model.rr.dropout": 0.2})
    write(tmp_path, "rr", 1, 5)
    project_params.write(tmp_path)
    tree = project_params.tree()
    for changes, dropout in (({}, None), ({"model.rr.dropout": 0.2}, 0.2)):
        tree["model"]["rr"]["dropout"] = dropout or tree["model"]["rr"]["dropout"]
        file = tmp_path / "results/records/tabletop" / records.name("rr", changes, 1)
        recipe = resolving.resolve(Params.model_validate(tree), "tabletop", "rr")
        own = records.settings(Cell("", "tabletop", "rr", 1, tree, recipe, ""))
        file.write_text(file.read_text().replace('"settings": ""', f'"settings": "{own}"'))
    succeed(tmp_path, "results")
    project_params.write(tmp_path, decode__beam=3)
    (tmp_path / "docs/results.md").unlink()
    said = refuse(tmp_path, "results", "params.yaml has other settings than 2 of the 2 records")
    assert "results/records/tabletop, the first rr-1.json" in said
    assert not (tmp_path / "docs/results.md").exists()


def test_the_committed_page_is_that_of_the_committed_records(tmp_path, monkeypatch):
    monkeypatch.chdir(project_params.FILE.parent)
    results.write(tmp_path)
    committed = {path.name for path in (project_params.FILE.parent / "docs").glob("results*")}
    made = [*tmp_path.glob("results*")]
    assert {path.name for path in made} == committed
    for path in made:
        assert (project_params.FILE.parent / "docs" / path.name).read_bytes() == path.read_bytes(), path.name
