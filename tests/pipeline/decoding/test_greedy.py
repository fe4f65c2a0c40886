"""Greedy decoding: equals the uncached, one-pair-at-a-time search; never says what is no word."""

import pytest
import torch

from models import Sizes, build
from models.common.captioner import NEVER
from pipeline.datasets.schema import of_split
from pipeline.decoding.greedy import captions, greedy
from pipeline.text.vocabularies import END, NULL, START
from tests.reference.attention_by_hand import of_memory


def make(vocabulary, longest, variant):
    torch.manual_seed(3)
    sizes = Sizes(6, (3, 3), vocabulary, longest, 8, 2, 1, 2, 4)
    return build("scorer_cbr", sizes, {"variant": variant, "dropout": 0.1, "temperature": 0.5}).eval()


@pytest.fixture
def model(prepared):
    model = make(len(prepared.vocabulary), prepared.vocabulary.longest, "paper")
    # spread the logits, so that captions differ from pair to pair
    with torch.no_grad():
        model.decoder.vocabulary.weight.mul_(8)
        model.decoder.vocabulary.bias[END] = 4
    return model


@pytest.fixture(scope="module", params=[("paper", 3, 1), ("released", 40, 5)], ids=["paper", "released"])
def uneven(request):
    """A model of captions of 1 to 23 tokens, which no test changes."""
    variant, gain, end = request.param
    model = make(20, 24, variant)
    with torch.no_grad():
        for parameter in model.decoder.parameters():
            if parameter.ndim == 2:
                parameter.mul_(gain)
        model.decoder.vocabulary.bias[END] = end
    return model


def without_padding(rows):
    return [[token for token in row if token != NULL] for row in rows.tolist()]


@torch.no_grad()
def slow(model, memory):
    """One pair, every word recomputed at every step."""
    tokens = [START]
    while len(tokens) < model.sizes.longest and tokens[-1] != END:
        padded = torch.tensor([[*tokens, NULL]])
        logits = model.decoder(padded, of_memory(memory)).logits[0, -1]
        logits[list(NEVER)] = -torch.inf
        tokens.append(int(logits.argmax()))
    return tokens[1:]


def test_equals_the_slow_search(model):
    memory = torch.randn(40, 9, 8)
    found = greedy(model, of_memory(memory))
    expected = [slow(model, memory[row : row + 1]) for row in range(40)]
    assert without_padding(found) == expected
    assert len({tuple(row) for row in expected}) > 5
    assert len({len(row) for row in expected}) > 1


def test_a_caption_that_has_ended_costs_nothing_more(uneven, monkeypatch):
    torch.manual_seed(3)
    memory, rows = torch.randn(100, 9, 8), []
    step = uneven.decoder.step
    monkeypatch.setattr(
        uneven.decoder, "step", lambda word, *rest: rows.append(len(word)) or step(word, *rest)
    )
    lengths = [len(row) for row in without_padding(greedy(uneven, of_memory(memory)))]
    assert rows == [sum(length > position for length in lengths) for position in range(max(lengths))]
    assert sum(rows) == sum(lengths)


def test_of_equal_words_the_first_is_said(model):
    with torch.no_grad():
        for parameter in model.decoder.vocabulary.parameters():
            parameter.zero_()
    found = greedy(model, of_memory(torch.randn(3, 9, 8)))
    assert found.tolist() == [[END]] * 3  # the lowest that may be said


def test_never_says_what_is_no_word(model):
    with torch.no_grad():
        model.decoder.vocabulary.bias[list(NEVER)] = 1e6
    found = greedy(model, of_memory(torch.randn(8, 9, 8)))
    ended = torch.cummax((found == END).int(), 1).values.bool()
    assert not torch.isin(found[~ended], torch.tensor(NEVER)).any()


def test_decoding_has_no_dropout_and_leaves_the_mode_as_it_was(model, prepared):
    pairs = of_split(prepared.pairs, "val")
    model.train()
    found = [captions(model, pairs, prepared.store, prepared.vocabulary, 4) for _ in range(2)]
    assert found[0] == found[1]
    assert model.training
