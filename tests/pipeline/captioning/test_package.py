"""Exported packages: files for hubs, scores on the card, scores that are refused, backbones of a file."""

import json
import shutil
from copy import copy

import pytest
import torch
import yaml

from pipeline.captioning import PairCaptioner, package
from pipeline.datasets.schema import read_pairs
from pipeline.io import front_matter
from pipeline.io.content_hashes import with_hashes
from pipeline.io.errors import InputError
from pipeline.scoring import run_files
from pipeline.scoring.metric_names import summary
from pipeline.weights import trained_model
from tests.backbones import TINY, write_tiny
from tests.forged import forge
from tests.running import ROOT, set_params, succeed
from tests.small_lab import STAGES, add_weights
from tests.stage_commands import INPUTS, PAIRS

SHIPPED = ROOT / "demo/clip4idc"
BACKBONE = "data/backbone.safetensors"
SAMPLE = [ROOT / f"docs/sample/{name}.png" for name in ("before", "after")]
WEIGHTS = "data/weights/tabletop/scorer_cbr/1"
RUNS = "results/runs/tabletop/scorer_cbr"
SCORES = {1: {"CIDEr-D": 0.9, "change_accuracy": 0.85}, 3: {"CIDEr-D": 0.8, "change_accuracy": None}}

STATED = {
    "scored": {
        "pairs": 4,
        "left_out": 0,
        "left_out_because": None,
        "references": "r.json",
        "references_sha256": "0" * 64,
    },
    "repetition": {
        "pairs": 4,
        "distinct": 4,
        "commonest": "a *ball* <moved>",
        "share": 0.25,
        "without_words": 0,
    },
    "distinct_captions": 4,
}


def decode(folder, seed):
    """Run the stage decode; return its captions."""
    run_folder = folder / RUNS / str(seed)
    inputs = f"--weights data/weights/tabletop/scorer_cbr/{seed} {INPUTS}"
    succeed(
        folder, f"decode {inputs} --out {run_folder}/captions.json --attention {run_folder}/attention.npz"
    )
    return json.loads((run_folder / "captions.json").read_text())


