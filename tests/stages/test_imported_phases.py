"""The stages recipe, pretrain and train of a run whose weights were imported, for one phase or for both."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch

from pipeline.cli import phase_run
from pipeline.config import params
from pipeline.config.store_contents import pixel_spec, spec
from pipeline.datasets.schema import Pair, images_of, write_pairs
from pipeline.features.writer import Writer
from pipeline.text import vocabularies
from pipeline.text.vocabularies import ClipVocabulary
from pipeline.training.phases import PhaseInputs
from stages import pretrain as pretrain_stage
from tests import project_params, released
from tests.exchanges import flip
from tests.running import refuse, succeed

DATASET = "clevr_change"
PAIRS = [Pair(f"p{n}", f"s{n}", "test", f"{n}a", f"{n}b", ("a b c",)) for n in range(2)]
SETTINGS = {
    "idc_pcl": {"features__stride": 32, "dataset__clevr_change__models__idc_pcl__sizes__pool": 1},
    "clip4idc": {
        "dataset__clevr_change__features__pixels": [16, 16],
        "dataset__clevr_change__models__clip__sizes__patch": 8,
        "text__tokeniser": "clip_bpe",
    },
}
OPTIONS = {"idc_pcl": "--heads 2 --longest 12", "clip4idc": "--intra 2"}
PRETRAINING = {"idc_pcl": "pretrain", "clip4idc": "adapt"}


class Run:
    """The stages of a run in a folder; `trained` lists the phases that were trained."""

    def __init__(self, folder, model, monkeypatch):
        self.folder, self.model, self.trained = folder, model, []
        self.imported = f"data/imported/{DATASET}/{model}/1"
        self.recipes = f"data/recipes/{DATASET}/{model}/1"
        self.pretrained = f"{self.recipes}/pretrained"
        self.weights = f"data/weights/{DATASET}/{model}/1"
        project_params.write(folder, **SETTINGS[model])
        settings = params.load(folder / "params.yaml")
        if model == "idc_pcl":
            shape, kind, made = (2048, 7, 7), "float16", spec(settings.features, settings.of(DATASET))
            (folder / "vocab.json").write_text(json.dumps(released.PCL_IDS))
            words = vocabularies.fixed(folder / "vocab.json", [], lower_case=False)
        else:
            shape, kind, made = (3, 16, 16), "uint8", pixel_spec(settings.features, settings.of(DATASET))
            words = ClipVocabulary(9)
        vocabularies.save(folder / "ours.json", words, {})
        if model == "clip4idc":
            vocabularies.save(folder / "vocab.json", words, {})
        write_pairs(folder / "pairs.jsonl", PAIRS)
        keys = images_of(PAIRS)
        writer = Writer(folder / "scratch", len(keys), shape, kind)
        writer.write(0, np.ones((len(keys), *shape), kind))
        writer.finish(folder / f"features/{made.input}.zarr", {"keys": keys, **asdict(made)})
        monkeypatch.setattr(phase_run, "run_phases", lambda name, *_, **__: self.trained.append(name))
        monkeypatch.setattr(pretrain_stage, "phase_inputs", lambda *_: PhaseInputs())

    def bring_in(self, phase):
        case = f"{self.model} {PRETRAINING[self.model] if phase == 'pretrain' else None}"
        flat = released.tensors(released.CASES[case])
        torch.save(released.tree(flat), self.folder / "their.pt")
        succeed(self.folder, f"import_checkpoint their.pt --vocab vocab.json {OPTIONS[self.model]}")

    def start(self):
        return (
            f"recipe --dataset {DATASET} --model {self.model} --out r.yaml --pretrain r.pretrain.yaml "
            f"--features features --imported {self.imported} --weights {self.weights} "
            f"--inputs {self.recipes}/inputs.json"
        )

    def stages(self):
        """Run the three stages; return the imported weights that inputs.json names."""
        succeed(self.folder, self.start())
        inputs = f"--pairs pairs.jsonl --vocab ours.json --features features --imported {self.imported}"
        for command in (
            f"pretrain --recipe r.pretrain.yaml --weights {self.pretrained} --curves c/pretrain",
            f"train --recipe r.yaml --weights {self.weights} --curves c/train --start-from {self.recipes} "
            "--tokens plain",
        ):
            succeed(self.folder, f"{command} --seed 1 {inputs} --provenance p.json")
        return self.inputs().get("imported", {})

    def inputs(self):
        return json.loads((self.folder / self.recipes / "inputs.json").read_text())


@pytest.fixture(params=SETTINGS)
def run(request, tmp_path, monkeypatch):
    return Run(tmp_path, request.param, monkeypatch)


@pytest.mark.parametrize("phases", [("pretrain",), ("train",), ("pretrain", "train")])
def test_imported_phases_are_copied_and_the_others_trained(run, phases):
    for phase in phases:
        run.bring_in(phase)
    assert {*run.stages()} == {*phases}
    assert run.trained == (["train"] if phases == ("pretrain",) else [])
    for phase, place in (("pretrain", run.pretrained), ("train", run.weights)):
        if phase in phases:
            kept = run.folder / run.imported / phase / "weights"
            for name in ("model.yaml", "weights.safetensors"):
                assert (run.folder / place / name).read_bytes() == (kept / name).read_bytes()
    if "pretrain" not in phases:
        assert list((run.folder / run.pretrained).iterdir()) == []
    assert json.loads((run.folder / "p.json").read_text())["checkpoint"] == "their.pt"


def test_other_imported_weights_change_inputs_json(run):
    run.bring_in("train")
    succeed(run.folder, run.start())
    before = run.inputs()
    flip(f"{run.imported}/train/weights/weights.safetensors")(run.folder)
    succeed(run.folder, run.start())
    assert run.inputs() != before


@pytest.mark.parametrize("phase", ["pretrain", "train"])
def test_the_only_copy_of_imported_weights_is_not_replaced(run, phase):
    run.bring_in(phase)
    place = run.folder / (run.pretrained if phase == "pretrain" else run.weights)
    place.parent.mkdir(parents=True)
    (run.folder / run.imported / phase / "weights").rename(place)
    (run.folder / run.imported / phase).rename(run.folder / "elsewhere")
    refuse(run.folder, run.start(), f"{place.relative_to(run.folder)} holds imported weights")
