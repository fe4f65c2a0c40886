"""Studies: their files resolve, mistakes are named, and equal runs have one key."""

from contextlib import chdir
from functools import cache

import pytest
import yaml

from pipeline.config import params, resolving
from pipeline.config.params import Params
from pipeline.io.errors import InputError
from pipeline.reporting import paper_results
from pipeline.results import study_table
from pipeline.study import study_file, study_runs, workspace
from pipeline.study.study_file import changes, overlay
from tests import project_params
from tests.study_lab import ROOT, STUDY, make_repository, planned

READY = study_file.names(ROOT / "studies")
READ = cache(paper_results._read)
OF_BIRDS = ["idc-pcl-table-2"]  # more of which tabletop has nothing


def keys(row) -> list[str]:
    return [run.key for run in row.runs]


@pytest.fixture
def published_once(monkeypatch):
    monkeypatch.setattr(paper_results, "_read", READ)


@pytest.mark.parametrize("name", READY)
def test_every_study_is_well_formed(name, published_once):
    study = study_file.read(name, ROOT / "studies")
    assert set(study.datasets) <= set(project_params.tree()["dataset"])
    for dataset in (*study.datasets, "tabletop"):
        study_table.check(ROOT, study, dataset)


@pytest.mark.parametrize("name", READY)
def test_every_run_of_a_study_resolves(name):
    tree = project_params.tree()
    tree["dataset"]["birds_to_words"]["text"]["counted_with"] = "cub"
    study = study_file.read(name, ROOT / "studies")
    for dataset in study.datasets if name in OF_BIRDS else ("tabletop", *study.datasets):
        recipes = []
        for row in study.rows:
            everything = Params.model_validate(overlay(tree, row, dataset, name))
            recipes.append((resolving.resolve(everything, dataset, row.model), everything.decode))
        assert len({repr(recipe) for recipe in recipes}) == len(study.rows), "two rows are the same"


def recipe_of(tree, **changes):
    row = study_file.StudyRow(label="a", model="scorer", **changes)
    return resolving.resolve(Params.model_validate(overlay(tree, row, "tabletop", "")), "tabletop", "scorer")


def test_a_recipe_has_the_values_of_its_row():
    tree = project_params.tree()
    key = "dataset.{dataset}.loss.lambda_cv"
    sets = {"dataset.{dataset}.sizes.heads": 4, "model.{model}.switches.mtm": "summed"}
    recipe = recipe_of(tree, set=sets, times={key: 0.1})
    assert (recipe.sizes["heads"], recipe.settings["switches"]) == (4, {"mtm": "summed"})
    assert recipe.loss["cv"] == pytest.approx(tree["dataset"]["tabletop"]["loss"]["lambda_cv"] / 10)
    assert tree == project_params.tree(), "the tree itself was changed"


EXPANDED = """
title: NABirds
source: IDC-PCL, Table 2
datasets: [tabletop]
rows:
  - {label: IDC-PCL, model: idc_pcl}
  - {label: +NABirds, model: idc_pcl, set: {'model.{model}.switches.extra_data': nabirds}}
"""


def test_a_row_with_extra_data_depends_on_its_records_and_store(tmp_path):
    root = make_repository(tmp_path, {"two": EXPANDED})
    tree = project_params.tree()
    tree["dataset"]["tabletop"]["models"]["idc_pcl"]["pretrain"]["tasks"]["class_pairs"] = 1.0
    (root / "params.yaml").write_text(yaml.safe_dump(tree))
    with pytest.raises(InputError, match=r"nabirds is not prepared.*add nabirds to pretraining"):
        planned(root)
    tree["pretraining"]["datasets"] = ["nabirds"]
    (root / "params.yaml").write_text(yaml.safe_dump(tree))
    lock, found = yaml.safe_load((root / "dvc.lock").read_text()), []
    for store in ("1", "1", "2"):
        for stage, md5 in (("prepare", "0"), ("extract", store)):
            outs = [{"path": f"data/pretraining/{stage}", "md5": md5}]
            lock["stages"][f"{stage}_pretraining@nabirds"] = {"outs": outs}
        (root / "dvc.lock").write_text(yaml.safe_dump(lock))
        found.append([keys(own) for own in planned(root)])
    assert found[0] == found[1]
    assert found[0][0] == found[2][0], "a row that reads no NABirds"
    assert found[0][1] != found[2][1]


