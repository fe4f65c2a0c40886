"""Records of cells: small, whole, and told apart by their settings."""

import json
import re
from dataclasses import replace
from statistics import mean

import pytest

from pipeline.io.errors import InputError
from pipeline.io.inputs import read_yaml
from pipeline.results import own_records, records
from tests import project_params
from tests.study_lab import PAIRS, Fake, make_repository, pair, planned, score_of


@pytest.fixture
def repository(tmp_path):
    return make_repository(tmp_path)


def written(repository):
    """The first row's first cell, with its record and where that lies."""
    own = planned(repository)[0]
    fake = Fake(repository / "work")
    fake.run(own.cells[0])
    path = records.write(repository, own.cells[0], own.changes, fake.folder)
    return own, path, records.read(path)


def test_a_record_has_what_the_stages_wrote(repository):
    own, path, found = written(repository)
    assert path.name == f"rr-1.{found['settings']}.json"
    assert path.parent == repository / "results/own/records/tabletop" / found["data"]
    assert path == records.path(repository, own.cells[0], own.changes)
    assert (found["model"], found["dataset"], found["seed"], found["changes"]) == ("rr", "tabletop", 1, {})
    assert found["key"] == own.cells[0].key
    assert found["scores"]["total"]["CIDEr-D"] == found["scores"]["color"]["CIDEr-D"] == score_of("rr", 1)
    assert found["validation"] == {
        "CIDEr-D": {"300": 0.25, "600": 0.5},
        "true/change": {"300": 0.0, "600": 0.1},
    }
    assert found["right"] == "10" * (PAIRS // 2)
    told = PAIRS * score_of("rr", 1)  # of the pairs before that, those with a change
    assert found["true"] == "".join("01"[n % 2 == 0 and n < told] for n in range(PAIRS))
    assert mean(found["CIDEr-D"]) / 1000 == pytest.approx(score_of("rr", 1) + 0.0005)
    assert found["faults"] == [
        "" if true == "1" else "t" if n % 2 else "cs" for n, true in enumerate(found["true"])
    ]
    assert [found[name] for name in ("BLEU-4", "METEOR", "ROUGE-L")] == [[0] * PAIRS] * 3
    # of colour and of no change in turn, the first of each
    assert found["captions"] == [f"caption {n}" for n in range(10)]


def test_the_pairs_stand_beside_with_their_subsets(repository):
    _, path, _ = written(repository)
    found = json.loads((path.parent / "pairs.json").read_text())
    assert found["pairs"] == [pair(number).pair_id for number in range(PAIRS)]
    assert found["subsets"]["change"] == found["subsets"]["color"] == list(range(0, PAIRS, 2))
    assert found["subsets"]["viewpoint_iou_q1"] == list(range(PAIRS // 4))
    assert found["captions"] == {str(n): "x" for n in range(10)}


@pytest.mark.parametrize("width", [2, 3])
def test_numbers_of_pairs_are_read_as_they_were_written(width):
    values = [0, 0.001, 0.0355, 0.036, 0.5, 0.9994, 1, *([9.9999, 10] if width == 3 else [])]
    said = records.packed(values, width)
    assert len(said) == width * len(values)
    assert records._unpacked(said, width) == [round(1000 * value) for value in values]


def test_what_is_read_is_of_each_kind_in_turn():
    kinds = ["none", "color", "none", "move", "color", "color", "drop", "none", "add", "move", "texture"]
    pairs = [replace(pair(n), change_type=kind) for n, kind in enumerate(kinds)]
    assert records.read_places(pairs) == [1, 10, 8, 6, 3, 0, 4, 9, 2, 5]
    assert records.read_places(pairs[:3]) == [1, 0, 2]


def test_what_a_row_changes_is_in_the_name(repository):
    own = planned(repository)[-1]
    name = records.name("scorer", own.changes, 2)
    assert re.fullmatch(r"scorer-lambda_cv=0\.01-[0-9a-f]{8}-2\.json", name)
    odd = {"model.scorer.switches": {"a": "b/c"}}
    assert "/" not in records.name("scorer", odd, 2)


def test_no_two_rows_records_have_one_name(repository):
    """Keys that end alike, values that differ in a letter no name may have, and more than a name can hold."""
    own = "dataset.tabletop.own.clip"
    long = {f"{own}.train.{number}.a_name_of_some_length": number for number in range(20)}
    rows = [
        {},
        {f"{own}.adapt.iterations": 500},
        {f"{own}.train.iterations": 500},
        {f"{own}.start": "a/b"},
        {f"{own}.start": "a b"},
        {f"{own}.start": "1"},
        {f"{own}.start": 1},
        long,
        long | {f"{own}.train.iterations": 500},
    ]
    names = [records.name("scorer", row, 2) for row in rows]
    assert len(set(names)) == len(rows)
    assert max(map(len, names)) < 200


def test_settings_are_params_and_seed_and_no_code(repository):
    own, _, _ = written(repository)
    one, two = own.cells
    assert records.settings(one) != records.settings(two)
    (repository / "dvc.lock").write_text((repository / "dvc.lock").read_text().replace("fea7", "0ther"))
    other = planned(repository)[0]
    assert other.cells[0].key != one.key
    assert records.settings(other.cells[0]) == records.settings(one)
    assert own_records.recorded(repository, other.cells[0], own.changes)
    assert not own_records.recorded(repository, two, own.changes)


@pytest.mark.parametrize("branch", ["features", "dataset.tabletop.features", "dataset.tabletop.train"])
def test_settings_are_those_of_a_precision(repository, branch):
    """What is learnt in bfloat16 is another result."""
    before = [records.settings(cell) for own in planned(repository) for cell in own.cells]
    tree = section = read_yaml(repository / "params.yaml", "")
    for key in branch.split("."):
        section = section[key]
    section["precision"] = "bfloat16"
    project_params.save(repository, tree)
    after = [records.settings(cell) for own in planned(repository) for cell in own.cells]
    assert not set(before) & set(after)


def test_a_record_of_a_rendered_dataset_that_params_do_not_render_is_checked_all_the_same(repository):
    """The page is of three rendered datasets, and a run renders those that it names."""
    *_, found = written(repository)
    tree = read_yaml(repository / "params.yaml", "")
    for dataset in ("tabletop_wide", "tabletop_extreme"):
        own = found | {"dataset": dataset}
        own |= {"settings": own_records.settings_now(tree, own, repository)}
        own_records.check(repository, tree, dataset, [own])
        with pytest.raises(
            InputError, match=r"other settings than 1 of the 2 records .*, the first rr-2\.json"
        ):
            own_records.check(repository, tree, dataset, [own, own | {"seed": 2}])


def test_a_large_test_split_is_not_recorded(repository, monkeypatch):
    monkeypatch.setattr(records, "MOST_PAIRS", PAIRS - 1)
    own = planned(repository)[0]
    fake = Fake(repository / "work")
    fake.run(own.cells[0])
    assert records.write(repository, own.cells[0], own.changes, fake.folder) is None
    assert not (repository / "results").exists()


@pytest.mark.parametrize("text", ["[]", "{}", '{"dataset": "tabletop"}'])
def test_a_file_that_is_no_record_is_named(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(InputError, match=r"a\.json: .*; restore it with git"):
        records.read(tmp_path / "a.json")


@pytest.mark.parametrize(
    "damage", [{"BLEU-4": "0!"}, {"BLEU-4": [1]}, {"CIDEr-D": None}, {"faults": ["c"]}, {"ROUGE-L": 3}]
)
def test_numbers_that_cannot_be_read_are_one_line(repository, damage):
    _, path, _ = written(repository)
    path.write_text(json.dumps(json.loads(path.read_text()) | damage))
    with pytest.raises(InputError, match=r"rr-1\.\w+\.json: .*; restore"):
        records.read(path)
