"""Where a recipe's settings come from: the named key of the named file has the value, whoever reads it."""

import re

import numpy as np
import pytest
import yaml

from pipeline.config import origins, params, resolving
from tests.running import ROOT, refuse, succeed

PCL = "clevr_change.own.idc_pcl"


def without_values(text):
    """The text of params.yaml without what an experiment may have left in `loss` and `train`."""
    parts = re.split(r"^(?=\w)", text, flags=re.MULTILINE)
    empty = [re.sub(r"^(  \w+:)[^#\n]*", r"\1  ", part, flags=re.MULTILINE) for part in parts]
    varied = [part.startswith(("loss:", "train:")) for part in parts]
    return "".join(np.where(varied, empty, parts))


TEXTS = {name: (ROOT / name).read_text() for name in ("params.yaml", "datasets.yaml")}
TEXTS["params.yaml"] = without_values(TEXTS["params.yaml"])


def shown(folder, dataset, model):
    path = folder / "params.yaml"
    recipe = resolving.resolve(params.load(path), dataset, model)
    return {each.key: each for each in origins.settings(path, recipe)}


@pytest.fixture
def lab(tmp_path):
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("dataset", "model", "origin"),
    [
        ("tabletop", "scorer_cbr", {"loss.lambda_cbr": "params.yaml: dataset.tabletop.loss.lambda_cbr"}),
        (
            "tabletop_extreme",
            "scorer",
            {
                "train.iterations": "datasets.yaml: tabletop_extreme.train.iterations",
                "train.batch": "params.yaml: dataset.tabletop.train.batch",
            },
        ),
        (
            "tabletop_extreme",
            "clip4idc",
            {
                "train.iterations": "datasets.yaml: tabletop_extreme.own.clip.train.iterations",
                "adapt.iterations": "datasets.yaml: tabletop.own.clip.adapt.iterations",
                "settings.switches.patches": "datasets.yaml: tabletop.own.clip.settings.switches.patches",
                "adapt.beta2": origins.DEFAULT,
            },
        ),
        ("clevr_change", "idc_pcl", {"adapt.tasks.mlm": f"datasets.yaml: {PCL}.pretrain.tasks.mlm"}),
        ("spot_the_diff", "card", dict.fromkeys(("loss.lambda_con", "loss.lambda_ind"), origins.ENTRY)),
    ],
)
def test_each_value_is_at_its_origin(lab, dataset, model, origin):
    found = shown(lab, dataset, model)
    assert {key: found[key].origin for key in origin} == origin
    trees = {name: yaml.safe_load(text) for name, text in TEXTS.items()}
    for each in found.values():
        if each.origin in (origins.DEFAULT, origins.ENTRY):
            continue
        file, place = each.origin.split(": ")
        branch = trees[file]
        for key in place.split("."):
            branch = branch[key]
        assert branch == each.value, each
    assert {key for key in found if found[key].origin == origins.ENTRY} <= {"features.input", *origin}


def test_the_command_prints_what_an_override_changes(lab, capsys):
    text = TEXTS["params.yaml"].replace("  lambda_cbr:  ", "  lambda_cbr: 0.004  ", 1)
    (lab / "params.yaml").write_text(text)
    succeed(lab, "show_settings tabletop scorer_cbr")
    rows = {row[0]: row[1:] for row in map(str.split, capsys.readouterr().out.splitlines())}
    assert rows["loss.lambda_cbr"] == ["0.004", "params.yaml:", "loss.lambda_cbr"]
    refuse(lab, "show_settings tabletop nobody", "unknown model 'nobody'")
