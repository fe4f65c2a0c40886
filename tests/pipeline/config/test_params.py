"""params.yaml: what is wrong is named by its key."""

import re
import time
from pathlib import Path

import pytest

from models import MODELS
from pipeline.config import params
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_yaml
from pipeline.io.outputs import yaml_of
from tests import project_params

REAL = Path(__file__).parents[3] / "params.yaml"
SIZES = {"layers": 1, "decoder_layers": 1, "word_width": 64}


DATASETS = ("tabletop", "tabletop_wide", "tabletop_extreme", "clevr_dc", "levir_cc")  # those of the tests


def write(tmp_path, path, value):
    tree = project_params.tree()
    tree["dataset"] = {name: tree["dataset"][name] for name in DATASETS}
    *parents, last = path.split(".")
    branch = tree
    for key in parents:
        branch = branch[key]
    if value is None:
        del branch[last]
    else:
        branch[last] = value
    project_params.save(tmp_path, tree)
    return tmp_path / "params.yaml"


def test_the_committed_file():
    found = params.load(REAL)
    assert found.datasets == ("tabletop",)
    assert found.of("clevr_change").train.iterations == 10_000


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("seeds", [*range(2_000)]),
        ("models", ["scorer"] * 2_000),
        ("tabletop.scenes", 10**12),
        ("train.batch", 10**9),
        ("train.iterations", 10**18),
        ("train.references", 10**6),
        ("train.processes", 10**6),
        ("decode.beam", 10**5),
        ("decode.batch", 10**9),
        ("report.gallery", 10**12),
        ("report.constant_candidates", 10**12),
        ("score.meteor_timeout", 1e300),
        ("dataset.tabletop.sizes.width", 65_536),
        ("dataset.tabletop.sizes.layers", 10**9),
        ("dataset.tabletop.sizes.decoder_layers", 65),
        ("dataset.tabletop.sizes.word_width", 10**9),
        ("dataset.tabletop.text.max_tokens", 10**9),
        ("dataset.tabletop.train.batch", 10**9),
        ("dataset.tabletop.own.clip.sizes", {"width": 10**9}),
        ("dataset.tabletop.own.clip.sizes", {"cross": 10**4}),
        ("dataset.tabletop.own.clip.train.shift", 10**9),
    ],
)
def test_what_no_machine_can_do_is_refused_at_once(tmp_path, path, value):
    file, begun = write(tmp_path, path, value), time.process_time()
    with pytest.raises(InputError, match=re.escape(path.rpartition(".")[0] or path)) as caught:
        params.load(file)
    assert time.process_time() - begun < 5
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("train.epochs", 3, "unknown key train.epochs"),
        ("colour", 3, "unknown key colour"),
        ("dataset.tabletop.sizes.depth", 3, "unknown key dataset.tabletop.sizes.depth"),
        ("train.batch", "16", "train.batch: .* not '16'"),
        (
            "dataset.tabletop.train.learning_rate",
            "fast",
            "dataset.tabletop.train.learning_rate: .* not 'fast'",
        ),
        ("train.processes", 0, "train.processes: .* not 0"),
        ("dataset.tabletop.train.processes", None, "the key dataset.tabletop.train.processes is missing"),
        ("train.compile", "on", "train.compile: .* not 'on'"),
        ("train.compile", True, "train.compile: .* not True"),
        ("dataset.tabletop.train.compile", None, "the key dataset.tabletop.train.compile is missing"),
        ("score.no_change_phrases", ["no change", ""], "score.no_change_phrases.1"),
        ("score.no_change_phrases", [" "], "score.no_change_phrases.0"),
        ("score.no_change_phrases", ["."], "score.no_change_phrases.0"),
        ("decode.beam", 0, "decode.beam: .* not 0"),
        ("decode.length_penalty", -1.0, "decode.length_penalty: .* not -1.0"),
        ("tabletop.scenes", 2.5, "tabletop.scenes: .* not 2.5"),
        ("tabletop.scenes", 3, "tabletop.scenes: .* not 3"),
        ("tabletop.min_objects", 11, "tabletop.min_objects"),
        ("tabletop.max_objects", 2, "min_objects exceeds max_objects"),
        ("tabletop.viewpoint.tabletop", "wild", "tabletop.viewpoint.tabletop.* not 'wild'"),
        ("tabletop.viewpoint.tabletop", 181.0, "tabletop.viewpoint.tabletop"),
        ("tabletop.viewpoint.tabletop", 0.0, "tabletop.viewpoint.tabletop"),
        (
            "tabletop.datasets",
            ["clevr_dc"],
            "tabletop.datasets names 'clevr_dc', which is not in 'tabletop.vi",
        ),
        ("datasets", ["tabletop_wide"], "'tabletop_wide', which is rendered: add it to tabletop.datasets"),
        ("features.stride", 8, "features.stride: .* not 8"),
        ("features.finer", "yes", "features.finer: .* not 'yes'"),
        ("features.layer", "layer3", "unknown key features.layer"),
        ("dataset.tabletop.features.standardise", 1, "dataset.tabletop.features.standardise: .* not 1"),
        ("dataset.tabletop.features.stride", 64, "dataset.tabletop.features.stride: .* not 64"),
        ("pretraining.stride", 8, "pretraining.stride: .* not 8"),
        ("features", None, "the key features is missing"),
        (
            "datasets",
            ["tabletopp"],
            "datasets names 'tabletopp', which is not in 'dataset' .it has",
        ),
        ("datasets", [], "datasets: .*at least 1 item"),
        ("models", ["scorrer"], "models names 'scorrer', which is not in 'model'"),
        ("models", ["../up"], "models.0: .* not '../up'"),
        ("seeds", [-1], "seeds.0: .* not -1"),
        ("seeds", [1, 2, 1], "seeds: 1 is listed more than once"),
        ("datasets", ["tabletop", "tabletop"], "datasets: 'tabletop' is listed more than once"),
        ("models", ["rr", "ccr", "rr"], "models: 'rr' is listed more than once"),
        (
            "dataset.tabletop.sizes.heads",
            3,
            r"sizes: width 128 is not a multiple of heads \(3\)",
        ),
        ("dataset.tabletop.sizes", SIZES | {"width": 9, "heads": 3}, "sizes: width 9 is not even"),
        ("loss.lambda_cv", -1.0, "loss.lambda_cv: .* not -1.0"),
        ("loss.lambda_cv", float("nan"), "loss.lambda_cv"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, path, value, said):
    with pytest.raises(InputError, match=said) as caught:
        params.load(write(tmp_path, path, value))
    assert "\n" not in str(caught.value)
    assert "params.yaml: " in str(caught.value)


