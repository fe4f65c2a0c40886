"""What a package says of its scores, and what of a package or of a picture's features is refused."""

import json
import shutil
from copy import copy
from dataclasses import asdict

import pytest
import torch
import yaml

from pipeline.captioning import package, sources
from pipeline.captioning.feature_backbone import Made
from pipeline.io.content_hashes import with_hashes
from pipeline.io.errors import InputError
from pipeline.scoring import run_files
from pipeline.scoring.results import summary
from pipeline.weights import trained_model
from tests.backbones import write_tiny
from tests.forged import forge
from tests.running import succeed
from tests.small_lab import add_weights
from tests.stage_commands import INPUTS

WEIGHTS = "data/weights/tabletop/scorer_cbr/1"
CELLS = "results/cells/tabletop/scorer_cbr"
SCORES = {1: {"CIDEr-D": 0.9, "change_accuracy": 0.85}, 3: {"CIDEr-D": 0.8, "change_accuracy": None}}


def decode(folder, seed):
    """The captions that the stage decode writes, with few pairs in the test split."""
    cell = folder / CELLS / str(seed)
    inputs = f"--weights data/weights/tabletop/scorer_cbr/{seed} {INPUTS}"
    succeed(folder, f"decode {inputs} --out {cell}/captions.json --attention {cell}/attention.npz")
    return json.loads((cell / "captions.json").read_text())


def write_scores(cell, captions, own):
    """What the stage score would write: each caption has half of all points."""
    lines = [{"pair_id": each["image_id"], "caption": each["caption"], "ROUGE-L": 0.5} for each in captions]
    (cell / "pairs.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    total = {"CIDEr-D": own["CIDEr-D"], "ROUGE-L": 0.5}
    metrics = {"total": total} | (
        {"change_accuracy": own["change_accuracy"]} if own["change_accuracy"] else {}
    )
    files = {"captions": "captions.json", "attention": "attention.npz", "per_pair": "pairs.jsonl"}
    hashes = run_files.hashes_of_scored({name: cell / file for name, file in files.items()})
    (cell / "metrics.json").write_text(json.dumps(with_hashes(metrics, hashes)))
    (cell / "summary.json").write_text(json.dumps(summary(metrics)))


@pytest.fixture(scope="module")
def once(lab, tmp_path_factory):
    """A laboratory with the scores of two seeds."""
    folder = shutil.copytree(lab, tmp_path_factory.mktemp("scored") / "lab")
    add_weights(folder, "scorer_cbr", 3)
    for seed, own in SCORES.items():
        write_scores(folder / CELLS / str(seed), decode(folder, seed), own)
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
    assert "For 15 % of the test pairs" in card
    assert "## Licence\n\na licence of its own" in card
    assert scores["own"] == SCORES[1] | {"ROUGE-L": 0.5}
    assert set(scores["seeds"]) == {"1", "3"}
    captions = json.loads((scored / CELLS / "1/captions.json").read_text())
    assert scores["sample"] == {each["image_id"]: each["caption"] for each in captions}
    assert scores["rendered"]["viewpoint"]


def test_the_card_says_first_what_is_true_by_kind(scored, tmp_path):
    """And nothing of it where that is not known."""
    before, scores = packed(scored, tmp_path / "before")
    assert scores["truth"] == {}
    assert "true" not in before.split("## Scores")[1]
    own = {"change": (0.3, 0.5), "no_change": (0.98, 0.98), "add": (0.7, 0.9), "color": (0.1, None)}
    metrics = {
        name: {"CIDEr-D": 0.9, "true": true, "fits": fits, "agrees": None}
        for name, (true, fits) in own.items()
    }
    metrics |= {"total": {"CIDEr-D": 0.9, "ROUGE-L": 0.5, "true": 0.6}}
    (scored / CELLS / "1/metrics.json").write_text(json.dumps(metrics))
    (scored / CELLS / "1/summary.json").write_text(json.dumps(summary(metrics)))
    card, scores = packed(scored, tmp_path / "after")
    assert scores["truth"]["color"] == {"true": 0.1}
    assert set(scores["truth"]) == {"change", "color", "add", "no_change"}
    first = card.split("## Scores\n\n")[1].splitlines()
    assert first[:4] == [
        "| captions of this file, percent | all changes | color | add | no change |",
        "| --- | --- | --- | --- | --- |",
        "| true | 30.0 | 10.0 | 70.0 | 98.0 |",
        "| true or ambiguous | 50.0 | – | 90.0 | 98.0 |",
    ]
    assert first[7] == "| true, changed | 30.0 | no sd: one seed |"
    assert "- 70 % of its captions of changed test pairs are false." in card


def test_one_seed_is_no_evidence_and_none_is_not_scored(scored, tmp_path):
    shutil.rmtree(scored / CELLS / "3")
    assert "Seeds: 1. One seed does not show" in packed(scored, tmp_path / "one")[0]
    shutil.rmtree(scored / CELLS)
    card, scores = packed(scored, tmp_path / "none")
    assert "This run was not scored." in card
    assert "test pairs" not in card.split("## Limits")[1]
    assert (scores["own"], scores["seeds"], scores["sample"]) == (None, {}, {})


def exchanged(name, place):
    """The file of the other seed."""
    return lambda lab: shutil.copyfile(lab / place / "3" / name, lab / place / "1" / name)


def random_weights(lab):
    shutil.rmtree(lab / WEIGHTS)
    shutil.copytree(lab / "data/weights/tabletop/scorer_cbr/3", lab / WEIGHTS)
    record = (lab / WEIGHTS / "model.yaml").read_text()
    (lab / WEIGHTS / "model.yaml").write_text(record.replace("seed: 3", "seed: 1"))
    forge(lab / WEIGHTS)


def numbers(name):
    """Scores that nobody counted."""

    def change(lab):
        file = lab / CELLS / "1" / name
        file.write_text(file.read_text().replace("0.5", "0.6"))

    return change


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (random_weights, "weights.safetensors"),
        (exchanged("attention.npz", CELLS), "attention.npz"),
        (exchanged("captions.json", CELLS), "captions.json"),
        (exchanged("pairs.jsonl", CELLS), "pairs.jsonl"),
        (exchanged("summary.json", CELLS), "summary.json"),
        (exchanged("weights.safetensors", "data/weights/tabletop/scorer_cbr"), "weights.safetensors"),
        (numbers("pairs.jsonl"), "metrics.json"),
        (numbers("metrics.json"), "metrics.json"),
        (numbers("summary.json"), "summary.json"),
    ],
)
def test_weights_get_no_scores_of_others(scored, tmp_path, change, named):
    change(scored)
    with pytest.raises(InputError, match=named):
        package.write(scored / WEIGHTS, scored, tmp_path / "out", "")
    assert not (tmp_path / "out").exists()