def write_scores(run_folder, captions, own):
    """Write what the stage score would write. Each caption has a ROUGE-L of 0.5."""
    lines = [{"pair_id": each["image_id"], "caption": each["caption"], "ROUGE-L": 0.5} for each in captions]
    (run_folder / "pairs.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    total = {"CIDEr-D": own["CIDEr-D"], "ROUGE-L": 0.5}
    metrics = (
        {"total": total}
        | STATED
        | ({"change_accuracy": own["change_accuracy"]} if own["change_accuracy"] else {})
    )
    files = {"captions": "captions.json", "attention": "attention.npz", "per_pair": "pairs.jsonl"}
    hashes = run_files.hashes_of_scored({name: run_folder / file for name, file in files.items()})
    (run_folder / "metrics.json").write_text(json.dumps(with_hashes(metrics, hashes)))
    (run_folder / "summary.json").write_text(json.dumps(summary(metrics)))


@pytest.fixture(scope="module")
def once(lab, tmp_path_factory):
    """A laboratory with the scores of two seeds."""
    folder = shutil.copytree(lab, tmp_path_factory.mktemp("scored") / "lab")
    add_weights(folder, "scorer_cbr", 3)
    for seed, own in SCORES.items():
        write_scores(folder / RUNS / str(seed), decode(folder, seed), own)
    return folder


@pytest.fixture
def scored(once, tmp_path):
    return shutil.copytree(once, tmp_path / "lab")


def packed(lab, out):
    package.write(lab / WEIGHTS, lab, out, "a licence of its own")
    return (out / "README.md").read_text(), json.loads((out / "scores.json").read_text())


def test_the_card_has_this_seeds_scores_and_the_spread(scored, tmp_path):
    card, scores = packed(scored, tmp_path / "out")
    assert "| CIDEr-D | 90.0 | 85.0 ± 7.1 |" in card
    assert "| change accuracy | 85.0 | no sd: one seed |" in card
    assert "SPICE" not in card, "it was not computed"
    assert "Seeds: 1, 3.\n" in card
    assert "## Licence\n\na licence of its own" in card
    assert scores["own"].items() >= (SCORES[1] | {"ROUGE-L": 0.5, "pairs": 4}).items()
    assert set(scores["seeds"]) == {"1", "3"}
    captions = json.loads((scored / RUNS / "1/captions.json").read_text())
    assert scores["sample"] == {each["image_id"]: each["caption"] for each in captions}
    assert scores["rendered"]["viewpoint"]


def test_the_card_has_truth_by_kind_of_change(scored, tmp_path):
    own = {"change": (0.3, 0.5), "no_change": (0.98, 0.98), "add": (0.7, 0.9), "color": (0.1, None)}
    metrics = {
        name: {"CIDEr-D": 0.9, "true": true, "fits": fits, "agrees": None}
        for name, (true, fits) in own.items()
    }
    metrics |= STATED | {"total": {"CIDEr-D": 0.9, "ROUGE-L": 0.5, "true": 0.6, "true/changed": 0.3}}
    path = scored / RUNS / "1/metrics.json"
    hashes = {key: value for key, value in json.loads(path.read_text())["hashes"].items() if key != "record"}
    path.write_text(json.dumps(with_hashes(metrics, hashes)))
    (scored / RUNS / "1/summary.json").write_text(json.dumps(summary(metrics)))
    card, scores = packed(scored, tmp_path / "after")
    assert scores["truth"]["color"] == {"true": 0.1}
    assert set(scores["truth"]) == {"change", "color", "add", "no_change"}
    assert card.split("## Scores\n\n")[1].splitlines()[:4] == [
        "| captions of this file, percent | all changes | color | add | no change |",
        "| --- | --- | --- | --- | --- |",
        "| true | 30.0 | 10.0 | 70.0 | 98.0 |",
        "| true or ambiguous | 50.0 | – | 90.0 | 98.0 |",
    ]
    assert "| true/changed | 30.0 | no sd: one seed |" in card


def test_a_card_of_one_seed_and_a_card_without_scores(scored, tmp_path):
    shutil.rmtree(scored / RUNS / "3")
    assert "Seeds: 1. One seed does not show" in packed(scored, tmp_path / "one")[0]
    shutil.rmtree(scored / RUNS)
    card, scores = packed(scored, tmp_path / "none")
    assert "This run was not scored." in card
    assert "model-index" not in card
    assert (scores["own"], scores["truth"], scores["seeds"], scores["sample"]) == (None, {}, {}, {})


def exchanged(name, place):
    """Copy the file of the other seed."""
    return lambda lab: shutil.copyfile(lab / place / "3" / name, lab / place / "1" / name)


def other_weights(lab):
    shutil.rmtree(lab / WEIGHTS)
    shutil.copytree(lab / "data/weights/tabletop/scorer_cbr/3", lab / WEIGHTS)
    record = (lab / WEIGHTS / "model.yaml").read_text()
    (lab / WEIGHTS / "model.yaml").write_text(record.replace("seed: 3", "seed: 1"))
    forge(lab / WEIGHTS)


def numbers(name):
    """Change a score in a file."""

    def change(lab):
        file = lab / RUNS / "1" / name
        file.write_text(file.read_text().replace("0.5", "0.6"))

    return change


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (other_weights, "weights.safetensors"),
        (exchanged("attention.npz", RUNS), "attention.npz"),
        (exchanged("captions.json", RUNS), "captions.json"),
        (exchanged("pairs.jsonl", RUNS), "pairs.jsonl"),
        (exchanged("summary.json", RUNS), "summary.json"),
        (numbers("pairs.jsonl"), "metrics.json"),
        (numbers("summary.json"), "summary.json"),
    ],
)
def test_scores_of_other_weights_or_captions_are_refused(scored, tmp_path, change, named):
    change(scored)
    with pytest.raises(InputError, match=named):
        package.write(scored / WEIGHTS, scored, tmp_path / "out", "")
    assert not (tmp_path / "out").exists()


def test_scores_of_another_seed_are_left_out_if_they_belong_to_other_weights(scored, tmp_path, capsys):
    shutil.copyfile(scored / RUNS / "1/attention.npz", scored / RUNS / "3/attention.npz")
    assert set(packed(scored, tmp_path / "out")[1]["seeds"]) == {"1"}
    assert "note: the scores of seed 3 are left out" in capsys.readouterr().err


def test_a_package_has_the_files_that_hubs_read_and_the_captions_of_the_laboratory(lab, here, tmp_path):
    out = tmp_path / "out"
    package.write(lab / WEIGHTS, lab, out, "a sentence", licence_id="cc-by-4.0")
    assert (out / "model.safetensors").read_bytes() == (lab / WEIGHTS / "weights.safetensors").read_bytes()
    assert PairCaptioner.load(out)(*SAMPLE) == here(*SAMPLE)
    config = json.loads((out / "config.json").read_text())
    assert (config["architectures"], config["dataset"]) == (["scorer_cbr"], "tabletop")
    assert config["weights_sha256"] == here.trained.hashes["weights"]
    assert yaml.safe_load((out / "README.md").read_text().split("---\n")[1])["license"] == "cc-by-4.0"
    with pytest.raises(InputError, match="is a package already"):
        package.write(out, lab, tmp_path / "x.zip", "")


