"""Studies: their files resolve, equal cells are one cell, and the table's numbers are right."""

import json
from contextlib import chdir
from functools import cache
from pathlib import Path
from statistics import mean, stdev

import pytest
import yaml

from pipeline import params, resolving, statistics
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.studying import cells, files, printing, tables
from pipeline.studying.overlay import overlay
from tests.scored import line, write
from tests.studying import ROOT, STUDY, Fake, make_repository, score_of, write_cell

READY = files.names(ROOT / "studies")
PUBLISHED = [name for name in files.names(ROOT / "studies") if "table" in name and name != "dirl-table-7"]
CODE_OF = cache(resolving.code_of)


@pytest.fixture(autouse=True)
def code_hashed_once(monkeypatch):
    monkeypatch.setattr(resolving, "code_of", CODE_OF)


@pytest.fixture
def repository(tmp_path):
    return make_repository(tmp_path)


def planned(root: Path, seeds=(1, 2), name="two"):
    return cells.plan(root, name, files.read(name, root / "studies"), "tabletop", seeds)


def keys(own) -> list[str]:
    return [cell.key for cell in own.cells]


@pytest.mark.parametrize("name", files.names(ROOT / "studies"))
def test_every_study_is_well_formed(name):
    study = files.read(name, ROOT / "studies")
    known = params.load(ROOT / "params.yaml").dataset
    assert set(study.datasets) <= set(known)
    for dataset in (*study.datasets, "tabletop"):
        tables.check(ROOT, study, dataset)


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_row_of_a_published_table_has_its_figures(name):
    assert all(row.published for row in files.read(name, ROOT / "studies").rows)


@pytest.mark.parametrize("name", READY)
def test_every_cell_of_a_study_resolves(name):
    tree = yaml.safe_load((ROOT / "params.yaml").read_text())
    study = files.read(name, ROOT / "studies")
    for dataset in ("tabletop", *study.datasets):
        recipes = []
        for row in study.rows:
            everything = Params.model_validate(overlay(tree, row, dataset, name))
            recipes.append(resolving.resolve(everything, dataset, row.model))
        assert len({repr(recipe) for recipe in recipes}) == len(study.rows), "two rows are the same"


def test_what_a_row_sets_is_what_its_recipe_has():
    tree = yaml.safe_load((ROOT / "params.yaml").read_text())
    sets = {
        "dataset.{dataset}.sizes.heads": 4,
        "loss.lambda_cv": 0.25,
        "model.{model}.switches.mtm": "summed",
    }
    row = files.Row(label="a", model="scorer", set=sets)
    recipe = resolving.resolve(
        Params.model_validate(overlay(tree, row, "tabletop", "")), "tabletop", "scorer"
    )
    assert recipe.sizes["heads"] == 4
    assert recipe.loss == {"cv": 0.25}
    assert recipe.settings["switches"] == {"mtm": "summed"}
    assert tree == yaml.safe_load((ROOT / "params.yaml").read_text()), "the tree itself was changed"


