"""Recipes: nulls become the dataset's values, and a recipe has only what its model uses."""

from dataclasses import replace
from typing import get_args, get_type_hints

import pytest

from models import MODELS
from pipeline.config import recipe_file, resolving
from pipeline.config.dataset_params import ModelLayer
from pipeline.config.store_contents import IMPORTED, Spec, spec
from pipeline.io.errors import InputError
from tests import project_params

REAL = project_params.settings()


def with_(**changes):
    return REAL.model_copy(update=changes)


def on_tabletop(**changes):
    """Return the parameters with other values in the entry of tabletop."""
    return with_(dataset=REAL.dataset | {"tabletop": REAL.dataset["tabletop"].model_copy(update=changes)})


def with_own(key, **changes):
    """Return the parameters with other values in tabletop's layer for a family or model."""
    own = REAL.of("tabletop").models
    layer = ModelLayer.model_validate(own[key].model_dump(exclude_unset=True) if key in own else {})
    return on_tabletop(models=own | {key: layer.model_copy(update=changes)})


def test_a_global_value_changes_only_the_models_that_use_it():
    changed = with_(loss=REAL.loss | {"lambda_cbr": 0.004})
    for model, used in (("subtraction", False), ("scorer", False), ("rr_cbr", True), ("scorer_cbr", True)):
        before, after = (resolving.resolve(each, "tabletop", model) for each in (REAL, changed))
        assert (before != after) == used
        assert not used or after.loss["cbr"] == 0.004
    training = with_(train=REAL.train.model_copy(update={"batch": 4}))
    assert resolving.resolve(training, "tabletop", "subtraction").phases["train"]["batch"] == 4


def test_every_term_has_a_weight_on_every_dataset():
    assert set(REAL.model) == set(MODELS), "add the model to models/__init__.py and to params.yaml"
    for dataset in REAL.dataset:
        for model in ("scorer_cbr", "dirl_ccr"):
            weights = {f"lambda_{term}" for term in resolving.resolve(REAL, dataset, model).loss}
            assert weights == {*MODELS[model].layer["loss"]}


def test_a_dataset_may_have_settings_of_single_models():
    changed = with_own("scorer", settings={"temperature": 0.25, "switches": {"mtm": "summed"}})
    plain, own = (resolving.resolve(each, "tabletop", "scorer") for each in (REAL, changed))
    assert own.settings == plain.settings | {"temperature": 0.25, "switches": {"mtm": "summed"}}
    for dataset, model in (("clevr_dc", "scorer"), ("tabletop", "scorer_cbr")):
        assert resolving.resolve(changed, dataset, model) == resolving.resolve(REAL, dataset, model)
    everywhere = REAL.model["scorer"] | {"switches": {"coordinates": True}}
    both = changed.model_copy(update={"model": REAL.model | {"scorer": everywhere}})
    switches = resolving.resolve(both, "tabletop", "scorer").settings["switches"]
    assert switches == {"coordinates": True, "mtm": "summed"}


def test_a_term_without_a_weight_is_named():
    loss = {key: value for key, value in REAL.dataset["tabletop"].loss.items() if key != "lambda_cv"}
    with pytest.raises(InputError, match=r"dataset\.tabletop\.loss\.lambda_cv is missing"):
        resolving.resolve(on_tabletop(loss=loss), "tabletop", "scorer")


def test_the_last_layer_that_names_a_key_wins(monkeypatch):
    """Dataset < model < dataset x family < dataset x model < params.yaml, for weights and for phases."""
    key, entry = "lambda_con", MODELS["card"]
    values = [1.0, 2.0, 3.0, 4.0]
    monkeypatch.setattr(resolving, "code_of", lambda model: {})
    monkeypatch.setitem(MODELS, "card_again", replace(entry))
    models = with_(model=REAL.model | {"card_again": REAL.model["card"]})

    def found(count):
        """Return the weight and the batch with values in the lowest `count` layers."""
        own = [{"loss": {key: value}, "train": {"batch": int(10 * value)}} for value in values[:count]]
        dataset = REAL.of("tabletop")
        loss = dataset.loss | (own[0]["loss"] if own else {})
        train = dataset.train.model_copy(update=own[0]["train"] if own else {})
        layer = {name: {**entry.layer[name], **own[1][name]} for name in own[1]} if count > 1 else {}
        monkeypatch.setitem(
            MODELS, "card_again", replace(entry, layer={**entry.layer, "loss": {key: None}} | layer)
        )
        layers = {"card": own[2]} if count > 2 else {"card": {}}
        layers |= {"card_again": own[3]} if count > 3 else {}
        update = {"loss": loss, "train": train}
        update["models"] = {name: ModelLayer.model_validate(layer) for name, layer in layers.items()}
        everything = models.model_copy(update={"dataset": {"tabletop": dataset.model_copy(update=update)}})
        if count > 4:
            everything = everything.model_copy(
                update={
                    "loss": REAL.loss | {key: 5.0},
                    "train": REAL.train.model_copy(update={"batch": 50}),
                }
            )
        recipe = resolving.resolve(everything, "tabletop", "card_again")
        return recipe.loss["con"], recipe.phases["train"]["batch"]

    for count in range(1, 6):
        assert found(count) == (float(count), 10 * count)


