"""Recipes: nulls become the dataset's values, and a recipe has only what its model uses."""

from dataclasses import replace

import pytest

from models import MODELS
from pipeline.config import recipe_file, resolving
from pipeline.io.errors import InputError
from tests import project_params

REAL = project_params.settings()


def with_(**changes):
    return REAL.model_copy(update=changes)


def on_tabletop(**changes):
    """Return the parameters with other values in the entry of tabletop."""
    return with_(dataset=REAL.dataset | {"tabletop": REAL.dataset["tabletop"].model_copy(update=changes)})


def with_own(key, **changes):
    """Return the parameters with other values in tabletop's own settings of a model."""
    own = REAL.of("tabletop").own
    return on_tabletop(own=own | {key: own[key].model_copy(update=changes)})


def test_nulls_become_published_values():
    recipe = resolving.resolve(REAL, "clevr_change", "scorer_cbr")
    assert recipe.loss == {"cv": 0.1, "cbr": 0.001}
    assert recipe.train["iterations"] == 10_000
    assert recipe.features["weights"] == "imagenet"


def test_a_global_value_changes_only_the_models_that_use_it():
    changed = with_(loss=REAL.loss | {"lambda_cbr": 0.004})
    for model, used in (("subtraction", False), ("scorer", False), ("rr_cbr", True), ("scorer_cbr", True)):
        before, after = (resolving.resolve(each, "tabletop", model) for each in (REAL, changed))
        assert (before != after) == used
        assert not used or after.loss["cbr"] == 0.004
    training = with_(train=REAL.train.model_copy(update={"batch": 4}))
    assert resolving.resolve(training, "tabletop", "subtraction").train["batch"] == 4


def test_every_term_has_a_weight_on_every_dataset():
    assert set(REAL.model) == set(MODELS), "add the model to models/__init__.py and to params.yaml"
    for dataset in REAL.dataset:
        for model, terms in (("scorer_cbr", {"cv", "cbr"}), ("dirl_ccr", {"dirl", "ccr"})):
            assert set(resolving.resolve(REAL, dataset, model).loss) == terms


def test_a_dataset_may_have_settings_of_single_models():
    changed = on_tabletop(model={"scorer": {"temperature": 0.25, "switches": {"mtm": "summed"}}})
    plain, own = (resolving.resolve(each, "tabletop", "scorer") for each in (REAL, changed))
    assert own.settings == plain.settings | {"temperature": 0.25, "switches": {"mtm": "summed"}}
    for dataset, model in (("clevr_dc", "scorer"), ("tabletop", "scorer_cbr")):
        assert resolving.resolve(changed, dataset, model) == resolving.resolve(REAL, dataset, model)
    everywhere = REAL.model["scorer"] | {"switches": {"coordinates": True}}
    both = changed.model_copy(update={"model": REAL.model | {"scorer": everywhere}})
    switches = resolving.resolve(both, "tabletop", "scorer").settings["switches"]
    assert switches == {"coordinates": True, "mtm": "summed"}


def test_a_models_entry_has_a_weight_for_datasets_that_have_none(monkeypatch):
    loss = {key: value for key, value in REAL.dataset["tabletop"].loss.items() if key != "lambda_cv"}
    without = on_tabletop(loss=loss)
    with pytest.raises(InputError, match=r"dataset\.tabletop\.loss\.lambda_cv is missing"):
        resolving.resolve(without, "tabletop", "scorer")
    entry = MODELS["scorer"]
    monkeypatch.setitem(MODELS, "scorer", replace(entry, loss={**entry.loss, "cv": 0.75}))
    assert resolving.resolve(without, "tabletop", "scorer").loss["cv"] == 0.75
    assert resolving.resolve(REAL, "tabletop", "scorer").loss["cv"] == 0.1


def test_a_recipe_has_the_source_files_of_its_model():
    files = set(resolving.code_of("subtraction"))
    assert {"models/scorer/subtraction.py", "models/common/decoder.py"} <= files
    assert all(file.startswith("models/common/") for file in files - {"models/scorer/subtraction.py"})
    own = {"scorer/cbr.py", "scorer/model.py", "kernels/matching.py", "kernels/matching_cpu.py"}
    assert set(resolving.code_of("scorer_cbr")) >= {f"models/{name}" for name in own}


def test_nulls_and_switches_of_a_model_become_the_datasets():
    small, published = (resolving.resolve(REAL, name, "idc_pcl") for name in ("tabletop", "clevr_change"))
    assert small.settings["switches"] == {"first_weights": "counterpart"}
    assert published.settings["switches"] == {}
    assert (small.settings["tau1"], published.settings["tau1"]) == (0.1, 1.0)
    assert published.adapt["tasks"] == {"mlm": 8.0, "mvcl": 1.0, "fda": 2.0}
    own = REAL.model["idc_pcl"] | {"tau1": 0.5, "switches": {"tasks": "mlm", "first_weights": "torch"}}
    changed = resolving.resolve(with_(model=REAL.model | {"idc_pcl": own}), "tabletop", "idc_pcl").settings
    assert (changed["tau1"], changed["tau2"]) == (0.5, small.settings["tau2"])
    assert changed["switches"] == {"tasks": "mlm", "first_weights": "torch"}
    assert resolving.resolve(REAL, "tabletop", "idc_pcl_no_pretrain").adapt == {}


