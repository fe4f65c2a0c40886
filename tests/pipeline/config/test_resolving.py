"""Recipes: nulls become the dataset's values, and nothing that a model does not use is in its recipe."""

from dataclasses import asdict, replace

import pytest

from models import MODELS
from pipeline.config import recipe_file, resolving
from pipeline.io.errors import InputError
from tests import project_params

REAL = project_params.settings()


def with_(**changes):
    return REAL.model_copy(update=changes)


def test_published_values_hold_where_the_top_level_is_null():
    recipe = resolving.resolve(REAL, "clevr_change", "scorer_cbr")
    assert recipe.loss == {"cv": 0.1, "cbr": 0.001}
    assert recipe.train["iterations"] == 10_000
    assert recipe.features["weights"] == "imagenet"


def test_a_number_at_the_top_level_overrides_only_models_with_the_term():
    changed = with_(loss=REAL.loss | {"lambda_cbr": 0.004})
    for model, same in (
        ("subtraction", True),
        ("rr", True),
        ("scorer", True),
        ("rr_cbr", False),
        ("scorer_cbr", False),
    ):
        before, after = (resolving.resolve(p, "tabletop", model) for p in (REAL, changed))
        assert (before == after) == same
    assert resolving.resolve(changed, "tabletop", "scorer_cbr").loss["cbr"] == 0.004


@pytest.mark.parametrize(
    ("dataset", "loss"),
    [
        ("clevr_change", {"dirl": 0.5, "ccr": 0.3}),
        ("clevr_dc", {"dirl": 0.03, "ccr": 0.05}),
        ("spot_the_diff", {"dirl": 0.5, "ccr": 0.004}),
        ("image_editing_request", {"dirl": 0.001, "ccr": 0.05}),
    ],
)
def test_dirls_published_weights(dataset, loss):
    assert resolving.resolve(REAL, dataset, "dirl_ccr").loss == loss
    assert resolving.resolve(REAL, dataset, "ccr").loss == {"ccr": loss["ccr"]}
    assert resolving.resolve(REAL, dataset, "transformer").loss == {}


def test_every_term_has_its_weight_on_every_dataset():
    assert set(REAL.model) == set(MODELS), (
        "name a model in models/__init__.py and, with its settings, in params.yaml"
    )
    for dataset in REAL.dataset:
        for model, terms in (("scorer_cbr", {"cv", "cbr"}), ("dirl_ccr", {"dirl", "ccr"})):
            assert set(resolving.resolve(REAL, dataset, model).loss) == terms


def on_tabletop(**changes):
    """The parameters, with other values in tabletop's entry."""
    return with_(dataset=REAL.dataset | {"tabletop": REAL.dataset["tabletop"].model_copy(update=changes)})


def test_a_dataset_has_settings_of_single_models():
    here = {"scorer": {"temperature": 0.25, "switches": {"mtm": "summed"}}}
    changed = on_tabletop(model=here)
    plain, own = (resolving.resolve(each, "tabletop", "scorer") for each in (REAL, changed))
    assert own.settings == plain.settings | {"temperature": 0.25, "switches": {"mtm": "summed"}}
    for dataset, model in (("clevr_dc", "scorer"), ("tabletop", "scorer_cbr")):
        assert resolving.resolve(changed, dataset, model) == resolving.resolve(REAL, dataset, model)
    everywhere = changed.model_copy(
        update={"model": REAL.model | {"scorer": REAL.model["scorer"] | {"switches": {"coordinates": True}}}}
    )
    switches = resolving.resolve(everywhere, "tabletop", "scorer").settings["switches"]
    assert switches == {"coordinates": True, "mtm": "summed"}
    with pytest.raises(InputError, match=r"unknown key model\.scorer\.temprature"):
        resolving.resolve(on_tabletop(model={"scorer": {"temprature": 1.0}}), "tabletop", "scorer")


def test_a_models_entry_weighs_a_term_where_no_dataset_does(monkeypatch):
    loss = {key: value for key, value in REAL.dataset["tabletop"].loss.items() if key != "lambda_cv"}
    without = on_tabletop(loss=loss)
    with pytest.raises(InputError, match=r"dataset\.tabletop\.loss\.lambda_cv is missing"):
        resolving.resolve(without, "tabletop", "scorer")
    entry = MODELS["scorer"]
    monkeypatch.setitem(MODELS, "scorer", replace(entry, loss={**entry.loss, "cv": 0.75}))
    assert resolving.resolve(without, "tabletop", "scorer").loss["cv"] == 0.75
    assert resolving.resolve(REAL, "tabletop", "scorer").loss["cv"] == 0.1


def test_training_overrides_reach_every_model():
    changed = with_(train=REAL.train.model_copy(update={"batch": 4}))
    assert resolving.resolve(changed, "tabletop", "subtraction").train["batch"] == 4


def test_the_models_own_files_stand_in_its_recipe():
    subtraction = resolving.code_of("subtraction")
    own = {
        "attention",
        "captioner",
        "decoder",
        "decoder_protocol",
        "distributed_batch",
        "entry",
        "grid_embedding",
        "switches",
        "trainable",
        "transformer_block",
    }
    assert set(subtraction) == {"models/scorer/subtraction.py", *(f"models/common/{name}.py" for name in own)}
    files = {"scorer/cbr.py", "scorer/model.py", "kernels/matching.py", "kernels/matching_cpu.py"}
    assert set(resolving.code_of("scorer_cbr")) >= {f"models/{name}" for name in files}


def test_round_trip(tmp_path):
    recipe = resolving.resolve(REAL, "tabletop", "scorer_cbr")
    recipe_file.save(tmp_path / "r.yaml", recipe)
    assert asdict(recipe_file.load(tmp_path / "r.yaml")) == asdict(recipe)


