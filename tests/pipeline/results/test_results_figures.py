"""The figures of the page of results: curves over a weight, models over the overlap of the views."""

from matplotlib.figure import Figure

from pipeline.reporting import figures
from pipeline.results import record_comparisons, results_figures
from tests.recorded import write


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