def test_a_multiplied_key():
    tree = yaml.safe_load((ROOT / "params.yaml").read_text())
    row = files.Row(label="a", model="scorer", times={"dataset.{dataset}.loss.lambda_cv": 0.1})
    assert overlay(tree, row, "tabletop", "")["dataset"]["tabletop"]["loss"]["lambda_cv"] == 1e-6
    assert overlay(tree, row, "clevr_dc", "")["dataset"]["clevr_dc"]["loss"]["lambda_cv"] == 0.001


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"set": {"loss.lambda_x": 1.0}}, "params.yaml has no key loss.lambda_x (there are lambda_cv, "),
        ({"set": {"loss.lambda_cv.x": 1.0}}, "params.yaml has no key loss.lambda_cv.x"),
        ({"set": {"dataset.tabletop.sizes.heads": 3}}, "sizes: width 128 is not a multiple of "),
        ({"set": {"dataset.tabletop.sizes.heads": "four"}}, "sizes.heads: Input should be a valid integer"),
        ({"set": {"dataset.clevr_dc.sizes.heads": 4}}, "does not vary dataset.clevr_dc.sizes.heads"),
        ({"set": {"model.rr.dropout": 0.2}}, "a study of scorer on tabletop does not vary model.rr.dropout"),
        ({"set": {"features.size": 64}}, "does not vary features.size"),
        ({"set": {"model.scorer.switches.mtn": "x"}}, "unknown key model.scorer.switches.mtn"),
        ({"set": {"model.scorer.switches.mtm": "x"}}, "model.scorer.switches.mtm must be per_head or"),
        ({"model": "absent"}, "models names 'absent', unknown under 'model'"),
        (
            {"times": {"model.scorer.variant": 2.0}},
            "model.scorer.variant is 'paper', which cannot be multiplied",
        ),
        ({"times": {"loss.lambda_cv": 2.0}}, "loss.lambda_cv is None, which cannot be multiplied"),
        ({"times": {"loss.lambda_y": 2.0}}, "params.yaml has no key loss.lambda_y"),
    ],
)
def test_a_row_that_makes_no_cell_is_refused(tmp_path, row, said):
    study = {"title": "t", "source": "s", "datasets": ["tabletop"]}
    study["rows"] = [{"label": "one", "model": "rr"}, {"label": "wrong", "model": "scorer"} | row]
    make_repository(tmp_path, {"bad": yaml.safe_dump(study)})
    with pytest.raises(InputError) as refused:
        planned(tmp_path, name="bad")
    assert str(refused.value).startswith("studies/bad.yaml, row 'wrong': ")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_value_that_params_yaml_hides_is_refused(repository):
    tree = yaml.safe_load((repository / "params.yaml").read_text())
    tree["loss"]["lambda_cv"] = 0.5
    (repository / "params.yaml").write_text(yaml.safe_dump(tree))
    with pytest.raises(InputError, match=r"row 'λ': dataset\.tabletop\.loss\.lambda_cv has no effect, as "):
        planned(repository)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("source:", "sourced:"), "studies/two.yaml: source: Field required; mend it"),
        (("label: RR,", "label: SCORER,"), "studies/two.yaml: two rows have the label 'SCORER'; mend it"),
        (
            ("published: RR", "publish: RR"),
            "studies/two.yaml: rows.0.publish: Extra inputs are not permitted",
        ),
        (("[clevr_change]", "[clevr_change"), "studies/two.yaml is not valid YAML"),
        (("0.1", "-1.0"), "Input should be greater than 0"),
    ],
)
def test_a_malformed_file_is_one_line(tmp_path, change, said):
    make_repository(tmp_path, {"two": STUDY.replace(*change)})
    with chdir(tmp_path), pytest.raises(InputError) as refused:
        files.read("two")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_unknown_study_and_an_unknown_figure(repository):
    with chdir(repository), pytest.raises(InputError, match=r"unknown study 'three'; studies/ has two$"):
        files.read("three")
    text = STUDY.replace("published: RR", "published: RRR")
    (repository / "studies/two.yaml").write_text(text)
    with pytest.raises(InputError, match=r"clevr_change.yaml has no row of RRR on total; .* the row 'RR'$"):
        tables.check(repository, files.read("two", repository / "studies"), "tabletop")


def test_equal_cells_are_one_cell_and_others_are_not(repository):
    rr, scorer, again, smaller = map(keys, planned(repository))
    assert scorer == again
    assert len({*rr, *scorer, *smaller}) == 6
    missing = cells.missing(repository, planned(repository))
    assert [cell.name for cell in missing] == [
        *(f"{label}, seed {seed}" for label in ("RR", "SCORER", "λ") for seed in (1, 2))
    ]


def test_a_cell_is_shared_between_studies(repository):
    rows = "rows: [{label: x, model: rr}, {label: y, model: scorer}]"
    other = f"{{title: t, source: s, datasets: [tabletop], {rows}}}"
    (repository / "studies/other.yaml").write_text(other)
    assert keys(planned(repository, name="other")[1]) == keys(planned(repository)[1])