def test_scores_of_another_seed_are_left_out_where_its_weights_are_others(scored, tmp_path, capsys):
    shutil.copyfile(scored / CELLS / "1/attention.npz", scored / CELLS / "3/attention.npz")
    assert set(packed(scored, tmp_path / "out")[1]["seeds"]) == {"1"}
    assert "note: the scores of seed 3 are left out" in capsys.readouterr().err


@pytest.fixture
def of_a_file(lab, tmp_path, monkeypatch):
    """A package's folder whose backbone is a file's, and what its weights were trained on."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "package"
    package.write(lab / WEIGHTS, lab, folder, "")
    record = folder / "model.yaml"
    record.write_text(record.read_text().replace("weights: imagenet", "weights: backbone.safetensors"))
    forge(folder)
    return folder, trained_model.load(folder)[1]


def say(folder, made):
    (folder / "features.yaml").write_text(yaml.safe_dump(asdict(made)))


def refused(folder, trained):
    with pytest.raises(InputError) as error:
        sources.backbone(folder, folder, trained, folder)
    return str(error.value)


@pytest.mark.parametrize("carried", [True, False])
def test_a_file_of_other_weights_is_refused(of_a_file, tmp_path, carried):
    folder, trained = of_a_file
    say(folder, Made("sha256:0", "float32", carried=carried))
    place = folder if carried else tmp_path
    write_tiny(place / "backbone.safetensors", name="tf_efficientnet_lite0")
    said = refused(folder, trained)
    assert "backbone.safetensors holds sha256:" in said
    assert "package was made with features of sha256:0: bring the weights that made them" in said


def test_features_that_overflow_name_the_picture(here):
    features = copy(here.features)
    features.network = lambda images: torch.full((len(images), 4, 2, 2), 1e5)
    image = here.features.squashed(torch.zeros(8, 8, 3, dtype=torch.uint8).numpy())
    with pytest.raises(InputError, match=r"the features of it\.png overflow float16"):
        features.grids([image], ["it.png"])