def test_a_switch_chooses_the_input_of_clip4idc():
    own = REAL.of("tabletop").own["clip"]
    found = {}
    for patches, patch in (("linear", 16), ("features", 2)):
        settings, sizes = own.settings | {"switches": {"patches": patches}}, own.sizes | {"patch": patch}
        changed = with_own("clip", settings=settings, sizes=sizes)
        found[patches] = resolving.resolve(changed, "tabletop", "clip4idc")
    assert (found["linear"].input, found["features"].input) == ("pixels", "grid")
    assert found["features"].features == resolving.resolve(REAL, "tabletop", "scorer").features


def phase(key, name="train", **changes):
    """Return the parameters with other settings in a phase of a model on tabletop."""
    settings = getattr(REAL.of("tabletop").own[key], name)
    return with_own(key, **{name: settings.model_copy(update=changes)})


def test_a_phase_of_idc_pcl_may_limit_captions():
    changed = phase("idc_pcl", "pretrain", max_tokens=40)
    assert resolving.resolve(changed, "tabletop", "idc_pcl").adapt["max_tokens"] == 40


CLIP, SIZES = REAL.of("tabletop").own["clip"].sizes, REAL.of("tabletop").sizes


@pytest.mark.parametrize(
    ("changed", "dataset", "model", "named"),
    [
        (REAL, "tabletop", "scorrer", "unknown model 'scorrer'"),
        (REAL, "clevr_dc", "idc_pcl", r"dataset\.clevr_dc\.own\.idc_pcl is missing"),
        (
            with_(model=REAL.model | {"newer": {}}),
            "tabletop",
            "newer",
            r"models/__init__\.py has subtraction",
        ),
        (
            with_(model={"rr": {"dropout": 0.1, "depth": 2}}),
            "tabletop",
            "rr",
            r"unknown key model\.rr\.depth",
        ),
        (with_(model={"rr": {}}), "tabletop", "rr", r"the key model\.rr\.dropout is missing"),
        (on_tabletop(model={"rr": {"a": 1.0}}), "tabletop", "rr", r"unknown key model\.rr\.a"),
        (
            on_tabletop(sizes=SIZES.model_copy(update={"heads": 3})),
            "tabletop",
            "rr",
            r"width 128 is not a multiple of heads \(3\)",
        ),
        (on_tabletop(sizes=SIZES.model_copy(update={"word_width": 9})), "tabletop", "rr", "word_width 9"),
        (on_tabletop(sizes=SIZES.model_copy(update={"width": 1 << 16})), "tabletop", "rr", "width is 65536"),
        (on_tabletop(sizes=SIZES.model_copy(update={"layers": 65})), "tabletop", "rr", "layers is 65"),
        (with_own("clip", sizes={"width": 8}), "tabletop", "clip4idc", "sizes has width, not patch"),
        (with_own("clip", sizes=CLIP | {"joint": 200}), "tabletop", "clip4idc", r"datasets\.yaml: .* joint"),
        (phase("idc_pcl", mirror=True), "tabletop", "idc_pcl", "mirror and shift"),
        (phase("idc_pcl", shift=1), "tabletop", "idc_pcl", "mirror and shift"),
        (phase("clip", max_tokens=40), "tabletop", "clip4idc", r"dataset\.tabletop\.text\.max_tokens"),
        (phase("clip", "adapt", max_tokens=40), "tabletop", "clip4idc", r"tabletop\.text\.max_tokens"),
    ],
)
def test_a_wrong_setting_is_named(changed, dataset, model, named):
    with pytest.raises(InputError, match=named):
        resolving.resolve(changed, dataset, model)


@pytest.mark.parametrize("model", ["scorer_cbr", "idc_pcl"])
def test_a_saved_recipe_is_loaded(tmp_path, model):
    recipe = resolving.resolve(REAL, "tabletop", model)
    recipe_file.save(tmp_path / "r.yaml", recipe)
    assert recipe_file.same(recipe_file.load(tmp_path / "r.yaml"), recipe)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("model: scorer_cbr", "", "the key model is missing"),
        ("heads: 2", "heads: 3", "width 128 is not a multiple of heads"),
        ("heads: 2", "heads: '2'", "sizes.heads"),
        ("cv: 0.1", "cv: -1.0", "loss.cv"),
    ],
)
def test_an_edited_recipe_is_refused(tmp_path, old, new, named):
    recipe_file.save(tmp_path / "r.yaml", resolving.resolve(REAL, "tabletop", "scorer_cbr"))
    text = (tmp_path / "r.yaml").read_text()
    assert old in text
    (tmp_path / "r.yaml").write_text(text.replace(old, new))
    with pytest.raises(InputError, match=named):
        recipe_file.load(tmp_path / "r.yaml")
