"""commands.retrieve writes figures, ranks and examples; stages.decode writes the encoder's attention."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from models import build
from models.clip4idc.encoders import ClipSizes
from pipeline.config import recipe_file
from pipeline.config.recipe_file import Recipe
from pipeline.datasets.schema import of_split, write_pairs
from pipeline.decoding import attention_maps
from pipeline.features.store import FeatureStore
from pipeline.scoring.retrieval import similarities
from pipeline.text import vocabularies
from pipeline.weights import trained_model
from pipeline.weights.model_description import Trained
from tests.running import refuse, set_params, succeed

SIZES = {"patch": 8, "width": 8, "heads": 2, "intra": 1, "inter": 1, "text_width": 8, "text_heads": 2}
SIZES |= {"text_layers": 1, "context": 16, "joint": 8, "caption_heads": 2, "caption_layers": 1}
SETTINGS = {"dropout": 0.1, "coef_lr": 1.0, "temperature": 0.07}
COMMAND = "retrieve --pretrained pretrained --pairs pairs.jsonl --vocab vocab.json --features stores --out r"


@pytest.fixture(scope="module")
def lab(prepared, pixels, tmp_path_factory):
    """Pixels, pairs, vocabulary, and random weights of both phases."""
    folder = tmp_path_factory.mktemp("lab")
    (folder / "stores").symlink_to(Path(pixels.store.location.name).parent)
    write_pairs(folder / "pairs.jsonl", prepared.pairs)
    vocabularies.save(folder / "vocab.json", prepared.vocabulary, {})
    words = len(prepared.vocabulary), prepared.vocabulary.longest
    for name, phase in (("pretrained", "adapt"), ("weights", "train")):
        own = SETTINGS, SIZES, {}, {phase: {}}, {"input": "pixels"}, {}
        recipe = Recipe("tabletop", "clip4idc", *own)
        sizes = recipe.sizes_for((3, 16, 24), *words)
        torch.manual_seed(0)
        trained = Trained(recipe, 1, (3, 16, 24), *words, 1, 0.5)
        trained_model.save(folder / name, trained, recipe_file.build(recipe, sizes).state_dict())
    return folder


def test_ranks_and_examples_are_those_of_the_similarities(lab, prepared):
    succeed(lab, COMMAND)
    pairs = [pair for pair in of_split(prepared.pairs, "test") if pair.changed]
    torch.manual_seed(0)
    sizes = ClipSizes(3, (16, 24), len(prepared.vocabulary), prepared.vocabulary.longest, **SIZES)
    model = build("clip4idc", sizes, SETTINGS, "adapt")
    store = FeatureStore(lab / "stores/pixels.zarr", {})
    found = similarities(model, pairs, store, prepared.vocabulary, 256).numpy()
    lines = [json.loads(line) for line in (lab / "r/retrieved.jsonl").read_text().splitlines()]
    assert [line["pair_id"] for line in lines] == [pair.pair_id for pair in pairs]
    assert [line["scene_id"] for line in lines] == [pair.scene_id for pair in pairs]
    assert [len(line["text_to_pair"]) for line in lines] == [len(pair.captions) for pair in pairs]
    owner = np.repeat(np.arange(len(pairs)), [len(pair.captions) for pair in pairs])
    least = 1 + (found > found[np.arange(len(owner)), owner][:, None]).sum(1)
    ranked = np.concatenate([line["text_to_pair"] for line in lines])
    assert ((least <= ranked) & (ranked <= len(pairs))).all()
    record = json.loads((lab / "r/retrieval.json").read_text())
    assert record["text_to_pair"]["R@1"] == pytest.approx((ranked <= 1).mean(), abs=1e-4)
    assert record["pair_to_text"]["MnR"] == pytest.approx(np.mean([line["pair_to_text"] for line in lines]))


def test_a_split_without_changes_is_refused(lab, prepared, tmp_path):
    still = [replace(pair, change_type="none") for pair in prepared.pairs]
    write_pairs(tmp_path / "still.jsonl", still)
    command = COMMAND.replace("pairs.jsonl", str(tmp_path / "still.jsonl")).replace("--out r", "--out none")
    refuse(lab, command, "has no pair of the split test where something changed")
    assert not list(lab.glob("none*"))


def test_captions_have_the_attention_of_the_encoder(lab, prepared, monkeypatch):
    set_params(lab)
    monkeypatch.setattr("stages.decode.ALIGNED", 3)
    command = "decode --weights weights --pairs pairs.jsonl --vocab vocab.json --features stores"
    succeed(lab, f"{command} --out c.json --attention a.npz")
    found = attention_maps.read(lab / "a.npz")
    shown = {pair: own.blocks for pair, own in found.items() if own.blocks}
    assert len(shown) == 3 < len(found)
    for blocks in shown.values():
        assert {name: maps.shape for name, maps in blocks.items()} == dict.fromkeys(
            ("block 1", "block 2"), (2, 2, 3)
        )
