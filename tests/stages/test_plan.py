"""plan: what the listed models need of a dataset; and the stages that do nothing where nobody needs them."""

import pytest

from pipeline.io.inputs import read_yaml
from tests import project_params
from tests.running import refuse, succeed

NEEDS = ("grid", "pixels", "negatives")


def planned(folder, dataset, *models):
    project_params.write(folder, models=list(models))
    succeed(folder, f"plan --dataset {dataset} --out plan")
    return [name for name in NEEDS if read_yaml(folder / f"plan/needs/{name}.yaml", "")]


@pytest.mark.parametrize(
    ("dataset", "models", "needed"),
    [
        ("tabletop", ["subtraction", "scorer_cbr"], ["grid"]),
        ("clevr_change", ["clip4idc"], ["pixels"]),
        ("tabletop", ["clip4idc"], ["grid"]),  # there it reads features
        ("clevr_change", ["clip_ft", "scorer"], ["grid", "pixels"]),
        ("tabletop", ["idc_pcl", "rr"], ["grid", "negatives"]),
        ("tabletop", ["idc_pcl_no_pretrain"], ["grid"]),
    ],
)
def test_what_the_listed_models_need(tmp_path, dataset, models, needed):
    assert planned(tmp_path, dataset, *models) == needed


def test_a_switch_takes_the_negatives_out(tmp_path):
    project_params.write(tmp_path, models=["idc_pcl"], model__idc_pcl__switches={"tasks": "mlm_mvcl"})
    succeed(tmp_path, "plan --dataset tabletop --out plan")
    assert not read_yaml(tmp_path / "plan/needs/negatives.yaml", "")


def test_a_model_that_cannot_be_there_is_one_line(tmp_path):
    project_params.write(tmp_path, models=["clip4idc"])
    said = "dataset.levir_cc.own.clip is missing, the settings of clip4idc; add it"
    refuse(tmp_path, "plan --dataset levir_cc --out plan", said)
    assert not (tmp_path / "plan").exists()


def test_what_nobody_needs_is_left_empty(tmp_path, capsys):
    project_params.write(tmp_path)
    (tmp_path / "no.yaml").write_text("false\n")
    places = "--pairs p --images i --out grid.zarr --provenance made.json"
    succeed(tmp_path, f"extract --dataset tabletop --input grid {places} --needed no.yaml")
    assert "no model of `models` reads grid of tabletop" in capsys.readouterr().out
    assert [*(tmp_path / "grid.zarr").iterdir()] == []
    succeed(tmp_path, "negatives --dataset tabletop --pairs p --out n.jsonl --needed no.yaml")
    assert "no model of `models` learns from negatives of tabletop" in capsys.readouterr().out
    assert (tmp_path / "n.jsonl").read_text() == "\n"
    (tmp_path / "first").mkdir()
    succeed(tmp_path, "retrieve --first first --pairs p --vocab v --features f --out r")
    assert "it did not learn to retrieve" in capsys.readouterr().out
    assert [*(tmp_path / "r").iterdir()] == []
    refuse(
        tmp_path, "retrieve --first none --pairs p --vocab v --features f --out r", "run `dvc repro first`"
    )
    for command in (f"extract --dataset tabletop {places}", "negatives --dataset tabletop --pairs p --out n"):
        refuse(tmp_path, f"{command} --needed absent.yaml", "run `dvc repro plan` to make it")
