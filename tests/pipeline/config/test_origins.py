"""Origins of a recipe's settings: the named key of the named file has the value."""

import pytest

from models import MODELS
from pipeline.config import origins, params, resolving
from pipeline.config.params import flat
from pipeline.io.inputs import read_yaml
from tests import project_params
from tests.running import refuse, succeed


@pytest.fixture
def lab(tmp_path):
    project_params.copy(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("dataset", "model", "expected"),
    [
        (
            "tabletop",
            "scorer_cbr",
            {
                "loss.lambda_cbr": "params.yaml: dataset.tabletop.loss.lambda_cbr",
                "features.backbone": "params.yaml: dataset.tabletop.features.backbone",
                "features.input": resolving.ENTRY,
            },
        ),
        ("clevr_change", "clip4idc", {"features.height": origins.COMPUTED}),
        (
            "tabletop_extreme",
            "clip4idc",
            {
                "train.iterations": "datasets.yaml: tabletop_extreme.models.clip.train.iterations",
                "adapt.iterations": "datasets.yaml: tabletop.models.clip.adapt.iterations",
                "settings.switches.patches": "datasets.yaml: tabletop.models.clip.settings.switches.patches",
                "adapt.beta2": resolving.DEFAULT,
            },
        ),
        ("spot_the_diff", "card", dict.fromkeys(("loss.lambda_con", "loss.lambda_ind"), resolving.ENTRY)),
    ],
)
def test_each_value_is_at_its_origin(lab, dataset, model, expected):
    path = lab / "params.yaml"
    recipe = resolving.resolve(params.load(path), dataset, model)
    found = list(origins.settings(path, recipe))
    assert {key: origin for key, _, origin in found if key in expected} == expected
    trees = {name: read_yaml(lab / name, "") for name in ("params.yaml", "datasets.yaml")}
    for setting, value, origin in found:
        if ": " in origin:
            file, place = origin.split(": ")
            branch = trees[file]
            for key in place.split("."):
                branch = branch[key]
            assert branch == value, setting
    layer = flat(MODELS[model].layer)
    for setting, value, origin in found:
        if origin == resolving.ENTRY and setting != "features.input":
            assert layer[setting] == value


def test_the_command_prints_an_override(lab, capsys):
    tree = read_yaml(lab / "params.yaml", "")
    tree["loss"]["lambda_cbr"] = 0.004
    project_params.save(lab, tree)
    succeed(lab, "show_settings tabletop scorer_cbr")
    rows = {row[0]: row[1:] for row in map(str.split, capsys.readouterr().out.splitlines())}
    assert rows["loss.lambda_cbr"] == ["0.004", "params.yaml:", "loss.lambda_cbr"]
    refuse(lab, "show_settings tabletop nobody", "unknown model 'nobody'")
