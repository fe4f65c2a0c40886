"""The figures of the page of results: curves over a weight, models over the overlap of the views."""

import pytest
from matplotlib.figure import Figure

from pipeline.config import resolving
from pipeline.reporting import figures
from pipeline.results import record_comparisons, results_figures
from tests import project_params
from tests.recorded import write


def test_curves_over_a_weight_have_the_weight_of_params_yaml_among_them(root, tmp_path):
    key = "dataset.tabletop.loss.lambda_cv"
    default = project_params.settings().of("tabletop").loss["lambda_cv"]
    for seed, wrong in ((1, 4), (2, 6)):
        write(root, "scorer", seed, wrong)
        write(root, "scorer", seed, wrong + 9, changes={key: 3 * default})
    write(root, "rr", 1, 3, changes={"model.rr.switches.norm_epsilon": 0.1})
    write(root, "ccr", 1, 3)  # one weight makes no curve, and 0 beside it none either
    write(root, "transformer", 1, 3)
    found = record_comparisons.read(root, "tabletop")
    (title, curve), *others = results_figures.tradeoffs(found, project_params.settings()).items()
    assert (title, others) == ("tabletop: scorer, lambda_cv (seeds 1, 2)", [])
    assert [(weight, group.model, len(group.records)) for weight, group in curve] == [
        (
            0.0,
            "rr",
            2,
        ),  # the model without the term, and without other changes; its third seed is nobody else's
        (default, "scorer", 2),
        (3 * default, "scorer", 2),
    ]
    (drawn,) = [
        line
        for line in results_figures.write(tmp_path, [found], project_params.settings())
        if "trade" in line
    ]
    assert drawn == "![What is true of changes against a loss term's weight](results-tradeoffs.svg)"
    assert "true of changes, percent" in (tmp_path / "results-tradeoffs.svg").read_text()


@pytest.mark.parametrize("of", ["dataset.tabletop.", ""])  # as studies ask, and `dvc exp run -S loss...`
def test_what_a_model_has_without_the_term_is_drawn_at_0(root, of):
    key = f"{of}loss.lambda_cv"
    write(root, "scorer", 1, 4)
    write(root, "scorer", 1, 9, changes={key: 0.7})
    axes = Figure().subplots()
    found = record_comparisons.read(root, "tabletop")
    results_figures._tradeoffs(axes, results_figures.tradeoffs(found, project_params.settings()))
    (curve,) = axes.get_lines()
    assert list(curve.get_xdata()) == [0, project_params.settings().of("tabletop").loss["lambda_cv"], 0.7]
    assert curve.get_ydata()[0] == pytest.approx(90.0)  # of rr's first seed
    for n in (1, 2, 3):
        (root / f"results/records/tabletop/rr-{n}.json").unlink()
    write(root, "rr", 2, 4)  # no seed that all have: no curve
    found = record_comparisons.read(root, "tabletop")
    assert results_figures.tradeoffs(found, project_params.settings()) == {}


@pytest.mark.parametrize(("model", "weight"), results_figures.WITHOUT)
def test_the_model_without_a_term_has_all_the_others(model, weight):
    settings = project_params.settings()
    every, others = (
        set(resolving.resolve(settings, "tabletop", name).loss)
        for name in (model, results_figures.WITHOUT[model, weight])
    )
    assert every - others == {weight.removeprefix("lambda_")}
    assert others < every


def test_no_line_joins_two_datasets(root):
    """Their quartiles overlap: joined, a line would jump from one to the other and back."""
    write(root, "rr", 1, 30, dataset="tabletop_wide")
    found = [record_comparisons.read(root, dataset) for dataset in ("tabletop", "tabletop_wide")]
    axes = Figure().subplots()
    results_figures._viewpoint(axes, found, figures.looks(["subtraction", "rr"]))
    lines = [line for line in axes.get_lines() if len(line.get_xdata())]
    assert [len(line.get_xdata()) for line in lines] == [4, 4, 4]
    assert [line.get_fillstyle() for line in lines] == ["full", "full", "none"]
    assert list(lines[2].get_ydata()) == [0.0, 0.0, 0.0, 100.0]
    assert axes.get_title() == "full marks: tabletop · open: tabletop_wide"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["rr", "subtraction"]