def test_hubs_parse_the_shipped_package():
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    own = json.loads((SHIPPED / "scores.json").read_text())
    card = hub.ModelCard.load(SHIPPED / "README.md")
    assert hub.metadata_load(SHIPPED / "README.md")["pipeline_tag"] == "image-to-text"
    assert (card.data.license, card.data.datasets) == ("mit", ["tabletop"])
    values = {result.metric_name: result.metric_value for result in card.data.eval_results}
    assert values["CIDEr-D"] == pytest.approx(100 * own["own"]["CIDEr-D"], abs=0.005)
    assert values["true/changed"] == pytest.approx(100 * own["own"]["true/changed"], abs=0.005)
    assert values["true/unchanged"] == pytest.approx(100 * own["truth"]["no_change"]["true"], abs=0.005)
    trained = trained_model.load(SHIPPED)[1]
    assert json.loads((SHIPPED / "config.json").read_text()) == package.config(trained)


def test_licences_are_identifiers_of_hubs_or_have_a_name():
    assert front_matter.licence("MIT") == {"license": "mit"}
    assert front_matter.licence("Our Terms") == {"license": "other", "license_name": "Our Terms"}


def test_features_that_overflow_name_the_image(here):
    features = copy(here.features)
    features.network = lambda images: torch.full((len(images), 4, 2, 2), 1e5)
    image = here.features.squashed(torch.zeros(8, 8, 3, dtype=torch.uint8).numpy())
    with pytest.raises(InputError, match=r"the features of it\.png overflow float16"):
        features.grids([image], ["it.png"])


@pytest.fixture(scope="module")
def of_a_file(lab, tmp_path_factory):
    """Laboratory whose features are from a backbone of a file, and a folder of weights."""
    folder = tmp_path_factory.mktemp("file") / "lab"
    shutil.copytree(lab, folder, ignore=shutil.ignore_patterns("weights"))
    write_tiny(folder / BACKBONE)
    set_params(folder, features__backbone=TINY, dataset__tabletop__features__weights=BACKBONE)
    succeed(folder, STAGES[1])
    return folder, add_weights(folder, "scorer_cbr", shape=(176, 4, 4))


def first_captions(captioner, lab):
    pairs = read_pairs(lab / PAIRS)[:4]
    return [
        captioner(lab / "data/raw/tabletop" / pair.before, lab / "data/raw/tabletop" / pair.after)
        for pair in pairs
    ]


@pytest.mark.slow
def test_a_package_with_the_backbone_needs_nothing_else(of_a_file, tmp_path, monkeypatch):
    lab, weights = of_a_file
    monkeypatch.chdir(lab)
    wanted = first_captions(PairCaptioner.load(weights, lab), lab)
    package.write(weights, lab, tmp_path / "whole.zip", "a licence", with_backbone=True)
    package.write(weights, lab, tmp_path / "small.zip", "a licence")
    assert first_captions(PairCaptioner.load(tmp_path / "small.zip", tmp_path), lab) == wanted
    monkeypatch.chdir(tmp_path)  # without the backbone's file
    assert first_captions(PairCaptioner.load(tmp_path / "whole.zip", tmp_path), lab) == wanted
    with pytest.raises(InputError, match=r"data/backbone\.safetensors is missing"):
        PairCaptioner.load(tmp_path / "small.zip", tmp_path)
    (tmp_path / BACKBONE).parent.mkdir()
    write_tiny(tmp_path / BACKBONE, name="tf_efficientnet_lite0")
    with pytest.raises(InputError, match=r"backbone\.safetensors holds no weights"):
        PairCaptioner.load(tmp_path / "small.zip", tmp_path)


def test_scores_of_another_seed_are_left_out_if_they_are_of_other_references(scored, tmp_path, capsys):
    scope = {"pairs": 4, "left_out": 1, "left_out_because": "1 without a caption", "references": "r.json"}
    for seed in ("1", "3"):
        tree = json.loads((scored / RUNS / seed / "metrics.json").read_text())
        hashes = {key: value for key, value in tree.pop("hashes").items() if key != "record"}
        tree |= {"scored": scope | {"references_sha256": seed * 64}}
        repeated = {"pairs": 4, "distinct": 4, "commonest": "a *ball* <moved>", "share": 0.25}
        tree |= {"repetition": repeated | {"without_words": 0}}
        tree |= {"distinct_captions": 4}
        (scored / RUNS / seed / "metrics.json").write_text(json.dumps(with_hashes(tree, hashes)))
        (scored / RUNS / seed / "summary.json").write_text(json.dumps(summary(tree)))
    card, scores = packed(scored, tmp_path / "out")
    assert set(scores["seeds"]) == {"1"}
    assert "note: the scores of seed 3 are left out: they have another tokeniser" in capsys.readouterr().err
    assert "- 4 pairs scored; left out: 1 without a caption; references: r.json, sha256 111111111111…" in card
    assert "&lt;moved&gt;" in card
