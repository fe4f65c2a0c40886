"""Reading cells: those that params.yaml lists, and each bad file by its name."""

import json
import shutil

import pytest

from pipeline.errors import InputError
from pipeline.reporting import cells
from tests.study import make_cell, make_study

CELL = "results/cells/tabletop/scorer/2"
CURVES = "results/curves/tabletop/scorer/2"
FILES = [
    f"{CELL}/captions.json",
    f"{CELL}/metrics.json",
    f"{CELL}/pairs.jsonl",
    f"{CURVES}/loss.csv",
    f"{CURVES}/validation.csv",
    "results/cells/tabletop/constant/captions.json",
    "results/cells/tabletop/constant/metrics.json",
    "data/pairs/tabletop.jsonl",
    "data/images/tabletop.jsonl",
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("study")
    return root, make_study(root)


@pytest.fixture
def study(made, tmp_path):
    """A copy that a test may spoil."""
    root, params = made
    shutil.copytree(root, tmp_path / "study")
    return tmp_path / "study", params


def test_a_dataset_is_its_test_pairs_and_the_listed_cells(made):
    (results,) = cells.read(*made)
    assert {pair.split for pair in results.test} == {"test"}
    assert len(results.test) == 20
    assert results.constant_caption == "no change"
    assert [(c.model, c.seed) for c in results.cells] == [
        ("subtraction", 1),
        ("subtraction", 2),
        ("scorer", 1),
        ("scorer", 2),
    ]
    last = results.cells[-1]
    assert set(last.captions.values()) == {"the ball moved, says scorer 2"}
    assert last.metrics.scorers == {"METEOR": "1.5"}
    assert list(last.losses) == ["iteration", "cap", "cv"]
    assert last.validation == {"iteration": [150, 300], "CIDEr-D": [0.31, 0.62]}
    assert set(last.cider_d.values()) == {0.62}


def test_cells_that_are_not_listed_are_not_read(study):
    root, params = study
    before = cells.read(*study)
    (root / "results/cells/tabletop/scorer/3").mkdir()
    make_cell(root, "tabletop", "gone", 1, before[0].test, 0.9)
    (root / "results/cells/old").mkdir()
    assert cells.read(root, params) == before


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named_with_the_remedy(study, name):
    (study[0] / name).unlink()
    with pytest.raises(InputError, match=rf"{name} is missing; run `dvc repro"):
        cells.read(*study)


@pytest.mark.parametrize("text", ["\n", "\x00\n", "[[[\n", '{"total": 1}\n', "a,b\n1\n"])
@pytest.mark.parametrize("name", FILES)
def test_an_unreadable_file_is_named_on_one_line(study, name, text):
    (study[0] / name).write_text(text)
    with pytest.raises(InputError, match=name) as raised:
        cells.read(*study)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", FILES[:5])
def test_a_folder_in_a_files_place_is_named(study, name):
    (study[0] / name).unlink()
    (study[0] / name).mkdir()
    with pytest.raises(InputError, match=rf"{name} is a folder"):
        cells.read(*study)


def test_every_test_pair_needs_its_caption_and_score(study):
    root, _ = study
    predictions = json.loads((root / CELL / "captions.json").read_text())
    (root / CELL / "captions.json").write_text(json.dumps(predictions[:-1]))
    with pytest.raises(InputError, match=f"{CELL}/captions.json has nothing of the test pair"):
        cells.read(*study)
    (root / CELL / "captions.json").write_text(json.dumps(predictions))
    lines = (root / CELL / "pairs.jsonl").read_text().split("\n")
    (root / CELL / "pairs.jsonl").write_text("\n".join(lines[1:]))
    with pytest.raises(InputError, match=f"{CELL}/pairs.jsonl has nothing of the test pair"):
        cells.read(*study)


@pytest.mark.parametrize("value", ["NaN", "1e999", '"unavailable"', "null"])
def test_a_score_of_the_table_must_be_a_number(study, value):
    path = study[0] / CELL / "metrics.json"
    tree = json.loads(path.read_text())
    tree["total"]["METEOR"] = "HERE"
    path.write_text(json.dumps(tree).replace('"HERE"', value))
    with pytest.raises(InputError, match=f"{CELL}/metrics.json"):
        cells.read(*study)


def test_a_metric_that_could_not_be_computed_is_left_out(study):
    path = study[0] / CELL / "metrics.json"
    tree = json.loads(path.read_text())
    tree["total"]["SPICE"] = "unavailable (no jar)"
    tree["exact_match"] = 0.25
    path.write_text(json.dumps(tree))
    (results,) = cells.read(*study)
    assert "SPICE" not in results.cells[-1].metrics.subsets["total"]
    assert "exact_match" not in results.cells[-1].metrics.subsets


def test_a_dataset_that_does_not_say_what_changed_has_no_accuracy(study):
    path = study[0] / CELL / "metrics.json"
    tree = json.loads(path.read_text())
    path.write_text(json.dumps({"total": tree["total"], "scorers": tree["scorers"]}))
    (results,) = cells.read(*study)
    assert results.cells[-1].metrics.change_accuracy is None
    assert list(results.cells[-1].metrics.subsets) == ["total"]