@pytest.mark.parametrize("what", ["data", "code", "decode", "score", "train", "command"])
def test_a_cell_of_other_code_data_or_settings_is_another_cell(repository, what):
    before = keys(planned(repository)[0])
    assert before == keys(planned(repository)[0])
    if what == "code":
        (repository / "stages").unlink()
        (repository / "stages").mkdir()
        for path in (ROOT / "stages").glob("*.py"):
            (repository / "stages" / path.name).write_bytes(path.read_bytes())
        assert before == keys(planned(repository)[0]), "where the code lies does not count"
        with (repository / "stages/decode.py").open("a") as file:
            file.write("\n")
    else:
        name, old, new = {
            "data": ("dvc.lock", "fea7", "0ther"),
            "decode": ("params.yaml", "  beam: 1", "  beam: 2"),
            "score": ("params.yaml", "    - identical\n", ""),
            "train": ("params.yaml", "iterations: 2700", "iterations: 2701"),
            "command": ("dvc.yaml", "python -m stages.train", "python -O -m stages.train"),
        }[what]
        text = (repository / name).read_text()
        assert old in text
        (repository / name).write_text(text.replace(old, new))
    assert before != keys(planned(repository)[0])


def test_what_no_cell_depends_on_leaves_the_keys(repository):
    before = keys(planned(repository)[0])
    text = (repository / "params.yaml").read_text()
    (repository / "params.yaml").write_text(
        text.replace("constant_candidates: 100", "constant_candidates: 50")
    )
    assert before == keys(planned(repository)[0])


def test_a_dataset_that_is_not_prepared(repository):
    study = files.read("two", repository / "studies")
    with pytest.raises(
        InputError, match=r"^clevr_dc is not prepared \(prepare@clevr_dc has not run\); name clev"
    ):
        cells.plan(repository, "two", study, "clevr_dc", [1])
    with pytest.raises(InputError, match="unknown dataset 'absent'"):
        cells.plan(repository, "two", study, "absent", [1])
    (repository / "data/vocab/tabletop.json").unlink()
    with pytest.raises(InputError, match=r"tabletop is not prepared \(data/vocab/tabletop.json is missing\)"):
        planned(repository)


def made(root: Path, seeds=(1, 2, 4)):
    """A study all of whose cells are made up, and its record."""
    own = planned(root, seeds)
    for cell in cells.missing(root, own):
        fake = Fake(root / "work")
        fake.run(cell)
        cells.keep(root, cell, fake.folder)
    return own, record(root, own)


def record(root: Path, own):
    study = files.read("two", root / "studies")
    return tables.record(root, "two", study, "tabletop", own, params.load(root / "params.yaml"))


def test_mean_and_deviation_by_hand(repository):
    _, found = made(repository)
    for row in found["rows"]:
        values = [score_of(row["model"], seed) for seed in (1, 2, 4)]
        spread = row["scores"]["total"]["CIDEr-D"]
        assert spread["mean"] == pytest.approx(mean(values), abs=1e-6)
        assert spread["sd"] == pytest.approx(stdev(values), abs=1e-6)  # n - 1
        assert spread["runs"] == 3
        assert "SPICE" not in row["scores"]["total"]
    table = printing.tables(found)[0]
    assert table.headings == [
        *("", "seeds", "BLEU-4", "METEOR", "ROUGE-L", "CIDEr-D", "change told"),
        *(f"paper {metric}" for metric in ("BLEU-4", "METEOR", "ROUGE-L", "CIDEr-D", "SPICE")),
    ]
    assert table.rows[0] == [
        *("RR", "3/3", "10.0 ± 0.0", "20.0 ± 0.0", "30.0 ± 0.0", "57.0 ± 7.9", "50.0 ± 0.0"),
        *("55.1", "40.5", "73.6", "123.8", "32.5"),
    ]
    assert [row[0] for row in table.rows[1:]] == ["SCORER", "SCORER again", "λ = 1e-06"]
    assert table.rows[3][-1] == "–"
    assert "figures are of clevr_change, ours of tabletop" in table.notes[0]


def test_neighbours_are_compared_on_their_own_pairs(repository):
    own, found = made(repository)
    compared = {(one["a"], one["metric"]): one for one in found["comparisons"]}
    assert list(compared) == [
        (label, metric)
        for label in ("SCORER", "SCORER again", "λ = 1e-06")
        for metric in ("CIDEr-D", "change_accuracy")
    ]
    one = compared["SCORER", "CIDEr-D"]
    assert one["b"] == "RR"
    assert one["difference"] == pytest.approx(0.4)
    assert one["distinguishable"]
    alone = statistics.compare(
        *(
            statistics.read([repository / cell.folder / "pairs.jsonl" for cell in row.cells])
            for row in (own[1], own[0])
        )
    )["CIDEr-D"]
    assert (one["low"], one["high"]) == (alone.low, alone.high)
    assert one["p"] == pytest.approx(3 * alone.p, abs=1e-6)  # Holm: the least of three neighbours
    said = printing.tables(found)[0].notes
    assert said[1] == "SCORER − RR: +40.0 CIDEr-D [+40.0, +40.0], p < .001"
    assert said[3].startswith(
        "SCORER again − SCORER: 0.0 CIDEr-D [0.0, 0.0], p = 1.000: they are the same cells"
    )
    assert "Holm's correction for 3 comparisons" in said[-1]


