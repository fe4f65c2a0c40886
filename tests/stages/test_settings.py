"""settings: what each stage depends on, and the lists of stages that only some models need."""

import pytest

from pipeline.config import params, resolving, stage_lists
from pipeline.io.inputs import read_yaml
from tests import project_params
from tests.running import refuse, succeed

COMMAND = "settings --code code --settings settings"


@pytest.fixture
def lab(tmp_path):
    (tmp_path / "stages").mkdir()  # without a source file to hash
    return tmp_path


@pytest.mark.parametrize(
    ("dataset", "models", "lists"),
    [
        ("tabletop", ["subtraction", "scorer_cbr"], {"extract": ["grid"]}),
        ("clevr_change", ["clip4idc"], {"extract": ["pixels"], "pretrain": ["clip4idc"]}),
        (
            "tabletop",
            ["clip4idc"],
            {"extract": ["grid"], "pretrain": ["clip4idc"]},
        ),  # reads features
        ("clevr_change", ["clip_ft", "scorer"], {"extract": ["pixels", "grid"]}),
        (
            "tabletop",
            ["idc_pcl", "rr"],
            {"extract": ["grid"], "pretrain": ["idc_pcl"], "negatives": ["tabletop"]},
        ),
        ("tabletop", ["idc_pcl_no_pretrain"], {"extract": ["grid"]}),
    ],
)
def test_what_the_listed_models_need(lab, dataset, models, lists):
    lists |= {"retrieve": ["clip4idc"]} if "clip4idc" in models else {}
    everything = project_params.settings(datasets=[dataset], models=models)
    found = stage_lists.lists(resolving.resolve(everything, dataset, model) for model in models)
    assert {stage: names for stage, names in found.items() if names} == lists
    project_params.write(lab, datasets=[dataset], models=models, stages=found)
    succeed(lab, COMMAND)
    for stage, names in lists.items():
        project_params.write(lab, datasets=[dataset], models=models, stages=found | {stage: []})
        assert f"stages.{stage}" in refuse(lab, COMMAND, f"{names[0]} to stages.{stage}")


def test_a_switch_takes_the_negatives_out(lab):
    switches = {"tasks": "mlm_mvcl"}
    lists = {"pretrain": ["idc_pcl"]}
    project_params.write(lab, models=["idc_pcl"], stages=lists, model__idc_pcl__switches=switches)
    succeed(lab, COMMAND)


@pytest.mark.parametrize(
    ("lists", "said"),
    [
        ({"pretrain": ["rr"]}, "stages.pretrain names rr, which no run needs"),
        ({"retrieve": ["rr"]}, "stages.retrieve names rr"),
        ({"pretrain": ["idc_pcl"]}, "stages.pretrain names idc_pcl"),
        ({"negatives": ["clevr_dc"]}, "stages.negatives names clevr_dc"),
        ({"extract": ["grids"]}, "stages.extract"),
        ({"decode": ["rr"]}, "stages.decode"),
    ],
)
def test_a_name_that_has_no_such_stage_is_one_line(lab, lists, said):
    project_params.write(lab, models=["rr"], stages=lists)
    refuse(lab, COMMAND, said)


def test_a_model_that_cannot_be_there_is_one_line(lab):
    project_params.write(lab, datasets=["levir_cc"], models=["clip4idc"])
    refuse(lab, COMMAND, "dataset.levir_cc.own.clip is missing, the settings of clip4idc; add it")
    assert not (lab / "settings").exists()


def test_each_listed_dataset_has_its_sections(lab):
    names = ["clevr_dc", "levir_cc"]
    project_params.write(lab, datasets=names)
    succeed(lab, COMMAND)
    everything = params.load(lab / "params.yaml")
    for name in names:
        for section, found in everything.of(name).model_dump().items():
            assert read_yaml(lab / f"settings/{name}/{section}.yaml", "") == read_yaml_of(found)


def read_yaml_of(section):
    """A section as YAML gives it back: with lists in place of tuples."""
    if isinstance(section, dict):
        return {key: read_yaml_of(each) for key, each in section.items()}
    return [read_yaml_of(each) for each in section] if isinstance(section, list | tuple) else section
