"""Whether the values of one setting differ by more than seeds do: F by hand, and what is asked at all."""

from statistics import fmean

import pytest
from scipy.special import fdtrc

from pipeline.results import record_comparisons, results_page, settings_tried
from pipeline.scoring.metric_names import ACCURACY, CIDER
from tests import project_params
from tests.recorded import PAIRS, write

WEIGHT = "dataset.tabletop.loss.lambda_cv"
WRONG = {
    None: (4, 6, 5),
    0.3: (7, 4, 6),
    1.0: (16, 20, 18),
}  # a value -> of each seed, the pairs told wrongly


def record(root, model, wrong):
    for value, each in wrong.items():
        for seed, one in enumerate(each, 1):
            write(root, model, seed, one, changes=None if value is None else {WEIGHT: value})


def tried(root):
    return settings_tried.tried(record_comparisons.read(root, "tabletop"))


def by_loops(groups):
    """p of a one-way analysis of variance, F written out."""
    every = [one for group in groups for one in group]
    between = within = 0.0
    for group in groups:
        for one in group:
            between += (fmean(group) - fmean(every)) ** 2
            within += (one - fmean(group)) ** 2
    freedom = (len(groups) - 1, len(every) - len(groups))
    return fdtrc(*freedom, (between / freedom[0]) / (within / freedom[1]))


def test_p_is_that_of_f_written_out(tmp_path):
    record(tmp_path, "scorer", WRONG)
    (found,) = tried(tmp_path)
    assert (found.key, found.seeds, len(found.values)) == (WEIGHT, 3, 3)
    own = found.by[ACCURACY]
    assert own.p == pytest.approx(by_loops([[1 - one / PAIRS for one in each] for each in WRONG.values()]))
    assert own.matters
    assert (own.least.changes, own.greatest.changes) == ({WEIGHT: 1.0}, {})
    # the recorded CIDEr-D is of the seed alone: values are alike
    assert found.by[CIDER].p == pytest.approx(1.0)
    assert not found.by[CIDER].matters


def test_a_value_that_has_not_begun_is_left_out(tmp_path):
    silent = {3.0: (PAIRS, PAIRS - 1, PAIRS)}
    record(tmp_path, "scorer", WRONG | silent)
    (found,) = tried(tmp_path)
    assert [group.changes for group in found.values] == [{}, {WEIGHT: 0.3}, {WEIGHT: 1.0}]
    record(tmp_path, "rr", {None: WRONG[None], 1.0: WRONG[1.0]} | silent)
    assert [setting.values[0].model for setting in tried(tmp_path)] == ["scorer"], "two values are too few"


def test_p_is_multiplied_by_the_number_of_settings(tmp_path):
    record(tmp_path, "scorer", WRONG)
    (alone,) = tried(tmp_path)
    record(tmp_path, "rr", WRONG)
    assert [found.by[ACCURACY].p for found in tried(tmp_path)] == pytest.approx(
        [2 * alone.by[ACCURACY].p] * 2
    )


def test_asked_are_three_values_of_three_seeds_one_change_each(tmp_path):
    record(tmp_path, "rr", {None: (4, 5, 6), 0.3: (4, 5, 6)})  # two values
    record(tmp_path, "ccr", WRONG | {1.0: (16, 20)})  # two seeds of the third
    record(tmp_path, "dirl", {0.1: (4, 5, 6), 0.3: (4, 5, 6), 1.0: (4, 5, 6)})  # without that of params.yaml
    record(tmp_path, "transformer", {None: (4, 5, 6), 0.3: (4, 5, 6)})
    for seed in (1, 2, 3):
        write(tmp_path, "transformer", seed, 4, changes={WEIGHT: 1.0, "model.transformer.switches.a": 1})
    assert tried(tmp_path) == []


@pytest.mark.parametrize(("last", "p"), [((20, 20, 20), 1.0), ((4, 4, 4), 0.0)])
def test_where_seeds_do_not_differ_nothing_is_divided_by_zero(tmp_path, last, p):
    record(tmp_path, "scorer", {None: (20, 20, 20), 0.3: (20, 20, 20), 1.0: last})
    (found,) = tried(tmp_path)
    assert found.by[ACCURACY].p == p


def test_the_page_says_which_matter(tmp_path):
    record(tmp_path, "scorer", WRONG)
    found = record_comparisons.read(tmp_path, "tabletop")
    said = results_page.page([found], [], project_params.settings())
    (line,) = [line for line in said.splitlines() if line.startswith("| lambda_cv of scorer |")]
    _, _, _, truth, sure, accuracy, *_ = line.split(" | ")
    assert (truth, sure) == ("55.0 (1.0) to 86.7 (default)", "matters, p < 0.001")
    assert accuracy == "55.0 (1.0) to 87.5 (default)"
    (file,) = (tmp_path / "results/records/tabletop").glob("scorer-lambda_cv=1.0-*-3.json")
    file.unlink()
    found = record_comparisons.read(tmp_path, "tabletop")
    assert "Which settings matter" not in results_page.page([found], [], project_params.settings())
