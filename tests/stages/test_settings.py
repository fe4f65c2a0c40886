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
        ("tabletop", ["subtraction", "scorer_cbr"], {"extract": ["grid"], "pretrain": []}),
        ("tabletop", ["clip4idc"], {"extract": ["grid"], "pretrain": ["clip4idc"]}),  # reads features
        ("clevr_change", ["clip4idc"], {"extract": ["pixels"], "pretrain": ["clip4idc"]}),
        ("clevr_change", ["clip_ft", "scorer"], {"extract": ["pixels", "grid"], "pretrain": []}),
        ("tabletop", ["idc_pcl", "rr"], {"extract": ["grid"], "pretrain": ["idc_pcl"]}),
        ("tabletop", ["idc_pcl_no_pretrain"], {"extract": ["grid"], "pretrain": []}),
    ],
)
def test_what_the_listed_models_need(lab, dataset, models, lists):
    everything = project_params.settings(datasets=[dataset], models=models)
    assert stage_lists.lists(resolving.resolve(everything, dataset, model) for model in models) == lists
    project_params.write(lab, datasets=[dataset], models=models, stages=lists)
    succeed(lab, COMMAND)


@pytest.mark.parametrize(
    ("dataset", "models", "lists", "said"),
    [
        ("tabletop", ["idc_pcl"], {}, "need stages.pretrain: [idc_pcl];"),
        ("tabletop", ["rr", "clip4idc", "idc_pcl"], {"pretrain": ["idc_pcl"]}, "[clip4idc, idc_pcl];"),
        ("clevr_change", ["clip4idc"], {}, "stages.extract: [grid, pixels] and stages.pretrain: [clip4idc];"),
        ("tabletop", ["rr"], {"pretrain": ["idc_pcl"]}, "need stages.pretrain: [];"),  # from an earlier edit
        ("tabletop", ["rr"], {"pretrain": ["rr"]}, "need stages.pretrain: [];"),
        ("tabletop", ["rr"], {"extract": ["grids"]}, "stages.extract"),
        ("tabletop", ["rr"], {"decode": ["rr"]}, "stages.decode"),
    ],
)
def test_lists_that_do_not_fit_the_models_are_one_line_with_the_value_to_set(
    lab, dataset, models, lists, said
):
    project_params.write(lab, datasets=[dataset], models=models, stages=lists)
    refuse(lab, COMMAND, said)
    assert not (lab / "settings").exists()


def test_the_message_has_the_override_of_an_experiment(lab):
    project_params.write(lab, models=["idc_pcl"])
    refuse(lab, COMMAND, "-S 'stages.pretrain=[idc_pcl]'")


def test_negatives_that_cannot_be_made_are_said_at_once(lab):
    own = {"models": ["idc_pcl"], "stages": {"pretrain": ["idc_pcl"]}}
    project_params.write(lab, **own, negatives__grammar={"tabletop": None})
    refuse(lab, COMMAND, "set negatives.grammar.tabletop in params.yaml")
    switches = {"tasks": "mlm_mvcl"}
    project_params.write(lab, **own, negatives__grammar={"tabletop": None}, model__idc_pcl__switches=switches)
    succeed(lab, COMMAND)


def test_a_model_that_cannot_be_there_is_one_line(lab):
    project_params.write(lab, datasets=["levir_cc"], models=["clip4idc"])
    refuse(lab, COMMAND, "dataset.levir_cc.own.clip is missing")
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
