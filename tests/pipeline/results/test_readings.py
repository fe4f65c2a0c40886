"""What is said of each system, and the captions that stand below it."""

import json

import pytest

from pipeline.io.errors import InputError
from pipeline.results import readings, record_comparisons, results_page
from tests import project_params
from tests.recorded import PAIRS, three_seeds, write


@pytest.fixture
def groups(tmp_path):
    return record_comparisons.read(three_seeds(tmp_path), "tabletop")


def test_a_models_paragraph_has_its_numbers_and_its_readers_sentence(groups):
    """rr tells 18, 17 and 17 of 20 changes truly, and 18, 18 and 17 of 20 others."""
    rr, subtraction = readings.readings([groups], {"rr": "It names what it sees."})
    assert rr.text == (
        "On tabletop 87 of 100 changes are told truly; of 100 pairs without a change 88. Of 100 false "
        "captions of changes 0 are false in one part alone and 0 speak of another thing that is there; the "
        "commonest fault, of 13 in 100 changes: colour. It names what it sees."
    )
    assert "It names" not in subtraction.text
    assert rr.captions[3] == ["rr says 3", "false: tells a change where there is none", "reference 3"]
    assert rr.captions[2] == ["rr says 2", "false: colour, shape", "reference 2"]
    assert rr.captions[4] == ["rr says 4", "true", "reference 4"]
    assert len(rr.captions) == 10


def test_the_best_and_the_worst_kind_are_named(groups):
    (rr, _) = groups
    rr.pairs["subsets"] |= {"color": [0, 2], "move": list(range(4, PAIRS, 2))}
    (found,) = readings.readings([[rr]], {})
    assert "are told truly, most of move (96) and fewest of color (0); of 100" in found.text


def test_a_model_is_read_on_the_first_dataset_that_has_it_and_without_changes(tmp_path):
    three_seeds(tmp_path)
    write(tmp_path, "rr", 1, 30, dataset="tabletop_wide")
    write(tmp_path, "ccr", 1, 30, dataset="tabletop_wide")
    write(tmp_path, "ccr", 1, 3, changes={"model.ccr.dropout": 0.5})
    both = [record_comparisons.read(tmp_path, dataset) for dataset in ("tabletop", "tabletop_wide")]
    found = {own.model: own.text.split()[1] for own in readings.readings(both, {})}
    assert found == {"rr": "tabletop", "subtraction": "tabletop", "ccr": "tabletop_wide"}


def test_all_true_has_no_fault(tmp_path):
    write(tmp_path, "rr", 1, 0)
    (found,) = readings.readings([record_comparisons.read(tmp_path, "tabletop")], {})
    assert found.text == "On tabletop 100 of 100 changes are told truly; of 100 pairs without a change 100."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "scorer: good",
            r"readings\.yaml: results/records has nothing of 'scorer'; remove it, .*there are rr\)",
        ),
        ("rr: [1]", r"readings\.yaml: rr: .*; write `model: sentence`"),
        ("- rr", r"readings\.yaml: .*; write `model: sentence`"),
    ],
)
def test_a_file_of_readings_that_is_wrong_is_refused(tmp_path, text, said):
    (tmp_path / "readings.yaml").write_text(text)
    with pytest.raises(InputError, match=said):
        readings.read(tmp_path / "readings.yaml", ["rr"])


def test_without_a_sentence_there_is_none(tmp_path):
    assert readings.read(tmp_path / "readings.yaml", []) == {}
    (tmp_path / "readings.yaml").write_text("# none yet\n")
    assert readings.read(tmp_path / "readings.yaml", []) == {}
    (tmp_path / "readings.yaml").write_text("rr: Good.")
    assert readings.read(tmp_path / "readings.yaml", ["rr"]) == {"rr": "Good."}


def test_the_page_has_them_below_what_the_metrics_say(groups):
    page = results_page.page([groups], [], project_params.settings(), {"rr": "It names what it sees."})
    order = ["What of the captions of changes is false", "## Is CIDEr-D a judge", "### subtraction", "### rr"]
    assert sorted(order, key=page.index) == order
    assert "names what it sees." in page[page.index("### rr") :]
    assert "| rr says 4 | true | reference 4 |" in page


def test_where_truth_and_cider_disagree_is_said_in_a_sentence(tmp_path):
    """By truth rr is the better one, by CIDEr-D the worse."""
    three_seeds(tmp_path)
    page = results_page.page([record_comparisons.read(tmp_path, "tabletop")], [], project_params.settings())
    assert "where truth and CIDEr-D disagree" not in page
    for seed in (1, 2, 3):
        ours, theirs = (tmp_path / f"results/records/tabletop/{m}-{seed}.json" for m in ("rr", "subtraction"))
        one, other = (json.loads(file.read_text()) for file in (ours, theirs))
        for own, change in ((one, other), (other, one)):
            own["kept"] = {"CIDEr-D": change["CIDEr-D"], "scores": change["scores"]}
        for own, file in ((one, ours), (other, theirs)):
            file.write_text(json.dumps(own | own.pop("kept")))
    page = results_page.page([record_comparisons.read(tmp_path, "tabletop")], [], project_params.settings())
    said = "| rr > subtraction (SCORER, Table 6) on tabletop: by truth *holds* (+38.3), by CIDEr-D "
    assert f"{said}*does not hold* (−" in page