def values_of(switch_type):
    return (True, False) if switch_type is bool else get_args(switch_type)


@pytest.mark.parametrize("model", MODELS)
def test_a_models_layer_names_the_terms_that_it_has(model, monkeypatch):
    """With the switches that leave terms or tasks out, at all their values."""
    monkeypatch.setattr(resolving, "code_of", lambda model: {})
    entry = MODELS[model]
    types = get_type_hints(type(entry.released))
    names = sorted(
        entry.switches & {"distractor_judging", "extra_data", "experts", "routers", "tasks", "terms"}
    )
    cases = [{}, *({name: value} for name in names for value in values_of(types[name]))]
    for switches in cases:
        settings = REAL.model[model] | {"switches": switches}
        try:
            recipe = resolving.resolve(with_(model=REAL.model | {model: settings}), "tabletop", model)
            shape = (3, 96, 144) if recipe.input == "pixels" else (16, 14, 14)
            built = recipe_file.bare(recipe, shape)
        except InputError:
            continue  # a switch that these sizes or this dataset do not allow
        assert tuple(recipe.loss) == tuple(term for term in built.terms if term != "cap"), switches
        for name, phase_settings in recipe.phases.items():
            if "tasks" in phase_settings:
                built = recipe_file.bare(recipe.until(name), shape)
                assert tuple(phase_settings["tasks"]) == built.terms, switches


def test_a_recipe_has_the_source_files_of_its_model():
    files = set(resolving.code_of("subtraction"))
    assert files >= {"models/scorer/subtraction.py", "models/common/decoder.py"}
    assert not files & {"models/scorer/cbr.py", "models/scorer/model.py"}
    assert set(resolving.code_of("scorer_cbr")) >= {"models/scorer/cbr.py", "models/kernels/matching_cpu.py"}


def test_nulls_and_switches_of_a_model_become_the_datasets():
    small, published = (resolving.resolve(REAL, name, "idc_pcl") for name in ("tabletop", "clevr_change"))
    assert small.settings["switches"] == {"first_weights": "counterpart"}
    assert published.settings["switches"] == {}
    assert (small.settings["tau1"], published.settings["tau1"]) == (0.1, 1.0)
    assert published.phases["pretrain"]["tasks"] == {"mlm": 8.0, "mvcl": 1.0, "fda": 2.0}
    own = REAL.model["idc_pcl"] | {"tau1": 0.5, "switches": {"tasks": "mlm", "first_weights": "torch"}}
    changed = resolving.resolve(with_(model=REAL.model | {"idc_pcl": own}), "tabletop", "idc_pcl").settings
    assert (changed["tau1"], changed["tau2"]) == (0.5, small.settings["tau2"])
    assert changed["switches"] == {"tasks": "mlm", "first_weights": "torch"}
    assert resolving.resolve(REAL, "tabletop", "idc_pcl_no_pretrain").pretraining is None


def test_a_switch_chooses_the_input_of_clip4idc():
    own = REAL.of("tabletop").models["clip"]
    found = {}
    for patches, patch in (("linear", 16), ("features", 2)):
        settings, sizes = own.settings | {"switches": {"patches": patches}}, own.sizes | {"patch": patch}
        changed = with_own("clip", settings=settings, sizes=sizes)
        found[patches] = resolving.resolve(changed, "tabletop", "clip4idc")
    assert (found["linear"].input, found["features"].input) == ("pixels", "grid")
    assert found["features"].features == resolving.resolve(REAL, "tabletop", "scorer").features


@pytest.mark.parametrize(
    ("model", "first"), [("clip4idc", "adapt"), ("clip4idc_no_adapt", "train"), ("clip_ft", "train")]
)
def test_the_first_phase_starts_from_clips_weights(model, first):
    recipe = resolving.resolve(with_own("clip", start="clip.safetensors"), "tabletop", model)
    starts = {name: settings.get("start") for name, settings in recipe.phases.items()}
    assert starts == {phase: "clip.safetensors" if phase == first else None for phase in recipe.phases}


def phase(key, name="train", **changes):
    """Return the parameters with other settings in a phase of a model on tabletop."""
    return with_own(key, **{name: getattr(REAL.of("tabletop").models[key], name) | changes})


SIZES = REAL.of("tabletop").sizes


def with_sizes(**changes):
    return on_tabletop(sizes=SIZES | changes)


