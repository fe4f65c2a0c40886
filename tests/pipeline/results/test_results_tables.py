"""The tables of the results pages: numbers by hand, order of rows, too few records."""

import math
from statistics import mean, stdev

import pytest

from pipeline.results import record_tables, seed_spread
from pipeline.results.results_tables import tables
from pipeline.scoring.metric_names import ACCURACY
from tests import project_params
from tests.recorded import PAIRS, edit_pairs, groups, write


def made_tables(root, *datasets):
    names = datasets or ("tabletop",)
    return tables({name: record_tables.read(root, name) for name in names}, project_params.settings())


def first_column(table):
    return [row[0] for row in table.rows]


def test_means_and_deviations_by_hand(root):
    group = groups(root)["rr"]
    shares = [(PAIRS - wrong) / PAIRS for wrong in (4, 5, 6)]
    spread = group.score(("total", ACCURACY))
    assert (spread.mean, spread.sd, spread.runs) == pytest.approx((mean(shares), stdev(shares), 3))
    of_changes = [(20 - wrong) / 20 for wrong in (2, 3, 3)]  # the even ones of the first 4, 5, 6 pairs
    assert group.score(("change", ACCURACY)).mean == pytest.approx(mean(of_changes))
    assert group.score(("viewpoint_iou_q4", ACCURACY)).mean == 1.0
    assert group.score(("total", "BLEU-4")).mean == pytest.approx(0.52)


def test_the_scores_of_models_are_in_the_order_of_params_yaml(root):
    write(root, "rr", 1, 3, changes={"model.rr.switches.norm_epsilon": 0.1})
    named_tables = made_tables(root)
    scores = named_tables["scores tabletop"]
    assert first_column(scores) == ["subtraction", "rr"]
    rr = ["rr", "3", "1500 × 8", "86.7 ± 2.9", "88.3 ± 2.9", "87.5 ± 2.5", *["52.0 ± 1.0"] * 5]
    assert list(scores.rows[1]) == [*rr, "25.0 ± 0.0"]
    assert len(scores.headings) == len(rr) + 1
    assert named_tables["ablations tabletop"].rows[1][:5] == [
        "rr (norm_epsilon 0.1)",
        "1",
        "1500 × 8",
        "90.0",
        "95.0",
    ]
    # of 5 changed pairs a quartile
    overlap = named_tables["true by overlap tabletop"]
    assert overlap.headings == ["model", "q1", "q2", "q3", "q4"]
    assert overlap.rows[1] == ["rr", "46.7 ± 11.5", *["100.0 ± 0.0"] * 3]
    assert named_tables["true by kind tabletop"].headings == ["model", "color", "no change"]


def test_datasets_are_next_to_each_other_by_camera(root):
    """A model that a dataset lacks has a dash there; ablations are left out."""
    write(root, "rr", 1, 10, dataset="tabletop_wide")
    write(root, "ccr", 1, 0, dataset="tabletop_wide")
    write(root, "ccr", 1, 20, dataset="tabletop_wide", changes={"model.ccr.dropout": 0.5})
    cameras = made_tables(root, "tabletop", "tabletop_wide")["cameras"]
    assert cameras.headings == ["model", "tabletop", "tabletop_wide"]
    assert cameras.rows == [
        ["subtraction", "48.3 ± 2.9", "–"],
        ["rr", "86.7 ± 2.9", "75.0"],
        ["ccr", "–", "100.0"],
    ]


def test_ablations_come_after_their_model_a_weight_by_its_size(root):
    weight, heads = "dataset.tabletop.loss.lambda_cv", "dataset.tabletop.sizes.heads"
    for changes in ({weight: 1.0}, {weight: 1e-05}, {weight: 0.3}, {"model.scorer.switches.mtm": "max_pool"}):
        write(root, "scorer", 1, 4, changes=changes)
    write(root, "rr", 1, 4, changes={heads: 8})
    write(root, "scorer", 1, 4)
    scorer = [
        f"scorer ({change})"
        for change in ("lambda_cv 1e-05", "lambda_cv 0.3", "lambda_cv 1.0", "mtm max_pool")
    ]
    assert first_column(made_tables(root)["ablations tabletop"]) == ["rr", "rr (heads 8)", "scorer", *scorer]


