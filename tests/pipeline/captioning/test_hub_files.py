"""Packages as hubs of models have them: read in both forms, renewed, and with a card that a hub parses."""

import json
import shutil

import pytest
import yaml

from pipeline.captioning import PictureCaptioner, hub_files, package
from pipeline.io import front_matter
from pipeline.weights import trained_model
from tests.running import ROOT, refuse, succeed

SHIPPED = ROOT / "demo/clip4idc"
SAMPLE = [ROOT / f"docs/sample/{name}.png" for name in ("before", "after")]


def earlier(place):
    """The package as earlier versions wrote it."""
    (place / "model.safetensors").rename(place / "weights.safetensors")
    (place / "config.json").unlink()
    card = place / "README.md"
    card.write_text(front_matter.without(card.read_text()))
    return place


@pytest.fixture
def place(tmp_path):
    return shutil.copytree(SHIPPED, tmp_path / "package")


@pytest.fixture(scope="module")
def caption():
    return PictureCaptioner.load(SHIPPED)(*SAMPLE)


def test_the_earlier_form_loads_and_is_renewed_to_the_shipped_bytes(place, tmp_path, caption):
    old = earlier(place)
    assert not (old / "README.md").read_text().startswith("---")
    assert PictureCaptioner.load(old)(*SAMPLE) == caption
    succeed(tmp_path, "export --weights package --out new")
    names = {path.name for path in SHIPPED.iterdir()}
    assert {path.name for path in (tmp_path / "new").iterdir()} == names
    for name in names - {".made.json"}:
        assert (tmp_path / "new" / name).read_bytes() == (SHIPPED / name).read_bytes(), name
    shutil.make_archive(str(tmp_path / "old"), "zip", old)
    succeed(tmp_path, "export --weights old.zip --out new.zip --licence-id cc-by-4.0")
    assert PictureCaptioner.load(tmp_path / "new.zip")(*SAMPLE) == caption


def test_exported_weights_have_the_form_and_the_captions_of_the_lab(lab, here, tmp_path):
    weights = lab / "data/weights/tabletop/scorer_cbr/1"
    out = tmp_path / "out"
    package.write(weights, lab, out, "a sentence", licence_id="cc-by-4.0")
    assert (out / "model.safetensors").read_bytes() == (weights / "weights.safetensors").read_bytes()
    assert not (out / "weights.safetensors").exists()
    assert PictureCaptioner.load(out)(*SAMPLE) == here(*SAMPLE)
    config = json.loads((out / "config.json").read_text())
    assert (config["architectures"], config["dataset"]) == (["scorer_cbr"], "tabletop")
    assert config["weights_sha256"] == here.trained.hashes["weights"]
    head = yaml.safe_load((out / "README.md").read_text().split("---\n")[1])
    assert head["license"] == "cc-by-4.0"
    assert "model-index" not in head  # it was not scored


def test_hubs_parse_the_front_matter():
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    own = json.loads((SHIPPED / "scores.json").read_text())
    card = hub.ModelCard.load(SHIPPED / "README.md")
    assert hub.metadata_load(SHIPPED / "README.md")["pipeline_tag"] == "image-to-text"
    assert (card.data.license, card.data.datasets) == ("mit", ["tabletop"])
    values = {result.metric_name: result.metric_value for result in card.data.eval_results}
    assert values["CIDEr-D"] == pytest.approx(100 * own["own"]["CIDEr-D"], abs=0.005)
    assert values["true, changed"] == pytest.approx(100 * own["own"]["true_changes"], abs=0.005)
    assert values["true, unchanged"] == pytest.approx(100 * own["truth"]["no_change"]["true"], abs=0.005)
    first = card.data.eval_results[0]
    assert (first.task_type, first.dataset_type, first.dataset_split) == ("image-to-text", "tabletop", "test")
    assert card.text.strip() == front_matter.without((SHIPPED / "README.md").read_text()).strip()


def test_the_shipped_files_say_what_model_yaml_says():
    _, trained = trained_model.load(SHIPPED)
    assert json.loads((SHIPPED / "config.json").read_text()) == hub_files.config(trained)


def test_keys_of_later_versions_are_no_contradiction(place, caption):
    config = json.loads((place / "config.json").read_text())
    del config["settings"]
    (place / "config.json").write_text(json.dumps(config | {"later": [1]}))
    assert PictureCaptioner.load(place)(*SAMPLE) == caption


def test_what_only_training_has_is_refused_for_a_package(place, tmp_path):
    for option in ("--licence mine", "--with-backbone"):
        refuse(tmp_path, f"export --weights package --out new {option}", "package is a package")
    (place / "scores.json").unlink()
    refuse(tmp_path, "export --weights package --out new", "lacks scores.json")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("text", ["", "# a\n", "---\na: 1\n---\n\n# a\n---\nb\n---\n"])
def test_a_front_matter_is_removed_whole_and_nothing_else(text):
    made = front_matter.text({"a": [1, "off"]}) + "\n# text\n---\nmore\n"
    assert front_matter.without(made) == "# text\n---\nmore\n"
    assert front_matter.without(text) in ("", "# a\n", "# a\n---\nb\n---\n")


def test_licences_are_identifiers_of_hubs_or_have_a_name():
    assert front_matter.licence("MIT") == {"license": "mit"}
    assert front_matter.licence("Our Terms") == {"license": "other", "license_name": "Our Terms"}
