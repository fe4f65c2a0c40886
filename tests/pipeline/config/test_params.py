"""params.yaml and datasets.yaml: how they are combined, and wrong values, which are named by their key."""

import pytest
from pydantic import ValidationError

from pipeline.config import params, resolving
from pipeline.config.dataset_params import Pretrain
from pipeline.io.errors import InputError
from pipeline.io.outputs import yaml_of
from tests import project_params, shipped

DATASETS = ("tabletop", "tabletop_wide", "clevr_dc", "levir_cc")
PRETRAIN = resolving.resolve(project_params.settings(), "tabletop", "idc_pcl").phases["pretrain"]
OWN_PLACE = {"prepare": {"reader": "table", "root": "r", "protocol": None}}


def write(tmp_path, path, value):
    """Write the project's params.yaml with another value at a dotted path; None removes the key."""
    tree = project_params.tree()
    tree["dataset"] = {name: tree["dataset"][name] for name in DATASETS}
    *parents, last = path.split(".")
    branch = tree
    for key in parents:
        branch = branch[key]
    branch[last] = value
    if value is None:
        del branch[last]
    project_params.save(tmp_path, tree)
    return tmp_path / "params.yaml"


def test_the_committed_file(tmp_path):
    text = shipped.text("params.yaml")
    (tmp_path / "params.yaml").write_text(text)
    (tmp_path / "datasets.yaml").write_text(shipped.text("datasets.yaml"))
    found = params.load(tmp_path / "params.yaml")
    assert found.of("clevr_change").train.iterations == 10_000
    with pytest.raises(InputError, match="unknown dataset 'coco'"):
        found.of("coco")
    assert len(text.splitlines()) <= 300  # one can read it in two minutes, with a few entries of a user
    assert max(map(len, text.splitlines())) <= 110


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("train.epochs", 3, "unknown key train.epochs"),
        ("features", None, "the key features is missing"),
        ("train.batch", "16", "train.batch"),
        ("train.batch", 10**9, "train.batch"),
        ("score.no_change_phrases", ["no change"], "unknown key score.no_change_phrases"),
        ("tabletop.max_objects", 2, "min_objects exceeds max_objects"),
        ("tabletop.viewpoint.tabletop", "wild", "tabletop.viewpoint.tabletop"),
        ("tabletop.datasets", ["clevr_dc"], "tabletop.datasets names 'clevr_dc'"),
        ("datasets", ["tabletop_wide"], "'tabletop_wide', which is rendered"),
        ("datasets", ["tabletopp"], "datasets names 'tabletopp'"),
        ("models", ["scorrer"], "models names 'scorrer'"),
        ("models", ["rr", "ccr", "rr"], "models: 'rr' is listed more than once"),
        ("seeds", [*range(2_000)], "seeds"),
        ("loss.lambda_cv", float("nan"), "loss.lambda_cv"),
        ("dataset.mine", {"like": "tabletop"}, "the key dataset.mine.prepare is missing"),
        ("dataset.mine", OWN_PLACE | {"like": "nowhere"}, "dataset.mine.like"),
        ("dataset.mine", 5, "dataset.mine"),
        ("dataset.tabletop.models.clip.train", {"epochs": 3}, "unknown key train.epochs"),
        ("dataset.tabletop.models.clip.phase", {}, "unknown key dataset.tabletop.models.clip.phase"),
        ("dataset", {"mine": OWN_PLACE | {"like": "nowhere"}, "other": 5}, "dataset.mine.like"),
    ],
)
def test_a_wrong_value_is_named_by_its_key(tmp_path, path, value, named):
    with pytest.raises(InputError, match=named) as caught:
        params.load(write(tmp_path, path, value))
    assert "params.yaml: " in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"schedule": "noam", "warm_up": None}, "warm_up"),
        ({"schedule": "halves"}, "milestones"),
        ({"select_after": 9999}, "select_after"),
        ({"select": "last", "patience": 3}, "patience"),
        ({"keep": "later"}, "keep"),
        ({"tasks": {"mlm": 1.0}}, "tasks"),
        ({"processes": 2}, "processes"),
    ],
)
def test_settings_of_a_phase_that_contradict_each_other(change, key):
    Pretrain.model_validate(PRETRAIN)
    with pytest.raises(ValidationError, match=key):
        Pretrain.model_validate(PRETRAIN | change)