@pytest.mark.parametrize(("wrong", "name"), [(38, "subtraction, at chance"), (36, "subtraction")])
def test_a_model_at_chance_is_marked(root, wrong, name):
    """The model is right about one change in 20, or about two."""
    for seed in (1, 2, 3):
        write(root, "subtraction", seed, wrong)
    assert made_tables(root)["scores tabletop"].rows[0][0] == name


def test_claims_and_metrics_have_their_rows(root):
    named_tables = made_tables(root)
    (claim,) = named_tables["claims"].rows
    assert claim[:4] == ["rr > subtraction (SCORER, Table 6)", "tabletop", "3", "holds"]
    assert claim[4].startswith("+38.3 [")
    assert named_tables["decided claims"].rows == [claim]
    assert {row[0] for row in named_tables["metrics"].rows} >= {"CIDEr-D", "change accuracy"}
    found = record_tables.read(root, "tabletop")
    one_seed = found.where(found.runs["seed"] == 1)
    named_tables = tables({"tabletop": one_seed}, project_params.settings())
    assert [named_tables[name].rows for name in ("decided claims", "seeds")] == [[], []]
    assert named_tables["claims"].rows[0][3] == "undecided"


def test_captions_are_of_the_first_seed_and_judged(root):
    """rr's first seed is wrong about pairs 0 to 3: a reference is printed once, with the first model."""
    rows = made_tables(root)["captions"].rows
    assert len(rows) == 20
    assert rows[2:4] == [
        ["reference 1", "subtraction", "subtraction says 1", "false: false alarm"],
        ["", "rr", "rr says 1", "false: false alarm"],
    ]
    assert rows[5] == ["", "rr", "rr says 2", "false: colour, shape"]
    assert rows[9] == ["", "rr", "rr says 4", "true"]


def test_the_spread_is_pooled_over_models_above_chance(root):
    """rr's seeds describe 18, 17 and 17 of 20 changes correctly, ccr's 20, 18 and 16, scorer's none."""
    for seed in (1, 2, 3):
        write(root, "ccr", seed, (0, 4, 8)[seed - 1])
        write(root, "scorer", seed, 38)
        (root / f"results/records/tabletop/subtraction-{seed}.json").unlink()
    (row,) = made_tables(root)["seeds"].rows
    sd = 100 * math.sqrt((stdev([18, 17, 17]) ** 2 + stdev([20, 18, 16]) ** 2) / 2) / 20
    assert row[:3] == ["tabletop", "2", f"{sd:.1f}"]
    assert row[4:6] == [f"{1.95996 * math.sqrt(2) * sd:.1f}", f"{2.8016 * math.sqrt(2 / 5) * sd:.1f}"]


def test_seeds_needed_by_the_formula():
    # n = 2 (1.95996 + 0.84162)^2 sd^2 / d^2 = 15.69 (sd / d)^2
    assert [seed_spread.seeds_needed(sd) for sd in (0.02, 0.04, 0.0001)] == [16, 63, 2]
    assert seed_spread.smallest_difference(0.02, 16) <= 0.02 < seed_spread.smallest_difference(0.02, 15)


def test_the_spread_over_pairs_is_a_single_runs(root):
    """One of ccr's two runs is true where the other is not: their mean does not vary, each run does."""
    for seed, true in ((1, "1100"), (2, "0011")):
        write(root, "ccr", seed, 0)
        edit_pairs(root / f"results/records/tabletop/ccr-{seed}.json", true=[*map(int, true * (PAIRS // 4))])
    group = groups(root)["ccr"]
    assert seed_spread.over_pairs(group) == pytest.approx(0, abs=1e-12)
    assert seed_spread.over_pairs(next(group.by_seed())) == pytest.approx(0.5 / math.sqrt(PAIRS / 2), rel=0.1)
