"""Records of runs: their content, names and settings."""

import csv
import json
import re
import tempfile
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.io.errors import InputError
from pipeline.io.inputs import read_yaml
from pipeline.io.outputs import write_text
from pipeline.results import own_records, record_tables, records
from pipeline.statistics.comparisons import compare_all
from tests import project_params
from tests.recorded import write as write_record
from tests.study_lab import PAIRS, Fake, pair, planned, score_of

SCENES = {"beach.png": "beach", "beach_n.png": "beach_n", "a.png": "both", "b.png_n": "both"}  # id -> scene


def written(repository):
    """The first row's first run, with its record and where that lies."""
    planned_row = planned(repository)[0]
    fake = Fake(repository / "work")
    fake.do(planned_row.runs[0])
    path = records.write(repository, planned_row.runs[0], planned_row.changes, fake.folder)
    return planned_row, path, records.read(path)


def test_a_record_has_what_the_stages_wrote(repository):
    planned_row, path, record = written(repository)
    assert path.name == f"rr-1.{record['settings']}.json"
    assert path.parent == repository / "results/own/records/tabletop" / record["data"]
    assert path == records.path(repository, planned_row.runs[0], planned_row.changes)
    assert (record["model"], record["dataset"], record["seed"], record["changes"]) == (
        "rr",
        "tabletop",
        1,
        {},
    )
    assert record["key"] == planned_row.runs[0].key
    assert record["scores"]["total"]["CIDEr-D"] == record["scores"]["color"]["CIDEr-D"] == score_of("rr", 1)
    assert record["validation"] == {
        "CIDEr-D": {"300": 0.25, "600": 0.5},
        "true/changed": {"300": 0.0, "600": 0.1},
    }
    pairs = records.read_scored_pairs(path)
    assert [*pairs["pair_id"]] == [pair(n).pair_id for n in range(PAIRS)]
    assert [*pairs["right"]] == [1, 0] * (PAIRS // 2)
    true_pairs = PAIRS * score_of("rr", 1)  # of the pairs before that, those with a change
    assert [*pairs["true"]] == [n % 2 == 0 and n < true_pairs for n in range(PAIRS)]
    assert pairs["CIDEr-D"].mean() == pytest.approx(score_of("rr", 1) + 0.0005)
    assert [*pairs["faults"]] == [
        "" if true else "t" if n % 2 else "cs" for n, true in enumerate(pairs["true"])
    ]
    assert not pairs[["BLEU-4", "METEOR", "ROUGE-L"]].any(axis=None)
    # of colour and of no change in turn, the first of each
    assert record["captions"] == [f"caption {n}" for n in range(10)]


def test_a_pairs_file_has_the_subsets(repository):
    _, path, _ = written(repository)
    content = json.loads((path.parent / "pairs.json").read_text())
    assert content["pairs"] == [pair(number).pair_id for number in range(PAIRS)]
    assert content["subsets"]["change"] == content["subsets"]["color"] == list(range(0, PAIRS, 2))
    assert content["subsets"]["viewpoint_iou_q1"] == list(range(PAIRS // 4))
    assert content["captions"] == {str(n): "x" for n in range(10)}


# a carriage return is read as the end of a line in every file
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1)


@given(st.lists(NAMES, min_size=1, max_size=9, unique=True))
def test_pairs_of_any_name_are_read_as_they_were_written(names):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.json"
        scores = {name: [n / 1000 for n in range(len(names))] for name in ("BLEU-4", "CIDEr-D")}
        judged = {"true": [1] * len(names), "right": 1, "faults": ""}
        table = pd.DataFrame({"pair_id": names} | judged | scores)
        write_text(
            records.pairs_path(path),
            table.to_csv(index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC),
        )
        pairs = records.read_scored_pairs(path)
    assert [*pairs["pair_id"]] == names
    assert [*pairs["CIDEr-D"]] == scores["CIDEr-D"]


def test_captions_are_kept_of_each_kind_in_turn():
    kinds = ["none", "color", "none", "move", "color", "color", "drop", "none", "add", "move", "texture"]
    pairs = [replace(pair(n), change_type=kind) for n, kind in enumerate(kinds)]
    assert records.caption_positions(pairs) == [1, 10, 8, 6, 3, 0, 4, 9, 2, 5]
    assert records.caption_positions(pairs[:3]) == [1, 0, 2]


def test_what_a_row_changes_is_in_the_name(repository):
    planned_row = planned(repository)[-1]
    name = records.name("scorer", planned_row.changes, 2)
    assert re.fullmatch(r"scorer-lambda_cv=0\.01-[0-9a-f]{8}-2\.json", name)
    changes = {"model.scorer.switches": {"a": "b/c"}}
    assert "/" not in records.name("scorer", changes, 2)


def test_different_changes_give_different_names():
    own = "dataset.tabletop.models.clip"
    long = {f"{own}.train.{number}.a_name_of_some_length": number for number in range(20)}
    rows = [{}, {f"{own}.adapt.iterations": 500}, {f"{own}.train.iterations": 500}, {f"{own}.start": "a/b"}]
    rows += [{f"{own}.start": "a b"}, {f"{own}.start": "1"}, {f"{own}.start": 1}, long, long | rows[1]]
    names = [records.name("scorer", row, 2) for row in rows]
    assert len(set(names)) == len(rows)
    assert max(map(len, names)) < 200


def test_settings_include_the_seed_and_not_the_code(repository):
    planned_row, _, _ = written(repository)
    first, second = planned_row.runs
    assert records.settings(first) != records.settings(second)
    (repository / "dvc.lock").write_text((repository / "dvc.lock").read_text().replace("fea7", "0ther"))
    other = planned(repository)[0]
    assert other.runs[0].key != first.key
    assert records.settings(other.runs[0]) == records.settings(first)
    assert own_records.recorded(repository, other.runs[0], planned_row.changes)
    assert not own_records.recorded(repository, second, planned_row.changes)


@pytest.mark.parametrize("branch", ["features", "dataset.tabletop.features", "dataset.tabletop.train"])
def test_the_precision_is_part_of_the_settings(repository, branch):
    before = [records.settings(run) for planned_row in planned(repository) for run in planned_row.runs]
    tree = section = read_yaml(repository / "params.yaml", "")
    for key in branch.split("."):
        section = section[key]
    section["precision"] = "bfloat16"
    project_params.save(repository, tree)
    after = [records.settings(run) for planned_row in planned(repository) for run in planned_row.runs]
    assert not set(before) & set(after)


def test_records_of_other_settings_are_found_for_each_rendered_dataset(repository):
    *_, record = written(repository)
    tree = read_yaml(repository / "params.yaml", "")
    for dataset in ("tabletop_wide", "tabletop_extreme"):
        other_record = record | {"dataset": dataset}
        other_record |= {"settings": own_records.current_settings(tree, other_record)}
        own_records.check(repository, tree, dataset, [other_record])
        with pytest.raises(InputError, match=r"than 1 of the records .*, the first rr-2\.json"):
            own_records.check(repository, tree, dataset, [other_record, other_record | {"seed": 2}])


@pytest.mark.parametrize("damage", [None, {"scores": 1}, {"seed": "x"}, {"captions": None}])
def test_a_damaged_record_is_named(repository, damage):
    _, path, _ = written(repository)
    path.write_text(json.dumps(damage and json.loads(path.read_text()) | damage))
    with pytest.raises(InputError, match=r"rr-1\.\w+\.json: .*; restore"):
        records.read(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('0.png",1,', '0.png",2,'),
        ('0.png",1,', '0.png",yes,'),
        ('"cs"', '"?"'),
        (",0.512\n", ",inf\n"),
        (",0.51\n", ",-1\n"),
        (",0.51\n", ",0.51,9,9\n"),
        ('"true"', '"untrue"'),
        ("pair_id", "id"),
        ("faults", "fault"),
        (None, ""),
        (None, "\x00"),
        (None, '"'),
    ],
)
def test_a_damaged_table_of_pairs_is_named(repository, old, new):
    _, path, _ = written(repository)
    file = records.pairs_path(path)
    text = file.read_text()
    assert old is None or old in text.replace(",0.511\n", ",0.512\n")
    file.write_text(new if old is None else text.replace(",0.511\n", ",0.512\n").replace(old, new))
    with pytest.raises(InputError, match=r"rr-1\.\w+\.csv.*; restore"):
        records.read_scored_pairs(path)


@pytest.mark.parametrize("damage", [{"subsets": {"change": [40]}}, {"captions": 1}, {"pairs": None}])
def test_a_damaged_pairs_file_is_named(root, damage):
    file = root / "results/records/tabletop/pairs.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | damage))
    with pytest.raises(InputError, match=r"pairs\.json: .*; restore it with git"):
        record_tables.read(root, "tabletop")


@pytest.mark.parametrize("part", ["captions", "pairs", "rows", "order"])
def test_a_record_of_other_pairs_is_refused(root, part):
    file = root / "results/records/tabletop/rr-2.json"
    record = json.loads(file.read_text())
    if part in record:
        file.write_text(json.dumps(record | {part: record[part][:-2]}))
    else:
        head, *rows = file.with_suffix(".csv").read_text().splitlines(keepends=True)
        rows = rows[1:] if part == "rows" else rows[::-1]
        file.with_suffix(".csv").write_text("".join([head, *rows]))
    with pytest.raises(InputError, match=r"rr-2\.json is of other test pairs than .*pairs\.json; restore"):
        record_tables.read(root, "tabletop")


def test_scenes_are_those_of_the_pairs_whatever_the_ids(root):
    """An id that ends like the id of an unchanged pair has its own scene."""
    pairs = [replace(pair(n), pair_id=name, scene_id=scene) for n, (name, scene) in enumerate(SCENES.items())]
    described = records.described(pairs)
    assert described["scenes"] == [*SCENES.values()]
    write_record(root, "rr", 1, 4)
    found = record_tables.read(root, "tabletop")
    assert replace(found, test=described).evidence.scene_ids == tuple(SCENES.values())


@pytest.mark.parametrize("change", ["drop", "shorten"])
def test_a_pairs_file_without_scenes_is_refused(root, change):
    write_record(root, "rr", 1, 4)
    path = root / "results/records/tabletop/pairs.json"
    tree = json.loads(path.read_text())
    scenes = tree.pop("scenes")
    path.write_text(json.dumps(tree if change == "drop" else tree | {"scenes": scenes[1:]}))
    with pytest.raises(InputError, match=r"pairs\.json: .*scenes"):
        record_tables.read(root, "tabletop")


def test_records_of_other_tokenisers_are_not_compared(root):
    write_record(root, "rr", 1, 4)
    write_record(root, "rr", 1, 8, changes={"score.tokeniser": "none"})
    groups = {group.name: group.evidence for group in record_tables.read(root, "tabletop").groups}
    with pytest.raises(
        InputError, match=r"rr and rr \(tokeniser none\) were scored with different tokenisers"
    ):
        compare_all(groups, 10)
