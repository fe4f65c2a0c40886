"""The recipe of the phase before captioning: all that decides it, and nothing of the captioning."""

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


def resolved(model, **changes):
    """The first phase's recipe on tabletop."""
    return resolving.resolve(project_params.settings(**changes), "tabletop", model).first_phase()


@pytest.mark.parametrize(
    ("model", "key", "value"),
    [
        ("clip4idc", "train__iterations", 7),
        ("clip4idc", "model__clip4idc__switches", {"memory": "layerwise"}),
        ("idc_pcl", "loss__lambda_judge", 0.25),
        ("idc_pcl", "dataset__tabletop__own__idc_pcl__train__learning_rate", 1e-5),
        ("idc_pcl", "model__idc_pcl__switches", {"reduction": "sum", "distractor_judging": False}),
        ("idc_pcl", "model__idc_pcl__switches", {"barred": "none"}),
    ],
)
def test_another_captioning_leaves_it_as_it_is(model, key, value):
    assert asdict(resolved(model, **{key: value})) == asdict(resolved(model))


@pytest.mark.parametrize(
    ("model", "key", "value"),
    [
        ("clip4idc", "dataset__tabletop__own__clip__adapt__iterations", 7),
        ("clip4idc", "model__clip4idc__switches", {"directions": "mean"}),
        ("clip4idc", "model__clip4idc__variant", "released"),
        ("idc_pcl", "dataset__tabletop__own__idc_pcl__pretrain__batch", 4),
        ("idc_pcl", "model__idc_pcl__switches", {"tasks": "mlm"}),
        ("idc_pcl", "model__idc_pcl__switches", {"softmax": "all"}),
        ("idc_pcl", "dataset__tabletop__own__idc_pcl__pretrain__max_tokens", 40),
        ("idc_pcl", "dataset__tabletop__own__idc_pcl__sizes__width", 64),
    ],
)
def test_another_first_phase_is_another_one(model, key, value):
    assert asdict(resolved(model, **{key: value})) != asdict(resolved(model))


@pytest.mark.parametrize("model", [name for name, entry in models.MODELS.items() if entry.phases])
def test_the_phase_reads_no_switch_of_the_captioning(model, monkeypatch):
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


def test_it_is_a_file_of_its_own_that_says_where_there_is_no_phase(tmp_path):
    project_params.write(tmp_path)
    for model in ("idc_pcl", "subtraction"):
        succeed(
            tmp_path, f"recipe --dataset tabletop --model {model} --out {model}.yaml --pretrain {model}.1"
        )
    recipe_file.save(tmp_path / "expected", resolved("idc_pcl"))
    assert (tmp_path / "idc_pcl.1").read_bytes() == (tmp_path / "expected").read_bytes()
    assert recipe_file.load(tmp_path / "idc_pcl.1").adapt["iterations"] > 0
    assert recipe_file.load(tmp_path / "idc_pcl.yaml").train["iterations"] > 0
    assert (tmp_path / "subtraction.1").read_text() == "null\n"
    refuse(
        tmp_path,
        "pretrain --recipe subtraction.1 --seed 1 --pairs p --vocab v --features f --weights w "
        "--curves c --provenance p.json",
        "subtraction.1",
    )
    assert not (tmp_path / "w").exists()
