"""Greedy decoding: equals the uncached, one-pair-at-a-time search; never says what is no word."""

import pytest
import torch

from models import Sizes, build
from pipeline.datasets.schema import of_split
from pipeline.decoding import NEVER, captions, greedy, greedy_attending
from pipeline.text import END, NULL, START


@pytest.fixture
def model(prepared):
    torch.manual_seed(3)
    sizes = Sizes(6, (3, 3), len(prepared.vocabulary), prepared.vocabulary.longest, 8, 2, 1, 2, 4)
    model = build("scorer_cbr", sizes, {"dropout": 0.1, "temperature": 0.5}).eval()
    # spread the logits, so that captions differ from pair to pair
    with torch.no_grad():
        model.decoder.vocabulary.weight.mul_(8)
        model.decoder.vocabulary.bias[END] = 4
    return model


@torch.no_grad()
def slow(model, memory):
    """One pair, every word recomputed at every step."""
    tokens = [START]
    while len(tokens) < model.sizes.longest and tokens[-1] != END:
        padded = torch.tensor([[*tokens, NULL]])
        logits = model.decoder(padded, memory).logits[0, -1]
        logits[list(NEVER)] = -torch.inf
        tokens.append(int(logits.argmax()))
    return tokens[1:]


def test_equals_the_slow_search(model):
    memory = torch.randn(40, 9, 8)
    found = greedy(model, memory)
    expected = [slow(model, memory[row : row + 1]) for row in range(40)]
    assert [[token for token in row if token != NULL] for row in found.tolist()] == expected
    assert len({tuple(row) for row in expected}) > 5
    assert len({len(row) for row in expected}) > 1


def test_attending_finds_the_same_words(model):
    memory = torch.randn(40, 9, 8)
    words, maps = greedy_attending(model, memory)
    assert torch.equal(words, greedy(model, memory))
    assert maps.shape == (*words.shape, 9)
    assert maps.dtype == torch.float16
    torch.testing.assert_close(maps.float().sum(-1), torch.ones(words.shape), rtol=0, atol=2e-3)


def test_never_says_what_is_no_word(model):
    with torch.no_grad():
        model.decoder.vocabulary.bias[list(NEVER)] = 1e6
    found = greedy(model, torch.randn(8, 9, 8))
    ended = torch.cummax((found == END).int(), 1).values.bool()
    assert not torch.isin(found[~ended], torch.tensor(NEVER)).any()


def test_nothing_follows_the_end(model):
    found = greedy(model, torch.randn(40, 9, 8))
    for row in found.tolist():
        if END in row:
            assert not any(row[row.index(END) + 1 :])


def test_the_batch_size_changes_nothing(model, prepared):
    pairs = of_split(prepared.pairs, "train")
    one, many = (captions(model, pairs, prepared.store, prepared.vocabulary, batch) for batch in (1, 7))
    assert one == many
    assert list(one) == [pair.pair_id for pair in pairs]


def test_decoding_has_no_dropout_and_leaves_the_mode_as_it_was(model, prepared):
    pairs = of_split(prepared.pairs, "val")
    model.train()
    found = [captions(model, pairs, prepared.store, prepared.vocabulary, 4) for _ in range(2)]
    assert found[0] == found[1]
    assert model.training
