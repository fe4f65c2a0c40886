"""The stages from images to captions and attention."""

import json
import shutil

import numpy as np
import pytest

from pipeline.decoding import attention_maps
from pipeline.features.store import FeatureStore
from pipeline.scoring.reversal import agreement, named
from tests import project_params
from tests.running import set_params, succeed
from tests.stage_commands import (
    DECODE,
    EXTRACT,
    IMAGES,
    MAKE_RECIPE,
    MAKE_VOCAB,
    PAIRS,
    PREPARE,
    STORE,
    train_with,
)


def test_ablations_from_recipe_to_attention(copy):
    """The decoder attends to each image separately."""
    switches = {"mtm": "max_pool", "fusion": "respective", "contrast": "distance"}
    chosen = {"model__scorer_cbr__switches": switches, "decode__beam": 3}
    set_params(copy, **chosen, dataset__tabletop__sizes__heads=8, dataset__tabletop__sizes__layers=3)
    shutil.rmtree(copy / "weights")
    for command in (MAKE_RECIPE, train_with(1, "weights/1"), DECODE):
        succeed(copy, command)
    assert (copy / "curves/weights/1/loss.csv").read_text().startswith("iteration,cap,cv,cbr\n")
    found = attention_maps.read(copy / "attention.npz")
    assert all(each.alignment is not None for each in found.values())
    assert all(each.maps.shape == (len(each.words), 1, 4, 4) for each in found.values())


def test_attention_belongs_to_the_captions(trained, monkeypatch):
    monkeypatch.setattr("stages.decode.ALIGNED", 3)
    succeed(trained, DECODE)
    captions = json.loads((trained / "captions.json").read_text())
    found = attention_maps.read(trained / "attention.npz")
    assert {pair: each.caption for pair, each in found.items()} == {
        c["image_id"]: c["caption"] for c in captions
    }
    aligned = [each.alignment for each in found.values() if each.alignment is not None]
    assert [alignment.shape for alignment in aligned] == [(16, 16)] * 3
    for alignment in aligned:
        np.testing.assert_allclose(alignment.sum(1, dtype=np.float64), 1, atol=0.005)


def test_the_seed_decides_the_weights_and_captions(trained):
    succeed(trained, train_with(1, "weights/again"))
    succeed(trained, train_with(2, "weights/other"))
    one, again, other = (
        (trained / f"weights/{name}/weights.safetensors").read_bytes() for name in ("1", "again", "other")
    )
    assert one == again != other
    succeed(trained, DECODE)
    before = [(trained / name).read_bytes() for name in ("captions.json", "attention.npz")]
    succeed(trained, DECODE.replace("weights/1", "weights/again"))
    assert [(trained / name).read_bytes() for name in ("captions.json", "attention.npz")] == before
    assert not any(trained.rglob("*.scratch"))


def test_the_shipped_stride_with_the_finer_map(raw):
    """Each cell has 32 pixels, and also the channels of four cells of 16 pixels."""
    own = project_params.settings().of("tabletop").features
    assert (own.stride, own.finer) == (32, True)
    set_params(raw, dataset__tabletop__features__stride=own.stride)
    for command in (PREPARE, EXTRACT, MAKE_VOCAB, MAKE_RECIPE, train_with(1, "weights/1"), DECODE):
        succeed(raw, command)
    store = FeatureStore(raw / STORE, {"stride": 32, "finer": True})
    assert store.shape == (320 + 4 * 112, 2, 2)
    found = attention_maps.read(raw / "attention.npz")
    assert all(each.maps.shape[-2:] == (2, 2) for each in found.values())
    captions = json.loads((raw / "captions.json").read_text())
    assert {each["image_id"] for each in captions} == set(found)


@pytest.mark.usefixtures("made_up_meteor")
def test_captions_of_exchanged_images_reach_the_scores(copy):
    """decode.both_ways changes no captions; metrics.json has the agreement of both directions."""
    score = f"score --captions captions.json --pairs {PAIRS} --dataset tabletop --images {IMAGES} "
    score += "--attention attention.npz --out metrics.json --per-pair pairs.jsonl"
    succeed(copy, DECODE)
    before = (copy / "captions.json").read_bytes()
    assert attention_maps.read_exchanged(copy / "attention.npz") is None
    set_params(copy, decode__both_ways=True)
    succeed(copy, DECODE)
    assert (copy / "captions.json").read_bytes() == before
    exchanged = attention_maps.read_exchanged(copy / "attention.npz")
    captions = {each["image_id"]: each["caption"] for each in json.loads(before)}
    assert exchanged is not None
    assert list(exchanged) == list(captions)
    succeed(copy, score)
    own = [named(agreement(captions[pair], text)) for pair, text in exchanged.items()]
    shares = {name: np.mean([pair[name] for pair in own]) for name in own[0]}
    metrics = json.loads((copy / "metrics.json").read_text())
    assert {name: metrics["total"][name] for name in shares} == pytest.approx(shares, abs=1e-6)
    assert "reversed_exact" in metrics["change"]
    lines = [json.loads(line) for line in (copy / "pairs.jsonl").read_text().splitlines()]
    assert [line["reversed_exact"] for line in lines] == [pair["reversed_exact"] for pair in own]
