"""Published rows: the figures that are printed, the conditions that differ, and files that are wrong."""

from pathlib import Path

import pytest
import yaml

from models import MODELS
from pipeline.config import params
from pipeline.io.errors import InputError
from pipeline.reporting import paper_results
from pipeline.reporting.paper_results import differs, rows
from tests import project_params

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "data/published"
COUNTS = {  # rows of the papers' tables that were copied
    "clevr_change": {"total": 52, "change": 16, "no_change": 9}
    | dict.fromkeys(("color", "texture", "add", "drop", "move"), 20),
    "clevr_dc": {"total": 17},
    "spot_the_diff": {"total": 20},
    "image_editing_request": {"total": 14},
    "birds_to_words": {"total": 9},
}


@pytest.fixture(scope="module")
def settings() -> params.Params:
    return project_params.settings()


def row(dataset: str, subset: str, method: str, source: str = "") -> paper_results.Published:
    (found,) = [
        row
        for row in rows(dataset, FOLDER)
        if (row.subset, row.method) == (subset, method) and source in row.source
    ]
    return found


@pytest.mark.parametrize("dataset", COUNTS)
def test_every_row_is_there(dataset):
    found = [row.subset for row in rows(dataset, FOLDER)]
    assert {subset: found.count(subset) for subset in found} == COUNTS[dataset]


def test_rows_name_models_that_there_are():
    named = {row.model for dataset in COUNTS for row in rows(dataset, FOLDER)} - {None}
    assert named <= set(MODELS)
    assert {"transformer", "dirl", "ccr", "dirl_ccr"} <= named
    assert {"duda", "vard_transformer"} <= named


def test_figures_are_fractions_and_name_their_paper():
    ours = row("clevr_change", "total", "SCORER+CBR")
    assert ours.values == {
        "BLEU-4": 0.563,
        "METEOR": 0.412,
        "ROUGE-L": 0.745,
        "CIDEr-D": 1.268,
        "SPICE": 0.333,
    }
    assert ours.model == "scorer_cbr"
    assert "ICCV 2023" in ours.source
    assert row("clevr_change", "move", "SCORER+CBR").values["CIDEr-D"] == 0.922
    assert row("clevr_change", "move", "DIRL+CCR").values["METEOR"] == 0.335
    assert row("clevr_dc", "total", "DIRL+CCR").values["METEOR"] == 0.323
    assert row("spot_the_diff", "total", "VARD-Trans").values["BLEU-4"] is None
    assert row("birds_to_words", "total", "DUDA").values["CIDEr-D"] == 0.046
    assert "ablation" in row("clevr_change", "change", "SCORER").note


def test_what_differs_from_the_papers_own_row(settings):
    ours = row("clevr_change", "total", "SCORER+CBR")
    assert differs(ours, settings) == ["resize: opencv_bicubic, ours pil_bicubic"]
    assert differs(ours, settings, 7970) == ["resize: opencv_bicubic, ours pil_bicubic"]
    assert "test pairs: 7970, ours 80" in differs(ours, settings, 80)
    other = settings.model_copy(
        update={
            "features": settings.features.model_copy(
                update={"weights": "w.pth", "backbone": "resnet18", "stride": 32}
            ),
            "train": settings.train.model_copy(update={"iterations": 100, "batch": 8, "learning_rate": 0.1}),
        }
    )
    assert differs(ours, other) == [
        "network: ResNet-101, ours resnet18",
        "stride: 16, ours 32",
        "resize: opencv_bicubic, ours pil_bicubic",
        "weights: imagenet, ours w.pth",
        "iterations: 10000, ours 100",
        "batch: 128, ours 8",
        "learning rate: 0.0002, ours 0.1",
    ]


def test_what_a_paper_does_not_say_is_said_to_be_so(settings):
    assert differs(row("clevr_change", "total", "DUDA", "ICCV"), settings) == [
        "not stated: network, stride, size, resize, weights, iterations, batch, learning rate"
    ]
    found = differs(row("clevr_change", "color", "CLIP4IDC"), settings, 400)
    assert found == ["not stated: resize, test pairs"]


