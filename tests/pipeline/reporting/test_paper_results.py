"""Published rows: their scores, the conditions that differ, and wrong files."""

from pathlib import Path

import pytest
import yaml

from models import MODELS
from pipeline.config import params
from pipeline.io.errors import InputError
from pipeline.reporting import paper_results
from pipeline.reporting.paper_results import differing_conditions, rows
from pipeline.scoring.metric_names import PRINTED
from tests import project_params

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "data/published"
DATASETS = ("clevr_change", "clevr_dc", "spot_the_diff", "image_editing_request", "birds_to_words")


@pytest.fixture(scope="module")
def settings() -> params.Params:
    return project_params.settings()


def row(dataset: str, subset: str, method: str, source: str = "") -> paper_results.PaperRow:
    (found,) = [
        row
        for row in rows(dataset, FOLDER)
        if (row.subset, row.method) == (subset, method) and source in row.source
    ]
    return found


def test_published_rows_name_known_models_and_have_fractions():
    named = {row.model for dataset in DATASETS for row in rows(dataset, FOLDER)} - {None}
    assert {"transformer", "dirl_ccr", "duda", "vard_transformer"} <= named <= set(MODELS)
    ours = row("clevr_change", "total", "SCORER+CBR")
    scores = (0.563, 0.412, 0.745, 1.268, 0.333)
    assert ours.values == dict(zip(PRINTED, scores, strict=True))
    assert ours.model == "scorer_cbr"
    assert "ICCV 2023" in ours.source
    assert row("clevr_change", "move", "DIRL+CCR").values["METEOR"] == 0.335
    assert row("spot_the_diff", "total", "VARD-Trans").values["BLEU-4"] is None
    assert "ablation" in row("clevr_change", "change", "SCORER").note


def test_differing_conditions_are_named(settings):
    ours = row("clevr_change", "total", "SCORER+CBR")
    assert differing_conditions(ours, settings) == ["resize: opencv_bicubic, ours pil_bicubic"]
    assert differing_conditions(ours, settings, 7970) == ["resize: opencv_bicubic, ours pil_bicubic"]
    assert "test pairs: 7970, ours 80" in differing_conditions(ours, settings, 80)
    other = settings.model_copy(
        update={
            "features": settings.features.model_copy(
                update={"weights": "w.pth", "backbone": "resnet18", "stride": 32}
            ),
            "train": settings.train.model_copy(update={"iterations": 100, "batch": 8, "learning_rate": 0.1}),
        }
    )
    assert differing_conditions(ours, other) == [
        "network: ResNet-101, ours resnet18",
        "stride: 16, ours 32",
        "resize: opencv_bicubic, ours pil_bicubic",
        "weights: imagenet, ours w.pth",
        "iterations: 10000, ours 100",
        "batch: 128, ours 8",
        "learning rate: 0.0002, ours 0.1",
    ]


def test_conditions_that_a_paper_does_not_state_are_listed(settings):
    assert differing_conditions(row("clevr_change", "total", "DUDA", "ICCV"), settings) == [
        "not stated: network, stride, size, resize, weights, iterations, batch, learning rate"
    ]
    found = differing_conditions(row("clevr_change", "color", "CLIP4IDC"), settings, 400)
    assert found == ["not stated: resize, test pairs"]


def test_a_model_that_reads_pixels_has_its_own_conditions(settings):
    """CLIP4IDC is compared with its own settings, not with the settings of the backbone."""
    own = row("clevr_change", "total", "CLIP4IDC")
    assert differing_conditions(own, settings, 7970) == ["not stated: resize"]
    of_clevr = settings.dataset["clevr_change"]
    small = of_clevr.model_copy(
        update={
            "models": {"clip": of_clevr.models["clip"].model_copy(update={"start": None})},
            "features": of_clevr.features.model_copy(update={"pixels": (96, 144)}),
        }
    )
    other = settings.model_copy(update={"dataset": {"clevr_change": small}})
    assert differing_conditions(own, other)[:2] == ["size: 224, ours 96 x 144", "weights: clip, ours random"]


def test_idc_pcl_is_compared_with_its_own_settings(settings):
    """This includes an ablation, which names no model."""
    for method in ("IDC-PCL", "IDC-PCL with MLM"):
        found = differing_conditions(row("clevr_change", "total", method), settings, 7970)
        assert not [each for each in found if each.split(":")[0] in ("iterations", "batch", "learning rate")]
        of_clevr = settings.dataset["clevr_change"]
        others = settings.model_copy(
            update={"dataset": {"clevr_change": of_clevr.model_copy(update={"models": {}})}}
        )
        assert "batch: 100, ours 128" in differing_conditions(
            row("clevr_change", "total", method), others, 7970
        )


def test_published_retrieval():
    of_clevr, *splits = paper_results.retrieval("clevr_change", FOLDER)
    assert (of_clevr.model, of_clevr.text_to_pair["R@1"], of_clevr.ablation) == ("clip4idc", 0.268, False)
    assert [own.method for own in splits] == [f"CLIP4IDC {n}/{12 - n}" for n in range(6, 13)]
    assert all(own.ablation for own in splits)
    assert splits[-1].text_to_pair["MdR"] == 419
    assert paper_results.retrieval("tabletop", FOLDER) == []


GOOD = {
    "sources": {"a": "A paper"},
    "conditions": {"a": {"batch": 3}},
    "rows": {"total": [{"method": "M", "source": "a", "conditions": "a", "METEOR": 30.0}]},
}
ROW = GOOD["rows"]["total"][0]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"row": {}}, "unknown key row"),
        ({"sources": {}}, "rows.total: M names the unknown source a"),
        ({"conditions": {}}, "rows.total: M names the unknown conditions a"),
        ({"rows": {"moved": [ROW]}}, "rows.moved: Input should be 'total'"),
        ({"rows": {"total": [ROW, ROW]}}, "rows.total: M of a appears twice"),
        ({"rows": {"total": [ROW | {"CIDEr": 3.0}]}}, "unknown key rows.total.0.CIDEr"),
        (
            {"rows": {"total": [ROW | {"METEOR": "30"}]}},
            "rows.total.0.METEOR: Input should be a valid number",
        ),
        ({"rows": {"total": [ROW | {"METEOR": -1.0}]}}, "rows.total.0.METEOR: Input should be greater"),
        ({"rows": {"total": [ROW | {"METEOR": None}]}}, "rows.total.0: reports no score"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path, wrong, said):
    path = tmp_path / "new.yaml"
    path.write_text(yaml.safe_dump(GOOD))
    assert rows("new", tmp_path)[0].conditions.batch == 3
    path.write_text(yaml.safe_dump(GOOD | wrong))
    with pytest.raises(InputError) as error:
        rows("new", tmp_path)
    assert str(error.value).startswith(f"{path}: {said}")
    assert "\n" not in str(error.value)


def test_no_yaml_and_no_folder(tmp_path):
    (tmp_path / "new.yaml").write_text("a: [")
    with pytest.raises(InputError, match=r"new\.yaml is not valid YAML"):
        rows("new", tmp_path)
    with pytest.raises(InputError, match="absent is missing; run from the repository's root"):
        rows("new", tmp_path / "absent")