def test_swapped_rows_turn_the_sign(repository):
    _, found = made(repository)
    study = yaml.safe_load(STUDY)
    study["rows"] = study["rows"][1::-1]
    (repository / "studies/two.yaml").write_text(yaml.safe_dump(study))
    _, swapped = made(repository)
    assert [swapped["comparisons"][0][end] for end in ("a", "b")] == ["RR", "SCORER"]
    assert swapped["comparisons"][0]["difference"] == -found["comparisons"][0]["difference"] < 0


def test_a_record_is_the_same_bytes_again(repository):
    own, found = made(repository)
    assert json.dumps(record(repository, own), sort_keys=True) == json.dumps(found, sort_keys=True)
    write_cell(repository / own[0].cells[0].folder, 0.1)
    assert json.dumps(record(repository, own), sort_keys=True) != json.dumps(found, sort_keys=True)


def test_what_is_not_finished_is_left_open(repository):
    made(repository, (1,))
    own = planned(repository, (1, 2))
    found = record(repository, own)
    assert printing.tables(found)[0].rows[0][:2] == ["RR", "1/2"]
    assert found["rows"][0]["scores"]["total"]["CIDEr-D"]["sd"] is None
    (repository / own[0].cells[0].folder / "pairs.jsonl").unlink()
    found = record(repository, own)
    assert printing.tables(found)[0].rows[0][1:3] == ["0/2", "–"]
    assert "RR" not in [one["b"] for one in found["comparisons"]]


def test_a_subset_is_compared_on_its_pairs_alone(repository):
    text = STUDY.replace("rows:", "subsets: [change]\nrows:")
    (repository / "studies/two.yaml").write_text(text)
    own = planned(repository, (1,))
    pairs = [pair_of(n) for n in range(20)]
    write(repository / "data/pairs/tabletop.jsonl", pairs)
    for row, gain in zip(own, (0.0, 1.0, 1.0, 1.0), strict=True):
        folder = repository / row.cells[0].folder
        write_cell(folder, 0.5)
        # the gain is in the changed pairs, which are the even ones
        write(folder / "pairs.jsonl", [line(n) | {"CIDEr-D": gain * (n % 2 == 0)} for n in range(20)])
    found = record(repository, own)
    assert found["comparisons"][0]["difference"] == 1.0
    assert [one["metric"] for one in found["comparisons"][:2]] == ["CIDEr-D", "METEOR"]
    assert "document frequencies of all the test pairs" in printing.tables(found)[0].notes[-1]
    assert ", change pairs: " in printing.tables(found)[0].title


def pair_of(number: int) -> dict:
    kind = "color" if number % 2 == 0 else "none"
    own = {"pair_id": f"{number}.png", "scene_id": str(number), "split": "test", "before": "a", "after": "b"}
    rest = ("before_box", "after_box", "viewpoint_iou", "changed_object")
    return own | {"captions": ["x"], "change_type": kind} | dict.fromkeys(rest)


def test_which_conditions_differ_is_said_of_the_papers_own_dataset(repository):
    _, found = made(repository, (1,))
    own = printing.tables(found | {"dataset": "clevr_change"})[0].notes[0]
    assert own.startswith("The paper's figures differ from ours in: resize: opencv_bicubic, ours pil_bicubic")
    found["published"]["differs"] = []
    assert printing.tables(found | {"dataset": "clevr_change"})[0].notes[0].startswith("SCORER − RR")


def test_markdown(repository):
    _, found = made(repository, (1,))
    lines = printing.markdown(found).splitlines()
    assert lines[0].startswith("**Two models (A paper, Table 1) on tabletop")
    assert lines[2].startswith("|  | seeds | BLEU-4 |")
    assert lines[4].startswith("| RR | 1/1 | 10.0 |")
    assert {line.count("|") for line in lines[2:8]} == {13}
