"""The recipe of pre-training: everything that decides it, and nothing that concerns only captioning."""

import inspect
import re
from dataclasses import asdict
from pathlib import Path

import pytest

import models
from pipeline.config import recipe_file, resolving
from tests import project_params
from tests.own_settings import Noted
from tests.running import refuse, succeed

OWN = "dataset__tabletop__models"


def resolved(model, **changes):
    return resolving.resolve(project_params.settings(**changes), "tabletop", model).first_phase()


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


@pytest.mark.parametrize("model", [name for name, entry in models.MODELS.items() if entry.phases])
def test_pre_training_reads_no_switch_of_captioning(model, monkeypatch):
    recipe, noted = resolved(model), []
    resolve = models.common.switches.resolve
    monkeypatch.setattr(
        models.common.switches, "resolve", lambda *a: noted.append(Noted(resolve(*a))) or noted[-1]
    )
    built = recipe_file.build(
        recipe, recipe.sizes_for((1024, 14, 14), 30, 20), phase=recipe.before[-1].settings
    )
    (switches,) = noted
    source = Path(inspect.getfile(type(built))).read_text()
    later = set(re.findall(r"self\.switches\.(\w+)", source))  # losses read them
    assert len(switches.names) > 1
    assert not (switches.names | later) & set(models.MODELS[model].captioning)


def test_it_is_a_file_of_its_own_which_is_null_without_pre_training(tmp_path):
    project_params.write(tmp_path)
    for model in ("idc_pcl", "subtraction"):
        files = f"--out {model}.yaml --pretrain {model}.1"
        succeed(tmp_path, f"recipe --dataset tabletop --model {model} {files}")
    recipe_file.save(tmp_path / "expected", resolved("idc_pcl"))
    assert (tmp_path / "idc_pcl.1").read_bytes() == (tmp_path / "expected").read_bytes()
    assert recipe_file.load(tmp_path / "idc_pcl.yaml").train["iterations"] > 0
    assert (tmp_path / "subtraction.1").read_text() == "null\n"
    files = "--pairs p --vocab v --features f --weights w --curves c --provenance p.json"
    refuse(tmp_path, f"pretrain --recipe subtraction.1 --seed 1 {files}", "subtraction.1")
    assert not (tmp_path / "w").exists()