def test_a_bare_off_is_the_word(tmp_path):
    """As DVC writes it; YAML 1.1 reads it as false."""
    path = write(tmp_path, "train.compile", "off")
    path.write_text(path.read_text().replace("'off'", "off"))
    assert "compile: off" in path.read_text()
    assert params.load(path).train.compile == "off"


@pytest.mark.parametrize(
    ("everywhere", "own", "precision"),
    [(None, "float32", "float32"), (None, None, "auto"), ("bfloat16", "float32", "bfloat16")],
)
def test_features_have_the_datasets_own_precision(tmp_path, everywhere, own, precision):
    """Where `features` names none; a dataset that has none of its own has `auto`."""
    tree = read_yaml(REAL, "")
    tree["features"]["precision"] = everywhere
    del tree["dataset"]["tabletop"]["features"]["precision"]
    tree["dataset"]["tabletop"]["features"] |= {"precision": own} if own else {}
    project_params.save(tmp_path, tree)
    found = params.load(tmp_path / "params.yaml").features_of("tabletop")
    assert found.precision == precision
    assert found.size == tree["features"]["size"]


def test_no_file_and_no_yaml(tmp_path):
    with pytest.raises(InputError, match=r"params\.yaml is missing"):
        params.load(tmp_path / "params.yaml")
    (tmp_path / "params.yaml").write_text("a: [")
    with pytest.raises(InputError, match="is not valid YAML"):
        params.load(tmp_path / "params.yaml")
    (tmp_path / "params.yaml").write_text(REAL.read_text() + "seeds: [1]\n")
    with pytest.raises(InputError, match=r'params\.yaml .*line \d+: found duplicate key "seeds"'):
        params.load(tmp_path / "params.yaml")


def test_an_unknown_dataset_is_named():
    with pytest.raises(InputError, match=r"unknown dataset 'coco'; params\.yaml has tabletop"):
        params.load(REAL).of("coco")