@pytest.mark.parametrize(
    ("changes", "model", "said"),
    [
        ({}, "scorrer", "unknown model 'scorrer'"),
        (
            {"model": REAL.model | {"newer": {"dropout": 0.1}}},
            "newer",
            r"models/__init__\.py has subtraction",
        ),
        ({"model": {"rr": {"dropout": 0.1, "depth": 2}}}, "rr", r"unknown key model\.rr\.depth"),
        ({"model": {"rr": {}}}, "rr", r"the key model\.rr\.dropout is missing"),
    ],
)
def test_what_makes_no_model_is_named(changes, model, said):
    with pytest.raises(InputError, match=said):
        resolving.resolve(with_(**changes), "tabletop", model)


def test_a_size_that_first_weights_refuse_is_of_either_file():
    own = REAL.of("tabletop").own
    wide = own["clip"].model_copy(update={"sizes": own["clip"].sizes | {"joint": 200}})
    with pytest.raises(InputError) as caught:
        resolving.resolve(on_tabletop(own=own | {"clip": wide}), "tabletop", "clip4idc")
    assert str(caught.value) == (
        "params.yaml or datasets.yaml: clip4idc on tabletop: first_weights: counterpart needs a joint "
        "from 4 to width's 128, not 200"
    )


def test_a_term_without_weight_is_named():
    dataset = REAL.of("tabletop").model_copy(update={"loss": {"lambda_cv": 0.1}})
    with pytest.raises(InputError, match=r"dataset\.tabletop\.loss\.lambda_cbr is missing"):
        resolving.resolve(with_(dataset={"tabletop": dataset}), "tabletop", "scorer_cbr")


def test_a_file_that_is_no_recipe_is_named(tmp_path):
    (tmp_path / "r.yaml").write_text("dataset: x\n")
    with pytest.raises(InputError, match=r"r\.yaml: the key model is missing"):
        recipe_file.load(tmp_path / "r.yaml")


def test_a_models_nulls_and_its_other_switches_are_the_datasets_own():
    small, published = (resolving.resolve(REAL, name, "idc_pcl") for name in ("tabletop", "clevr_change"))
    assert small.settings["switches"] == {"first_weights": "counterpart"}
    assert published.settings["switches"] == {}
    assert (small.settings["tau1"], published.settings["tau1"]) == (0.1, 1.0)
    assert published.adapt["tasks"] == {"mlm": 8.0, "mvcl": 1.0, "fda": 2.0}
    assert published.loss == {"judge": 1.0}
    own = REAL.model["idc_pcl"] | {"tau1": 0.5, "switches": {"tasks": "mlm", "first_weights": "torch"}}
    changed = resolving.resolve(with_(model=REAL.model | {"idc_pcl": own}), "tabletop", "idc_pcl").settings
    assert (changed["tau1"], changed["tau2"]) == (0.5, small.settings["tau2"])
    assert changed["switches"] == {"tasks": "mlm", "first_weights": "torch"}
    assert resolving.resolve(REAL, "tabletop", "idc_pcl_no_pretrain").adapt == {}
    with pytest.raises(InputError, match=r"dataset\.clevr_dc\.own\.idc_pcl is missing"):
        resolving.resolve(REAL, "clevr_dc", "idc_pcl")


def test_clip4idc_reads_features_where_its_patches_are_features():
    own = REAL.of("tabletop").own["clip"]
    found = {}
    for patches in ("linear", "features"):
        still = own.train.model_copy(update={"mirror": False, "shift": 0})
        settings = own.settings | {"switches": {"patches": patches}}
        update = {"settings": settings, "adapt": still, "train": still}
        update["sizes"] = own.sizes | {"patch": 2 if patches == "features" else 16}
        dataset = REAL.of("tabletop").model_copy(update={"own": {"clip": own.model_copy(update=update)}})
        found[patches] = resolving.resolve(with_(dataset={"tabletop": dataset}), "tabletop", "clip4idc")
    assert {name: recipe.input for name, recipe in found.items()} == {
        "linear": "pixels",
        "features": "grid",
    }
    assert found["features"].features == resolving.resolve(REAL, "tabletop", "scorer").features


@pytest.mark.parametrize("change", [{"mirror": True}, {"shift": 1}])
def test_features_are_neither_mirrored_nor_shifted(change):
    own = REAL.of("tabletop").own["idc_pcl"]
    changed = own.model_copy(update={"train": own.train.model_copy(update=change)})
    dataset = REAL.of("tabletop").model_copy(update={"own": {"idc_pcl": changed}})
    with pytest.raises(InputError, match="idc_pcl reads features on tabletop, but mirror and shift"):
        resolving.resolve(with_(dataset={"tabletop": dataset}), "tabletop", "idc_pcl")


def test_a_phases_max_tokens_are_idc_pcls():
    def resolved(model, key, phase):
        own = REAL.of("tabletop").own[key]
        changed = own.model_copy(update={phase: getattr(own, phase).model_copy(update={"max_tokens": 40})})
        dataset = REAL.of("tabletop").model_copy(update={"own": {key: changed}})
        return resolving.resolve(with_(dataset={"tabletop": dataset}), "tabletop", model)

    assert resolved("idc_pcl", "idc_pcl", "pretrain").adapt["max_tokens"] == 40
    assert resolved("idc_pcl_no_pretrain", "idc_pcl", "train").train["max_tokens"] == 40
    for phase in ("adapt", "train"):
        with pytest.raises(InputError, match=r"set dataset\.tabletop\.text\.max_tokens instead"):
            resolved("clip4idc", "clip", phase)
