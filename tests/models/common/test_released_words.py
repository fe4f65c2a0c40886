"""What the released programs do with <END> and with padding, by loops, on models of made-up weights.

SCORER's backward reasoning adds up the decoder's states at every token that is not padding, <START> and <END>
among them, and divides by the padded length. In DIRL's decoder padding tokens are no keys of the
self-attention, <END> is one, and CCR's mean counts every position of the padded caption.
"""

import math

import pytest
import torch

from models.common.decoder import NULL
from tests.random_models import batch, make, randomise
from tests.reference.attention_by_hand import of_memory
from tests.reference.transcription import SIZES

PLACES = range(SIZES.longest)


def released(name, switches=None):
    return randomise(make(switches, name, variant="released")).double()


def padded(tokens):
    """Every caption as the released programs hold it, and a token more that is predicted only."""
    return torch.nn.functional.pad(tokens, (0, SIZES.longest + 1 - tokens.shape[1]))


@torch.no_grad()
def test_the_sentence_of_backward_reasoning_ends_with_the_end_mark():
    model, (before, after, tokens) = released("scorer_cbr"), batch()
    reasoning, heard = model.regularisers["cbr"], []
    reasoning.join.register_forward_hook(lambda module, inputs, output: heard.append(inputs[0][:, 0]))
    model.losses(before, after, tokens)
    hidden = model.decoder(padded(tokens), model.encode(before, after)).hidden
    for pair, row in enumerate(padded(tokens)):
        read = [place for place in PLACES if row[place] != NULL]
        assert row[read[-1]] == 3  # <END>
        sentence = sum(hidden[pair, place] for place in read) / SIZES.longest
        torch.testing.assert_close(heard[0][pair, SIZES.width :], sentence)
        without = sum(hidden[pair, place] for place in read[:-1]) / SIZES.longest
        assert not torch.allclose(heard[0][pair, SIZES.width :], without)


@torch.no_grad()
@pytest.mark.parametrize("more", [1, 2, 3])
def test_it_does_not_depend_on_how_far_the_batch_is_padded(more):
    model, (before, after, tokens) = released("scorer_cbr"), batch()
    wider = torch.nn.functional.pad(tokens, (0, more))
    one, other = model.losses(before, after, tokens), model.losses(before, after, wider)
    for name, value in one.items():
        torch.testing.assert_close(value, other[name], rtol=1e-10, atol=0)


def attended(attention, x, keys):
    """A caption's words, L x D, each over those up to its own place that are keys, head by head."""
    q, k, v = attention.query(x), attention.key(x), attention.value(x)
    rows = []
    for place in range(len(x)):
        seen = [key for key in keys if key <= place]
        heads = []
        for own in torch.arange(SIZES.width).chunk(SIZES.heads):
            scores = torch.stack([q[place, own] @ k[key, own] for key in seen]) / math.sqrt(len(own))
            heads.append(sum(w * v[key, own] for w, key in zip(scores.softmax(0), seen, strict=True)))
        rows.append(attention.output(torch.cat(heads)))
    return torch.stack(rows)


@torch.no_grad()
def test_padding_is_no_key_and_the_mean_counts_it():
    model, (before, after, tokens) = released("ccr"), batch()
    kept = []
    contrast = model.regularisers["ccr"]
    contrast.register_forward_hook(lambda module, inputs, output: kept.append(inputs[1]))
    model.losses(before, after, tokens)
    first = model.decoder.layers[0]
    x = model.decoder.embed(padded(tokens)[:, :-1])
    text = contrast.pooled(kept[0].layers[0], kept[0].real)[0]
    for pair, row in enumerate(padded(tokens)[:, :-1]):
        keys = [place for place in PLACES if row[place] != NULL]
        own = attended(first.self_attention, x[pair], keys)
        torch.testing.assert_close(kept[0].layers[0].self_attended[pair], own)
        normed = first.norms[0](x[pair] + own)
        torch.testing.assert_close(text[pair], sum(normed[place] for place in PLACES) / SIZES.longest)
        if len(keys) < SIZES.longest:
            everything = attended(first.self_attention, x[pair], PLACES)
            assert not torch.allclose(everything[len(keys) :], own[len(keys) :])


@torch.no_grad()
def test_what_stands_at_padding_is_seen_by_its_own_place_alone():
    """With another embedding of padding the words stay as they are, and the mean over all places does not."""
    model, (before, after, tokens) = released("ccr"), batch()
    memory = model.encode(before, after).memory
    one = model.decoder(padded(tokens), of_memory(memory), padding_is_key=False)
    loss = model.losses(before, after, tokens)["ccr"]
    model.decoder.embedding.weight[NULL] = 3.0
    other = model.decoder(padded(tokens), of_memory(memory), padding_is_key=False)
    assert torch.equal(one.hidden[one.read], other.hidden[one.read])
    assert not torch.allclose(one.hidden[~one.read], other.hidden[~one.read])
    assert not torch.isclose(loss, model.losses(before, after, tokens)["ccr"])


@pytest.mark.parametrize(("name", "epsilon"), [("scorer_cbr", 1e-6), ("dirl_ccr", 1e-5)])
def test_epsilon_of_every_layer_norm(name, epsilon):
    model = released(name)
    norms = [module for module in model.modules() if isinstance(module, torch.nn.LayerNorm)]
    assert len(norms) > 8
    assert {module.eps for module in norms} == {epsilon}