def test_a_model_of_pixels_has_conditions_of_its_own(settings):
    """CLIP4IDC is held against its own settings, not against the backbone's."""
    own = row("clevr_change", "total", "CLIP4IDC")
    assert differs(own, settings, 7970) == ["not stated: resize"]
    of_clevr = settings.dataset["clevr_change"]
    small = of_clevr.model_copy(
        update={
            "own": {"clip": of_clevr.own["clip"].model_copy(update={"start": None})},
            "features": of_clevr.features.model_copy(update={"pixels": (96, 144)}),
        }
    )
    other = settings.model_copy(update={"dataset": {"clevr_change": small}})
    assert differs(own, other)[:2] == ["size: 224, ours 96 x 144", "weights: clip, ours random"]


def test_idc_pcls_rows_are_held_against_its_own_settings(settings):
    """Of an ablation, too, which names no model: its phase's iterations, batch and rate, not all models'."""
    for method in ("IDC-PCL", "IDC-PCL with MLM"):
        found = differs(row("clevr_change", "total", method), settings, 7970)
        assert not [each for each in found if each.split(":")[0] in ("iterations", "batch", "learning rate")]
        of_clevr = settings.dataset["clevr_change"]
        others = settings.model_copy(
            update={"dataset": {"clevr_change": of_clevr.model_copy(update={"own": {}})}}
        )
        assert "batch: 100, ours 128" in differs(row("clevr_change", "total", method), others, 7970)


def test_published_retrieval():
    of_clevr, *splits = paper_results.retrieval("clevr_change", FOLDER)
    assert (of_clevr.model, of_clevr.text_to_pair["R@1"], of_clevr.pair_to_text["R@10"]) == (
        "clip4idc",
        0.268,
        0.866,
    )
    assert [own.method for own in splits] == [f"CLIP4IDC {n}/{12 - n}" for n in range(6, 13)]
    assert all(own.ablation for own in splits)
    assert not of_clevr.ablation
    assert splits[-1].text_to_pair["MdR"] == 419
    assert paper_results.retrieval("tabletop", FOLDER) == []
    assert [
        len(paper_results.retrieval(name, FOLDER)) for name in ("spot_the_diff", "image_editing_request")
    ] == [1, 1]


def test_another_tokeniser_is_told_where_a_paper_names_it(settings):
    ours = row("birds_to_words", "total", "IDC-PCL")
    assert "tokeniser: none, ours ptb" in differs(ours, settings)
    as_theirs = settings.model_copy(update={"score": settings.score.model_copy(update={"tokeniser": "none"})})
    assert not [said for said in differs(ours, as_theirs) if "tokeniser" in said]
    assert "tokeniser: none, ours ptb" in differs(row("clevr_change", "no_change", "IDC-PCL"), settings)
    assert row("clevr_change", "no_change", "IDC-PCL").values["CIDEr-D"] == 1.45


def test_a_protocol_that_ours_does_not_name(settings):
    of_clevr = settings.dataset["clevr_change"]
    everything = settings.model_copy(update={"dataset": {"spot_the_diff": of_clevr}})
    found = differs(row("spot_the_diff", "total", "SCORER+CBR"), everything)
    assert "protocol: single_change, ours not stated" in found
    assert "batch: 32, ours 128" in found


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
        ({"conditions": {"a": {"bach": 3}}}, "unknown key conditions.a.bach"),
        ({"rows": {"moved": [ROW]}}, "rows.moved: Input should be 'total'"),
        ({"rows": {"total": [ROW, ROW]}}, "rows.total: M of a appears twice"),
        ({"rows": {"total": [ROW | {"CIDEr": 3.0}]}}, "unknown key rows.total.0.CIDEr"),
        (
            {"rows": {"total": [ROW | {"METEOR": "30"}]}},
            "rows.total.0.METEOR: Input should be a valid number",
        ),
        ({"rows": {"total": [ROW | {"METEOR": -1.0}]}}, "rows.total.0.METEOR: Input should be greater"),
        (
            {
                "retrieval": [
                    {"method": "M", "source": "b", "text_to_pair": {"R@1": 1.0}, "pair_to_text": {"R@1": 1.0}}
                ]
            },
            "retrieval: M names the unknown source b",
        ),
        ({"rows": {"total": [ROW | {"METEOR": None}]}}, "rows.total.0: reports no score"),
    ],
)
def test_a_file_that_is_wrong_is_one_line(tmp_path, wrong, said):
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
