"""The phases of a recipe; the recipe of pre-training has all that decides it, and nothing else."""

import inspect
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

import models
from pipeline.config import recipe_file, resolving
from tests import project_params
from tests.own_settings import Noted
from tests.running import refuse, succeed

OWN = "dataset__tabletop__models"


def resolved(model, **changes):
    return resolving.resolve(project_params.settings(**changes), "tabletop", model).pretraining


@pytest.mark.parametrize(
    ("model", "key", "value", "same"),
    [
        ("clip4idc", "model__clip4idc__switches", {"memory": "layerwise"}, True),
        ("idc_pcl", "loss__lambda_judge", 0.25, True),
        ("idc_pcl", f"{OWN}__idc_pcl__train__learning_rate", 1e-5, True),
        ("idc_pcl", "model__idc_pcl__switches", {"reduction": "sum", "distractor_judging": False}, True),
        ("clip4idc", f"{OWN}__clip__adapt__iterations", 7, False),
        ("clip4idc", "model__clip4idc__switches", {"directions": "mean"}, False),
    ],
)
def test_only_settings_of_pre_training_change_it(model, key, value, same):
    assert (asdict(resolved(model, **{key: value})) == asdict(resolved(model))) == same


@pytest.mark.parametrize("model", [name for name, entry in models.MODELS.items() if entry.pretraining])
def test_pre_training_reads_no_switch_of_captioning(model, monkeypatch):
    recipe, noted = resolved(model), []
    resolve = models.common.switches.resolve
    monkeypatch.setattr(
        models.common.switches, "resolve", lambda *a: noted.append(Noted(resolve(*a))) or noted[-1]
    )
    built = recipe_file.build(recipe, recipe.sizes_for((1024, 14, 14), 30, 20))
    (switches,) = noted
    source = Path(inspect.getfile(type(built))).read_text()
    later = set(re.findall(r"self\.switches\.(\w+)", source))  # losses read them
    assert len(switches.names) > 1
    assert not (switches.names | later) & set(models.MODELS[model].captioning)


def test_a_phase_starts_from_the_weights_of_the_phase_before_it():
    switches = {"reduction": "sum", "extra_data": "cub"}
    changes = {
        "reinforce__reward": "CIDEr-D",
        "model__idc_pcl__switches": switches,
        "dataset__birds_to_words__text__counted_with": "cub",
    }
    recipe = resolving.resolve(project_params.settings(**changes), "birds_to_words", "idc_pcl")
    assert [*recipe.phases] == ["images", "pretrain", "train", "reinforce"]
    assert [recipe.until(name).last for name in recipe.phases] == [*recipe.phases]
    before = [recipe.before(name) for name in recipe.phases]
    assert before == [None, *(recipe.until(name) for name in ("images", "pretrain", "train"))]
    assert [*before[3].phases] == ["images", "pretrain", "train"]
    assert before[3].loss == recipe.loss != {} == before[2].loss
    assert recipe.settings["switches"] == switches
    assert before[2].settings["switches"] == {"extra_data": "cub"}
    assert recipe.pretraining == before[2] == before[2].pretraining == before[3].pretraining
    assert resolving.resolve(project_params.settings(), "tabletop", "subtraction").pretraining is None


@pytest.mark.parametrize("names", [[], ["x"], ["reinforce"], ["train", "pretrain"], ["images", "reinforce"]])
def test_phases_in_a_wrong_order_are_refused(names):
    recipe = resolving.resolve(project_params.settings(), "tabletop", "idc_pcl")
    with pytest.raises(ValueError, match="phases has"):
        replace(recipe, phases={name: {} for name in names})


def test_it_is_a_file_of_its_own_which_is_null_without_pre_training(tmp_path):
    project_params.write(tmp_path)
    for model in ("idc_pcl", "subtraction"):
        files = f"--out {model}.yaml --pretrain {model}.1"
        succeed(tmp_path, f"recipe --dataset tabletop --model {model} {files}")
    recipe_file.save(tmp_path / "expected", resolved("idc_pcl"))
    assert (tmp_path / "idc_pcl.1").read_bytes() == (tmp_path / "expected").read_bytes()
    assert [*recipe_file.load(tmp_path / "idc_pcl.yaml").phases] == ["pretrain", "train"]
    assert (tmp_path / "subtraction.1").read_text() == "null\n"
    files = "--pairs p --vocab v --features f --weights w --curves c --provenance p.json"
    refuse(tmp_path, f"pretrain --recipe subtraction.1 --seed 1 {files}", "subtraction.1")
    assert not (tmp_path / "w").exists()
