"""SCORER's fusions (its supplement): what each can tell, and the decoder of the one that fuses nothing."""

import pytest
import torch

from models.common.decoder import NULL
from tests.random_models import batch, make, randomise
from tests.reference.attention_by_hand import of_memory


@torch.no_grad()
@pytest.mark.parametrize("variant", ["paper", "released"])
def test_cached_steps_equal_all_words_at_once(variant):
    decoder = randomise(make({"fusion": "respective"}, variant=variant, dropout=0.1)).decoder
    tokens, memory = batch()[2], torch.randn(3, 12, 8)
    pairs = of_memory(memory)
    whole, state = decoder(tokens, pairs).logits, decoder.begin(pairs)
    for position in range(tokens.shape[1] - 1):
        step = decoder.step(tokens[:, position], position, state)
        read = tokens[:, position] != NULL
        torch.testing.assert_close(step.logits[read], whole[read, position], rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_maps_are_the_mean_of_each_images_own():
    decoder = randomise(make({"fusion": "respective"})).decoder
    layer, memory = decoder.layers[-1].cross_attention, torch.randn(3, 12, 8)
    state, x = decoder.begin(of_memory(memory)), torch.randn(3, 4, 8)
    maps = decoder.maps(layer.queries(x).transpose(1, 2), state)[:, :, 0]
    torch.testing.assert_close(maps.sum(-1), torch.ones(3, 4))
    for b in range(3):
        for word in range(4):
            expected = torch.zeros(6)
            for image in (memory[b, :6], memory[b, 6:]):
                for part in (slice(0, 4), slice(4, 8)):
                    q, k = layer.each.query(x[b, word])[part], layer.each.key(image)[:, part]
                    expected += torch.tensor([float(q @ kj) / 2 for kj in k]).softmax(0) / 4
            torch.testing.assert_close(maps[b, word], expected, rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_dropout_is_on_the_weights_of_either_image():
    layer = randomise(make({"fusion": "respective"}, dropout=1.0)).decoder.layers[0].cross_attention
    x, memory = torch.randn(2, 3, 8), torch.randn(2, 12, 8)
    assert layer(x, memory).std() > 0
    layer.train()
    torch.testing.assert_close(layer(x, memory), layer.output.bias.expand(2, 3, 8))
