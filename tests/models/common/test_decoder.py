"""The caption decoder: causal, padded tokens without effect, equations by loops."""

import math

import pytest
import torch

from models.common.attention import MultiHeadAttention, attention_weights
from models.common.decoder import CaptionDecoder, sinusoids
from tests.reference.attention_by_hand import of_memory


@pytest.fixture
def decoder():
    torch.manual_seed(0)
    return CaptionDecoder(
        vocabulary=11, longest=8, word_width=6, width=8, heads=2, layers=2, dropout=0.1
    ).eval()


TOKENS = torch.tensor([[2, 4, 5, 6, 3, 0], [2, 7, 3, 0, 0, 0]])


def test_positions_by_loops():
    table = sinusoids(5, 6)
    for position in range(5):
        for i in range(3):
            angle = position / 10_000 ** (2 * i / 6)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_attention_by_loops():
    torch.manual_seed(0)
    attention = MultiHeadAttention(width=8, heads=2, dropout=0.5).double().eval()
    x, memory = torch.randn(2, 3, 8).double(), torch.randn(2, 5, 8).double()
    q, k, v = attention.query(x), attention.key(memory), attention.value(memory)
    q, k, v = q.detach(), k.detach(), v.detach()
    expected = torch.zeros(2, 3, 8).double()
    for b in range(2):
        for head in range(2):
            part = slice(4 * head, 4 * head + 4)
            for i in range(3):
                scores = [float(q[b, i, part] @ k[b, j, part]) / 2 for j in range(5)]
                total = sum(math.exp(score) for score in scores)
                for j in range(5):
                    expected[b, i, part] += math.exp(scores[j]) / total * v[b, j, part]
    torch.testing.assert_close(attention(x, memory), attention.output(expected))


@pytest.mark.parametrize("causal", [False, True])
def test_weights_are_what_attend_applies(causal):
    torch.manual_seed(0)
    attention = MultiHeadAttention(width=8, heads=2, dropout=0.0)
    x = torch.randn(2, 5, 8)
    q, (k, v) = attention.queries(x), attention.keys_values(x)
    weights = attention_weights(q, k, causal)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 5))
    slow = attention.output((weights @ v).transpose(1, 2).flatten(2))
    torch.testing.assert_close(attention.attend(q, k, v, causal), slow)


def test_a_word_does_not_see_later_words(decoder):
    memory = torch.randn(2, 9, 8)
    changed = TOKENS.clone()
    changed[:, 3] = 8
    logits, other = decoder(TOKENS, of_memory(memory)).logits, decoder(changed, of_memory(memory)).logits
    torch.testing.assert_close(logits[:, :3], other[:, :3])
    assert not torch.allclose(logits[:, 3], other[:, 3])


def test_real_words_are_those_to_predict(decoder):
    words = decoder(TOKENS, of_memory(torch.randn(2, 9, 8)))
    assert words.real.tolist() == [[True, True, True, True, False], [True, True, False, False, False]]


def test_layer_is_post_norm_with_a_wide_feed_forward(decoder):
    layer = decoder.layers[0]
    x, memory = torch.randn(2, 4, 8), torch.randn(2, 9, 8)
    one = layer.norms[0](x + layer.self_attention(x, x, causal=True))
    two = layer.norms[1](one + layer.cross_attention(one, memory))
    first, last = layer.feed_forward[0], layer.feed_forward[3]
    three = layer.norms[2](two + last(first(two).relu()))
    assert first.out_features == 4 * 8
    torch.testing.assert_close(layer(x, memory).out, three)


@torch.no_grad()
def test_attention_of_the_steps_by_loops(decoder):
    memory = torch.randn(2, 9, 8)
    x = decoder.layers[0](decoder.embed(TOKENS[:, :-1]), memory).out
    last = decoder.layers[1]
    x = last.norms[0](x + last.self_attention(x, x, causal=True))
    q, k = last.cross_attention.query(x), last.cross_attention.key(memory)
    state = decoder.begin(of_memory(memory))
    steps = [decoder.step(TOKENS[:, position], position, state) for position in range(TOKENS.shape[1] - 1)]
    found = decoder.maps(torch.stack([step.looked for step in steps], 1), state)
    assert found.shape == (2, 5, 1, 9)
    for position in range(5):
        for b in range(2):
            expected = torch.zeros(9)
            for part in (slice(0, 4), slice(4, 8)):
                powers = [math.exp(float(q[b, position, part] @ k[b, j, part]) / 2) for j in range(9)]
                expected += torch.tensor([power / sum(powers) for power in powers]) / 2
            torch.testing.assert_close(found[b, position, 0], expected, rtol=1e-5, atol=1e-6)