@pytest.mark.parametrize(
    ("changed", "model", "named"),
    [
        (REAL, "scorrer", "unknown model 'scorrer'"),
        (with_(model=REAL.model | {"newer": {}}), "newer", r"models/__init__\.py has subtraction"),
        (with_(model={"rr": {"dropout": 0.1, "depth": 2}}), "rr", r"unknown key model\.rr\.depth"),
        (on_tabletop(settings={}), "rr", r"the key model\.rr\.dropout is missing"),
        (
            with_own("rr", settings={"a": 1.0}),
            "rr",
            r"unknown key dataset\.tabletop\.models\.rr\.settings\.a",
        ),
        (on_tabletop(models={}), "idc_pcl", r"dataset\.tabletop\.models\.idc_pcl is missing"),
        (with_own("scorrer"), "rr", r"unknown key dataset\.tabletop\.models\.scorrer"),
        (with_own("clip", sizes={"intr": 1}), "clip_ft", r"dataset\.tabletop\.models\.clip\.sizes\.intr"),
        (on_tabletop(settings={"droput": 0.1}), "rr", r"dataset\.tabletop\.settings\.droput"),
        (with_sizes(patch=3), "rr", r"dataset\.tabletop\.sizes\.patch"),
        (phase("idc_pcl", "pretrain", batch="4"), "idc_pcl", r"models\.idc_pcl\.pretrain: batch"),
        (phase("clip", select_after=9999), "clip_ft", r"models\.clip\.train: select_after"),
        (with_sizes(heads=3), "rr", r"width 128 is not a multiple of heads \(3\)"),
        (with_sizes(word_width=9), "rr", "word_width 9"),
        (with_sizes(width=1 << 16), "rr", "width is 65536"),
        (with_sizes(layers=65), "rr", "layers is 65"),
        (with_own("idc_pcl", sizes={}), "idc_pcl", "sizes has width, heads, single, pair, pool, not .*cross"),
        (phase("idc_pcl", mirror=True), "idc_pcl", "mirror and shift"),
        (phase("idc_pcl", shift=1), "idc_pcl", "mirror and shift"),
        (phase("clip", max_tokens=40), "clip4idc", r"dataset\.tabletop\.text\.max_tokens"),
    ],
)
def test_a_wrong_setting_is_named(changed, model, named):
    with pytest.raises(InputError, match=named):
        resolving.resolve(changed, "tabletop", model)


@pytest.mark.parametrize(
    ("model", "settings", "named"),
    [
        ("scorer", {"temperature": -1.0}, "temperature must be positive"),
        ("clip4idc", {"switches": {"words": "clip"}}, "text_width"),
    ],
)
def test_a_value_that_only_the_models_code_refuses_is_refused_before_any_work(model, settings, named):
    everything = with_(model=REAL.model | {model: REAL.model[model] | settings})
    recipe = resolving.resolve(everything, "tabletop", model)
    sizes = recipe.sizes | ({"joint": 64} if model == "clip4idc" else {})
    with pytest.raises(InputError, match=named):
        resolving.check_built(everything, replace(recipe, sizes=sizes))


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
        ("cv: 0.1", "cv: -1.0", "loss.cv"),
        ("  train:\n", "  adapt:\n", "phases has adapt; there are, in order, train, reinforce"),
        ("  train:\n", "  reinforce:\n", "phases has reinforce, which needs train"),
    ],
)
def test_an_edited_recipe_is_refused(tmp_path, old, new, named):
    recipe_file.save(tmp_path / "r.yaml", resolving.resolve(REAL, "tabletop", "scorer_cbr"))
    text = (tmp_path / "r.yaml").read_text()
    assert old in text
    (tmp_path / "r.yaml").write_text(text.replace(old, new))
    with pytest.raises(InputError, match=named):
        recipe_file.load(tmp_path / "r.yaml")


def asked(weights=None, npy=None, own=None, **changes):
    dataset = REAL.of("clevr_change")
    features = dataset.features.model_copy(update={"npy": npy} | (own or {}))
    settings = REAL.features.model_copy(update={"weights": weights} | changes)
    return spec(settings, dataset.model_copy(update={"features": features}))


def test_nulls_of_features_become_the_datasets_values():
    assert asked() == Spec("resnet101", "imagenet", 16, False, False, "pil_bicubic", 224)
    assert asked(npy="folder") == Spec("resnet101", IMPORTED, 16, False, False, IMPORTED, 224)
    mine = {"backbone": "resnet18", "stride": 32, "finer": True, "standardise": True}
    assert asked(own=mine) == Spec("resnet18", "imagenet", 32, True, True, "pil_bicubic", 224)
    found = asked(own=mine, backbone="resnet34", stride=16, finer=False)
    assert found == Spec("resnet34", "imagenet", 16, False, True, "pil_bicubic", 224)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"own": {"finer": True}}, "features.finer"),
        ({"own": {"standardise": True}}, "features.standardise"),
        ({"weights": "w.pth"}, "features.weights"),
    ],
)
def test_imported_features_cannot_be_changed(changes, key):
    with pytest.raises(InputError, match=key):
        asked(npy="folder", **changes)
