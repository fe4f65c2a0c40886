"""Captions with attention: the captions of plain decoding, and the maps of one pair at a time."""

import numpy as np
import pytest
import torch

from models import Sizes, build
from pipeline.datasets.schema import of_split
from pipeline.decoding.beam_search import beam_search
from pipeline.decoding.decode_split import attended_captions, searching
from pipeline.decoding.greedy import captions, greedy_attending
from pipeline.text.vocabularies import END
from tests.own_settings import GRID_MODELS, settings_of
from tests.reference.attention_by_hand import of_memory

RESPECTIVE = "scorer-respective"  # the decoder attends to each image by itself


def make(name, prepared):
    torch.manual_seed(6)
    sizes = Sizes(6, (3, 3), len(prepared.vocabulary), prepared.vocabulary.longest, 8, 2, 2, 2, 4)
    base = name.removesuffix("-respective")
    switches = {"initialisation": "torch"} | ({"fusion": "respective"} if name == RESPECTIVE else {})
    model = build(base, sizes, settings_of(base, dropout=0.1) | {"switches": switches}).eval()
    # larger weights of the images, so that captions differ from pair to pair in words and length
    with torch.no_grad():
        model.decoder.vocabulary.weight.mul_(8)
        model.decoder.vocabulary.bias[END] = 6
        for parameter in model.difference.parameters():
            parameter.mul_(5 if parameter.ndim == 2 else 1)
        for layer in model.decoder.layers:
            if name == RESPECTIVE:
                layer.cross_attention.each.query.weight.mul_(10)
            layer.cross_attention.output.weight.mul_(2 if name == RESPECTIVE else 20)
    return model


@pytest.fixture
def model(prepared):
    return make("scorer", prepared)


def attend(model, prepared, pairs, batch=7, aligned=(), search=greedy_attending):
    return attended_captions(model, pairs, prepared.store, prepared.vocabulary, batch, search, aligned)


@pytest.mark.parametrize("name", [*GRID_MODELS, RESPECTIVE])
def test_the_captions_are_those_without_attention(prepared, name):
    model, pairs = make(name, prepared), of_split(prepared.pairs, "train")
    found = attend(model, prepared, pairs)
    plain = captions(model, pairs, prepared.store, prepared.vocabulary, 7)
    assert [(pair, each.caption) for pair, each in found.items()] == [*plain.items()]
    assert len({len(each.words) for each in found.values()}) > 1
    assert all(each.maps.shape == (len(each.words), 1, 3, 3) for each in found.values())


def test_only_the_asked_pairs_are_aligned(model, prepared):
    pairs = of_split(prepared.pairs, "train")
    asked = [pairs[place] for place in (0, 8, 9, 30)]
    found = attend(model, prepared, pairs, aligned={pair.pair_id for pair in asked})
    alignments = {pair: each.alignment for pair, each in found.items() if each.alignment is not None}
    assert list(alignments) == [pair.pair_id for pair in asked]
    for pair in asked:
        grids = torch.from_numpy(prepared.store.read([pair.before, pair.after])).float()
        with torch.no_grad():
            expected = model.encode(grids[:1], grids[1:]).alignment([0])[0]
        np.testing.assert_allclose(alignments[pair.pair_id], expected, rtol=2e-3, atol=1e-6)


def test_there_is_no_dropout_and_the_mode_stays(model, prepared):
    pairs = of_split(prepared.pairs, "val")
    model.train()
    one, other = (attend(model, prepared, pairs) for _ in range(2))
    assert all((one[pair].maps == other[pair].maps).all() for pair in one)
    assert model.training


@pytest.mark.parametrize("name", ["subtraction", "scorer", RESPECTIVE])
def test_a_beam_has_its_own_captions_and_their_maps(prepared, name):
    model, pairs = make(name, prepared), of_split(prepared.pairs, "train")
    found = attend(model, prepared, pairs, search=searching(3, 1.0))
    grids = [torch.from_numpy(prepared.store.read([p.before, p.after])).float()[:, None] for p in pairs]
    with torch.inference_mode():
        memory = torch.cat([model.encode(*grid).memory for grid in grids])
    words = beam_search(model, of_memory(memory), 3, 1.0).words.tolist()
    own = [each.caption for each in found.values()]
    assert own == [prepared.vocabulary.decode(row) for row in words]
    assert own != [each.caption for each in attend(model, prepared, pairs).values()]
    assert all(each.maps.shape == (len(each.words), 1, 3, 3) for each in found.values())
    assert searching(1, 0.5) is greedy_attending
