"""The stage settings: the inputs of other stages, and the lists of stages that only some models need."""

import json

import pytest

from pipeline.config import params, resolving
from pipeline.io.inputs import read_yaml
from tests import project_params
from tests.running import refuse, succeed

COMMAND = "settings --code code --settings settings"


@pytest.fixture
def lab(tmp_path):
    (tmp_path / "stages").mkdir()  # without source files to hash
    return tmp_path


@pytest.mark.parametrize(
    ("dataset", "models", "lists"),
    [
        ("tabletop", ["subtraction", "scorer_cbr"], {"extract": ["grid"], "pretrain": []}),
        ("tabletop", ["clip4idc"], {"extract": ["grid"], "pretrain": ["clip4idc"]}),  # reads features
        ("clevr_change", ["clip4idc"], {"extract": ["pixels"], "pretrain": ["clip4idc"]}),
        ("clevr_change", ["clip_ft", "scorer"], {"extract": ["pixels", "grid"], "pretrain": []}),
        ("tabletop", ["idc_pcl_no_pretrain"], {"extract": ["grid"], "pretrain": []}),
    ],
)
def test_the_lists_that_models_need_are_accepted(lab, dataset, models, lists):
    everything = project_params.settings(datasets=[dataset], models=models)
    assert resolving.stage_lists(resolving.resolve(everything, dataset, model) for model in models) == lists
    project_params.write(lab, datasets=[dataset], models=models, stages=lists)
    succeed(lab, COMMAND)


@pytest.mark.parametrize(
    ("dataset", "models", "lists", "named"),
    [
        ("tabletop", ["idc_pcl"], {}, "-S 'stages.pretrain=[idc_pcl]'"),
        ("tabletop", ["rr", "clip4idc", "idc_pcl"], {"pretrain": ["idc_pcl"]}, "[clip4idc, idc_pcl];"),
        ("clevr_change", ["clip4idc"], {}, "stages.extract: [grid, pixels] and stages.pretrain: [clip4idc];"),
        ("tabletop", ["rr"], {"pretrain": ["idc_pcl"]}, "need stages.pretrain: [];"),
        ("tabletop", ["rr"], {"extract": ["grids"]}, "stages.extract"),
        ("tabletop", ["rr"], {"decode": ["rr"]}, "stages.decode"),
        ("levir_cc", ["clip4idc"], {}, "dataset.levir_cc.models.clip is missing"),
    ],
)
def test_other_lists_are_refused_with_the_value_to_set(lab, dataset, models, lists, named):
    project_params.write(lab, datasets=[dataset], models=models, stages=lists)
    refuse(lab, COMMAND, named)
    assert not (lab / "settings").exists()


def test_negatives_without_a_grammar_are_refused(lab):
    own = {"models": ["idc_pcl"], "stages": {"pretrain": ["idc_pcl"]}}
    project_params.write(lab, **own, negatives__grammar={"tabletop": None})
    refuse(lab, COMMAND, "negatives.grammar.tabletop")
    switches = {"tasks": "mlm_mvcl"}
    project_params.write(lab, **own, negatives__grammar={"tabletop": None}, model__idc_pcl__switches=switches)
    succeed(lab, COMMAND)


def test_hashes_of_the_users_files_are_written_into_their_section(lab):
    (lab / "words.json").write_text("{}")
    project_params.write(lab, datasets=["clevr_dc"], dataset__clevr_dc__text__vocabulary="words.json")
    succeed(lab, COMMAND)
    assert read_yaml(lab / "settings/clevr_dc/prepare.yaml", "").keys() >= {"annotations", "images"}
    assert list(read_yaml(lab / "settings/clevr_dc/text.yaml", "")["files"]) == ["words.json"]
    assert not read_yaml(lab / "settings/clevr_dc/features.yaml", "").keys() & {"images", "files"}


def test_each_dataset_has_its_settings_by_section(lab):
    names = ["clevr_dc", "levir_cc"]
    project_params.write(lab, datasets=names)
    succeed(lab, COMMAND)
    everything = params.load(lab / "params.yaml")
    for name in names:
        for section, found in everything.of(name).model_dump(mode="json").items():
            written = read_yaml(lab / f"settings/{name}/{section}.yaml", "")
            assert json.dumps({key: written[key] for key in found}) == json.dumps(found)