def test_a_dataset_like_another_has_its_settings_but_where_it_has_its_own(tmp_path):
    own = {"prepare": {"reader": "table", "root": "r", "protocol": None}, "like": "levir_cc"}
    found = params.load(write(tmp_path, "dataset.mine", own)).dataset
    assert found["mine"].train == found["levir_cc"].train
    assert found["mine"].prepare != found["levir_cc"].prepare
    own |= {"train": {"batch": 3}, "features": {"weights": "w.pth"}}
    changed = params.load(write(tmp_path, "dataset.mine", own)).dataset
    assert changed["mine"].train == found["mine"].train.model_copy(update={"batch": 3})
    assert changed["mine"].features.weights == "w.pth"
    own["own"] = {"card": {"train": {"iterations": 7}}}  # key by key at any depth
    deeper = params.load(write(tmp_path, "dataset.mine", own)).dataset
    card = found["levir_cc"].own["card"]
    assert deeper["mine"].own["card"].sizes == card.sizes
    assert deeper["mine"].own["card"].train == card.train.model_copy(update={"iterations": 7})
    assert changed["levir_cc"] == deeper["levir_cc"] == found["levir_cc"]  # nothing is shared


@pytest.mark.parametrize("like", ["nowhere", 3, "other"])
def test_a_like_that_leads_nowhere(tmp_path, like):
    entry = {"prepare": {"reader": "table", "root": "r", "protocol": None}}
    write(tmp_path, "dataset.other", entry | {"like": "tabletop"})
    tree = read_yaml(tmp_path / "params.yaml", "")
    tree["dataset"]["mine"] = entry | {"like": like}
    project_params.save(tmp_path, tree)
    with pytest.raises(InputError, match=rf"dataset\.mine\.like must name one of .*levir_cc.*, not {like!r}"):
        params.load(tmp_path / "params.yaml")


def test_a_dataset_like_another_needs_a_place_of_its_own(tmp_path):
    with pytest.raises(InputError, match=r"the key dataset\.mine\.prepare is missing"):
        params.load(write(tmp_path, "dataset.mine", {"like": "tabletop"}))


def with_published(tmp_path, own, published):
    """params.yaml with `own` of datasets, beside a datasets.yaml."""
    tree = project_params.tree()
    whole = tree["dataset"]["clevr_dc"]
    project_params.save(tmp_path, tree | {"dataset": {"tabletop": tree["dataset"]["tabletop"]} | own})
    (tmp_path / "datasets.yaml").write_text(yaml_of({"clevr_dc": whole} | published))
    return tmp_path / "params.yaml"


def test_params_lie_over_what_is_published(tmp_path):
    real = project_params.settings().of("clevr_dc")
    mine = {"like": "clevr_dc", "prepare": {"reader": "table", "root": "r", "protocol": None}}
    own = {"clevr_dc": {"train": {"batch": 3}}, "mine": mine}
    found = params.load(with_published(tmp_path, own, {})).dataset
    assert list(found) == ["tabletop", "clevr_dc", "mine"]
    assert found["clevr_dc"] == real.model_copy(update={"train": real.train.model_copy(update={"batch": 3})})
    assert found["mine"].train == found["clevr_dc"].train


def test_a_phase_says_only_what_it_has_of_its_own(tmp_path):
    phase = {"iterations": 9, "batch": 4, "learning_rate": 0.1, "schedule": "constant", "validate_every": 3}
    own = {"clevr_dc": {"own": {"clip": {"sizes": {}, "train": phase}}}}
    found = params.load(with_published(tmp_path, own, {})).of("clevr_dc").own["clip"].train
    assert (found.references, found.compile, found.precision, found.cache) == (1, "off", "float32", "none")
    assert (found.optimiser, found.beta2, found.mirror, found.shift) == ("adam", 0.999, False, 0)
    whole = params.read_tree(tmp_path / "params.yaml")["dataset"]["clevr_dc"]["own"]["clip"]["train"]
    assert whole == found.model_dump() | {"milestones": []}  # studies vary these, too


@pytest.mark.parametrize(
    ("own", "published", "said"),
    [
        ({}, {"x": {"prepare": 3}}, r"datasets\.yaml: dataset\.x\.prepare: .* not 3"),
        ({"clevr_dc": {"loss": 3}}, {}, r"params\.yaml: dataset\.clevr_dc\.loss: .* not 3"),
        ({"x": {"text": {}}}, {"x": {"prepare": 3}}, r"datasets\.yaml: dataset\.x\.prepare: .* not 3"),
        ({}, {"x": 3}, r"datasets\.yaml must map the name of each dataset"),
    ],
)
def test_the_file_that_is_wrong_is_named(tmp_path, own, published, said):
    with pytest.raises(InputError, match=said):
        params.load(with_published(tmp_path, own, published))


def test_params_are_read_in_two_minutes():
    text = REAL.read_text()
    assert len(text.splitlines()) <= 221 + len(MODELS)  # an added model has a line of its own
    assert max(map(len, text.splitlines())) <= 110
    assert len((REAL.parent / "dvc.yaml").read_text().splitlines()) <= 500
