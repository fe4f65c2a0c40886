"""Beam search: of 1 it is greedy, as wide as everything it is exact, in between it is the plain one."""

import pytest
import torch

from models import Sizes, build
from models.common.captioner import NEVER
from pipeline.decoding.beam_search import beam_attending, beam_search, best
from pipeline.decoding.greedy import greedy
from pipeline.text.vocabularies import END, NULL, START
from tests.reference.attention_by_hand import looked, of_memory

pytestmark = pytest.mark.slow


def make(variant="paper", vocabulary=12, longest=9, fusion="cat"):
    """A model whose captions differ from pair to pair in words and length."""
    torch.manual_seed(3)
    sizes = Sizes(6, (3, 3), vocabulary, longest, 8, 2, 1, 2, 4)
    settings = {"variant": variant, "switches": {"fusion": fusion}, "dropout": 0.1, "temperature": 0.5}
    model = build("scorer_cbr", sizes, settings).eval()
    with torch.no_grad():
        for parameter in model.decoder.parameters():
            if parameter.ndim == 2:
                parameter.mul_(3 if variant == "paper" else 40)  # the released variant's begin at 0.02
    return model


def without_padding(rows):
    return [[token for token in row if token != NULL] for row in rows.tolist()]


def log_probabilities(model, memory, tokens):
    """Of the word after `tokens`, by recomputing all of them for one pair."""
    logits = model.decoder(torch.tensor([[*tokens, NULL]]), of_memory(memory)).logits[0, -1]
    scores = logits.double().log_softmax(-1)
    scores[list(NEVER)] = -torch.inf
    return scores.tolist()


@torch.no_grad()
def plain(model, memory, beam, length_penalty):
    """One pair, lists, every word recomputed at every step, always to the longest caption."""
    going, ended = [(0.0, [START])], []
    for length in range(1, model.sizes.longest):
        grown = [
            (total + score, [*tokens, word])
            for total, tokens in going
            for word, score in enumerate(log_probabilities(model, memory, tokens))
        ]
        kept = sorted(grown, key=lambda each: -each[0])[: beam - len(ended)]  # a stable sort
        stop = [each for each in kept if each[1][-1] == END or length == model.sizes.longest - 1]
        ended += [(total / length**length_penalty, tokens[1:]) for total, tokens in stop]
        going = [each for each in kept if each not in stop]
    return max(ended, key=lambda each: each[0])[1]  # the first of equal ones


@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize(("beam", "length_penalty"), [(2, 0.0), (3, 0.7), (3, 1.0), (5, 0.0), (40, 2.0)])
def test_equals_the_plain_search(variant, beam, length_penalty):
    model, memory = make(variant), torch.randn(7, 9, 8)
    found = without_padding(beam_search(model, of_memory(memory), beam, length_penalty))
    assert found == [plain(model, memory[row : row + 1], beam, length_penalty) for row in range(7)]
    assert found != without_padding(greedy(model, of_memory(memory)))
    assert len({tuple(row) for row in found}) > 2


def test_equal_captions_go_by_their_words_ids():
    model = make()
    with torch.no_grad():
        for parameter in model.decoder.vocabulary.parameters():
            parameter.zero_()  # every word is as likely as any other
    found = beam_search(model, of_memory(torch.randn(2, 9, 8)), 3, length_penalty=1.0)
    # of equal means the first to end: <END> has the lowest id of all that may be said
    assert without_padding(found) == [[END], [END]]


def test_never_says_what_is_no_word():
    model = make()
    with torch.no_grad():
        model.decoder.vocabulary.bias[list(NEVER)] = 20
        model.decoder.vocabulary.bias[END] = -1e6
    found = beam_search(model, of_memory(torch.randn(8, 9, 8)), 4)
    assert found.shape == (8, 8)  # cut at the longest
    assert not torch.isin(found, torch.tensor(NEVER)).any()


@pytest.mark.parametrize("variant", ["paper", "released"])
@torch.no_grad()
def test_maps_are_those_of_the_chosen_caption(variant):
    model, memory = make(variant), torch.randn(15, 9, 8)
    found = beam_attending(model, of_memory(memory), 4, 0.5)
    words, maps = found.words, found.maps
    assert torch.equal(words, beam_search(model, of_memory(memory), 4, 0.5))
    assert maps.shape == (*words.shape, 1, 9)
    assert maps.dtype == torch.float16
    for row, caption in enumerate(without_padding(words)):
        expected = looked(model, memory[row : row + 1], caption)
        torch.testing.assert_close(maps[row, : len(caption), 0].float(), expected, rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize(("beam", "length_penalty"), [(1, 0.0), (3, 0.7)])
@torch.no_grad()
def test_where_each_image_is_attended_to_by_itself(beam, length_penalty):
    model, memory = make(fusion="respective"), torch.randn(12, 18, 8)
    best_ones = beam_attending(model, of_memory(memory), beam, length_penalty)
    found, maps = without_padding(best_ones.words), best_ones.maps
    assert found == [plain(model, memory[row : row + 1], beam, length_penalty) for row in range(12)]
    assert len({len(row) for row in found}) > 2  # they left the batch at different times
    assert maps.shape == (*best_ones.words.shape, 1, 9)
    for row, caption in enumerate(found):
        expected = looked(model, memory[row : row + 1], caption)
        torch.testing.assert_close(maps[row, : len(caption), 0].float(), expected, rtol=2e-3, atol=1e-4)
    assert without_padding(beam_search(model, of_memory(memory.roll(9, 1)), beam, length_penalty)) != found


def test_best_of_equal_ones_are_the_first():
    scores = torch.tensor([[1.0, 3.0, 3.0, 2.0, 3.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
    values, places = best(scores, 4)
    assert values.tolist() == [[3, 3, 3, 2], [0, 0, 0, 0]]
    assert places.tolist() == [[1, 2, 4, 3], [0, 1, 2, 3]]