def test_a_bare_off_is_a_word(tmp_path):
    """DVC writes off without quotation marks; YAML 1.1 would read it as false."""
    path = write(tmp_path, "train.compile", "off")
    path.write_text(path.read_text().replace("'off'", "off"))
    assert params.load(path).train.compile == "off"


@pytest.mark.parametrize(
    ("everywhere", "own", "precision"),
    [(None, "float32", "float32"), ("bfloat16", "float32", "bfloat16")],
)
def test_the_precision_of_features(everywhere, own, precision):
    found = project_params.settings(
        features__precision=everywhere, dataset__tabletop__features__precision=own
    )
    assert found.features_of("tabletop").precision == precision


def test_a_dataset_like_another_has_the_other_settings_of_it(tmp_path):
    own = OWN_PLACE | {"like": "levir_cc", "train": {"batch": 3}}
    own["models"] = {"card": {"train": {"iterations": 7}}}
    found = params.load(write(tmp_path, "dataset.mine", own)).dataset
    mine, other = found["mine"], found["levir_cc"]
    assert mine.prepare.reader == "table"
    assert mine.train == other.train.model_copy(update={"batch": 3})
    assert mine.models["card"].sizes == other.models["card"].sizes
    assert mine.models["card"].train == other.models["card"].train | {"iterations": 7}
    assert other == project_params.settings().of("levir_cc")


def with_published(tmp_path, own, published):
    """Write a params.yaml with the entries `own`, and a datasets.yaml with clevr_dc and `published`."""
    tree = project_params.tree()
    whole = tree["dataset"]["clevr_dc"]
    project_params.save(tmp_path, tree | {"dataset": {"tabletop": tree["dataset"]["tabletop"]} | own})
    (tmp_path / "datasets.yaml").write_text(yaml_of({"clevr_dc": whole} | published))
    return tmp_path / "params.yaml"


def test_params_override_published_values(tmp_path):
    real = project_params.settings().of("clevr_dc")
    own = {"clevr_dc": {"train": {"batch": 3}}, "mine": OWN_PLACE | {"like": "clevr_dc"}}
    found = params.load(with_published(tmp_path, own, {})).dataset
    assert list(found) == ["tabletop", "clevr_dc", "mine"]
    assert found["clevr_dc"] == real.model_copy(update={"train": real.train.model_copy(update={"batch": 3})})
    assert found["mine"].train == found["clevr_dc"].train


@pytest.mark.parametrize("value", [5, "x", None])
def test_an_entry_that_is_no_mapping_is_refused(tmp_path, value):
    with pytest.raises(InputError, match=r"params\.yaml.*dataset\.clevr_dc"):
        params.load(with_published(tmp_path, {"clevr_dc": value}, {}))


def test_defaults_of_a_phase(tmp_path):
    phase = {"iterations": 9, "batch": 4, "learning_rate": 0.1, "schedule": "constant", "validate_every": 3}
    own = {"clevr_dc": {"models": {"clip": {"adapt": phase, "train": phase}}}}
    recipe = resolving.resolve(params.load(with_published(tmp_path, own, {})), "clevr_dc", "clip4idc")
    for found in recipe.phases.values():
        assert (found["references"], found["compile"], found["precision"]) == (1, "off", "float32")
        assert (found["optimiser"], found["beta2"], found["mirror"], found["shift"]) == (
            "adam",
            0.999,
            False,
            0,
        )


@pytest.mark.parametrize(
    ("own", "published", "named"),
    [
        ({}, {"x": {"prepare": 3}}, r"datasets\.yaml: dataset\.x\.prepare"),
        ({"x": {"text": {}}}, {"x": {"prepare": 3}}, r"datasets\.yaml: dataset\.x\.prepare"),
        ({}, {"x": 3}, r"datasets\.yaml must map"),
    ],
)
def test_the_wrong_file_is_named(tmp_path, own, published, named):
    with pytest.raises(InputError, match=named):
        params.load(with_published(tmp_path, own, published))