@pytest.mark.parametrize(
    ("model", "own", "counts"),
    [
        ("scorer", {"switches.mtm": "per_head"}, {}),  # the paper's variant has it
        ("scorer", {"switches.mtm": "summed"}, {"switches.mtm": "summed"}),
        ("scorer", {"variant": "released", "switches.mtm": "summed"}, {"variant": "released"}),
        ("scorer", {"variant": "released", "switches.mtm": "per_head"}, None),  # all of it
        ("dirl", {"switches.terms": "both"}, {}),
        ("dirl", {"switches.center": 0}, None),  # no `false`: refused later, by name
        ("clip4idc", {"switches.patches": "features"}, {}),  # tabletop's own, not the paper's
        ("clip4idc", {"switches.patches": "pixels"}, None),
    ],
)
def test_a_switch_with_the_models_own_value_is_no_change(model, own, counts):
    row = study_file.StudyRow(label="a", model=model, set={f"model.{model}.{k}": v for k, v in own.items()})
    wanted = {f"model.{model}.{k}": v for k, v in (own if counts is None else counts).items()}
    assert changes(project_params.tree(), row, "tabletop") == wanted


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A repository of which only studies/ changes."""
    return make_repository(tmp_path_factory.mktemp("made"))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"set": {"loss.lambda_x": 1.0}}, "params.yaml has no key loss.lambda_x (there are lambda_cv, "),
        ({"set": {"dataset.tabletop.sizes.heads": 3}}, "width 128 is not a multiple of heads"),
        ({"set": {"dataset.tabletop.sizes.heads": "four"}}, "sizes.heads: Input should be a valid integer"),
        ({"set": {"dataset.clevr_dc.sizes.heads": 4}}, "does not vary dataset.clevr_dc.sizes.heads"),
        ({"set": {"model.scorer.switches.mtm": "x"}}, "model.scorer.switches.mtm must be per_head or"),
        ({"model": "absent"}, "models names 'absent', which is not in 'model'"),
        (
            {"times": {"model.scorer.variant": 2.0}},
            "model.scorer.variant is 'paper', which cannot be multiplied",
        ),
    ],
)
def test_a_wrong_row_is_refused(made, row, said):
    study = {"title": "t", "source": "s", "datasets": ["tabletop"]}
    study["rows"] = [{"label": "one", "model": "rr"}, {"label": "wrong", "model": "scorer"} | row]
    (made / "studies/bad.yaml").write_text(yaml.safe_dump(study))
    with pytest.raises(InputError) as refused:
        planned(made, name="bad")
    assert str(refused.value).startswith("studies/bad.yaml, row 'wrong': ")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_mistakes_of_all_rows_are_listed_at_once(made):
    wrong = {"loss.lambda_x": 1.0, "features.size": 8, "model.scorer.switches.mtm": "summed"}
    rows = [{"label": "one", "model": "scorer", "set": wrong}, {"label": "two", "model": "absent"}]
    study = {"title": "t", "source": "s", "datasets": ["tabletop"], "rows": rows}
    (made / "studies/bad.yaml").write_text(yaml.safe_dump(study))
    with pytest.raises(InputError) as refused:
        planned(made, name="bad")
    head, one, two = str(refused.value).splitlines()
    assert "studies/bad.yaml" in head
    assert all(part in one for part in ("'one'", "loss.lambda_x", "features.size"))
    assert all(part in two for part in ("'two'", "'absent'"))


def test_a_value_that_params_yaml_hides_is_refused(repository):
    tree = params.read_tree(repository / "params.yaml")
    tree["loss"]["lambda_cv"] = 0.5
    project_params.save(repository, tree)
    with pytest.raises(InputError, match=r"row 'λ': dataset\.tabletop\.loss\.lambda_cv has no effect"):
        planned(repository)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("source: A paper, Table 1\n", "", "the key source is missing"),
        ("published: RR}", "publish: RR}", "unknown key rows.0.publish"),
        ("loss.lambda_cv': 0.1", "loss.lambda_cv': -1.0", "rows.3.times"),
        ("label: RR,", "label: SCORER,", "'SCORER'"),
        ("[clevr_change]", "[clevr_change", "YAML"),
    ],
)
def test_faults_of_a_study_file_are_named(made, old, new, said):
    (made / "studies/two.yaml").write_text(STUDY.replace(old, new))
    with chdir(made), pytest.raises(InputError) as refused:
        study_file.read("two")
    assert str(refused.value).startswith("studies/two.yaml")
    assert said in str(refused.value)


def test_an_unknown_study_and_an_unknown_published_method(repository):
    with chdir(repository), pytest.raises(InputError, match=r"unknown study 'three'; studies/ has two$"):
        study_file.read("three")
    (repository / "studies/two.yaml").write_text(STUDY.replace("published: RR", "published: RRR"))
    with pytest.raises(InputError, match=r"clevr_change.yaml has no row of RRR on total; .* the row 'RR'$"):
        study_table.check(repository, study_file.read("two", repository / "studies"), "tabletop")


def test_equal_runs_of_a_study_are_one_run(repository):
    rr, scorer, again, smaller = map(keys, planned(repository))
    assert scorer == again
    assert len({*rr, *scorer, *smaller}) == 6
    each = study_runs.distinct_runs(planned(repository))
    assert [run.name for _, run in each] == [
        *(f"{label}, seed {seed}" for seed in (1, 2) for label in ("RR", "SCORER", "λ"))
    ]


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("dvc.lock", "fea7", "0ther"),
        ("params.yaml", "  beam: 1", "  beam: 2"),
        ("params.yaml", "tokeniser: ptb", "tokeniser: none"),
        ("params.yaml", "batch: 8", "batch: 9"),
        ("dvc.yaml", "python -m stages.train", "python -O -m stages.train"),
        ("params.yaml", "constant_candidates: 100", "constant_candidates: 50"),  # no run depends on it
    ],
)
def test_other_data_or_settings_give_another_key(repository, name, old, new):
    before = keys(planned(repository)[0])
    text = (repository / name).read_text()
    assert old in text
    (repository / name).write_text(text.replace(old, new))
    assert (before == keys(planned(repository)[0])) == ("constant" in old)


def test_other_negatives_give_another_key_to_the_models_that_learn_from_them(tmp_path):
    rows = EXPANDED.partition("rows:")[0] + "rows:\n  - {label: with, model: idc_pcl}\n"
    root = make_repository(tmp_path, {"two": rows + "  - {label: without, model: scorer}\n"})
    reading, other = map(keys, planned(root))
    project_params.write(root, negatives__seed=7)
    again, same = map(keys, planned(root))
    assert not {*reading} & {*again}
    assert other == same


def test_other_code_gives_another_key(repository):
    before = keys(planned(repository)[0])
    (repository / "stages").unlink()
    (repository / "stages").mkdir()
    for path in (ROOT / "stages").glob("*.py"):
        (repository / "stages" / path.name).write_bytes(path.read_bytes())
    assert before == keys(planned(repository)[0]), "where the code lies does not count"
    with (repository / "stages/decode.py").open("a") as file:
        file.write("\n")
    assert before != keys(planned(repository)[0])


def test_a_dataset_that_is_not_prepared(repository):
    study = study_file.read("two", repository / "studies")
    with pytest.raises(
        InputError, match=r"^clevr_dc is not prepared \(prepare@clevr_dc has not run\); name clev"
    ):
        study_runs.plan(repository, "two", study, "clevr_dc", [1])
    with pytest.raises(InputError, match="unknown dataset 'absent'"):
        study_runs.plan(repository, "two", study, "absent", [1])
    (repository / "data/vocab/tabletop.json").unlink()
    with pytest.raises(InputError, match=r"tabletop is not prepared \(data/vocab/tabletop.json is missing\)"):
        planned(repository)


@pytest.mark.parametrize("start", ["../mine", "a/../../workspace/../mine"])
def test_weights_that_lead_out_of_the_workspace_remove_nothing(tmp_path, start):
    (tmp_path / "workspace/a").mkdir(parents=True)
    (tmp_path / "mine").write_text("x")
    tree = {"dataset": {"d": {"models": {"clip": {"start": start}}}}}
    with pytest.raises(InputError, match=r"^start: .*mine leads out of the repository; name it from / on$"):
        workspace.link_named(tmp_path / "lab", tmp_path / "workspace", tree, "d")
    assert (tmp_path / "mine").read_text() == "x"


def test_a_workspace_has_links_to_the_folders_that_dvc_cannot_watch(tmp_path):
    lab, base = tmp_path / "lab", tmp_path / "base"
    for name in ("raw/d", "npy", "raw/cub"):
        (lab / name).mkdir(parents=True)
    (lab / "cub.pth").touch()
    base.mkdir()
    prepare = {"root": "raw/d"}
    pretraining = {"datasets": ["cub"], "root": {"cub": "raw/cub"}, "weights": "cub.pth"}
    tree = {"dataset": {"d": {"prepare": prepare, "features": {"npy": "npy"}}}, "pretraining": pretraining}
    workspace.link_watched(lab, base, tree, "d")
    links = {str(path.relative_to(base)) for path in base.rglob("*") if path.is_symlink()}
    assert links == {"raw/d", "npy", "raw/cub", "cub.pth"}
    assert all((base / name).resolve() == lab / name for name in links)
    prepare["root"] = "../lab/raw/d"
    with pytest.raises(InputError, match=r"dataset\.d\.prepare\.root: \.\./lab/raw/d leads out"):
        workspace.link_watched(lab, base, tree, "d")
