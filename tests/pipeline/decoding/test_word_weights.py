"""The weights of the dynamic speaker's words: those of a plain search over `step`, one pair at a time."""

import numpy as np
import pytest
import torch

from models.common.captioner import rows
from pipeline.decoding import attention_maps
from pipeline.decoding.beam_search import beam_attending
from pipeline.decoding.decode_split import searching, told
from pipeline.decoding.greedy import greedy_attending
from pipeline.text.vocabularies import END, NULL, START, WordVocabulary
from tests.reference.dynamic import L, images, make

PAIRS = 24
VOCABULARY = WordVocabulary(("<NULL>", "<UNK>", "<START>", "<END>", *"abcde"), L, True)
MODELS = pytest.mark.parametrize("name", ["duda", "vard"])


@torch.no_grad()
def speaking(name):
    """A model whose captions differ from pair to pair in words and length, and what it makes of the pairs."""
    model = make(name)
    for parameter in model.decoder.parameters():
        parameter.mul_(6 if parameter.ndim == 2 else 1)
    model.decoder.vocabulary.bias[END] = 1.0
    return model, model.encode(*images(PAIRS))


@torch.no_grad()
def said(model, pair, words):
    """Word after word: the log-probabilities of the next one, and the weights of each step."""
    state, weights = model.decoder.begin(pair), []
    for place, word in enumerate([START, *words]):
        step = model.decoder.step(torch.tensor([word]), place, state)
        weights.append(step.looked[0])
    scores = step.logits[0].log_softmax(-1)
    scores[list(model.never)] = -torch.inf
    return scores.tolist(), torch.stack(weights)


def plain(model, pair, beam, length_penalty):
    """The best caption of one pair, by lists, and its words' weights."""
    going, ended = [(0.0, [])], []
    for length in range(1, model.sizes.longest):
        grown = [
            (total + score, [*words, word])
            for total, words in going
            for word, score in enumerate(said(model, pair, words)[0])
        ]
        kept = sorted(grown, key=lambda each: -each[0])[: beam - len(ended)]  # a stable sort
        stop = [each for each in kept if each[1][-1] == END or length == model.sizes.longest - 1]
        ended += [(total / length**length_penalty, words) for total, words in stop]
        going = [each for each in kept if each not in stop]
    best = max(ended, key=lambda each: each[0])[1]  # the first of equal ones
    return best, said(model, pair, best[:-1])[1]


@MODELS
@pytest.mark.parametrize(("beam", "length_penalty"), [(1, 0.0), (3, 0.0), (4, 1.0)])
def test_weights_are_those_of_the_plain_searchs_best_caption(name, beam, length_penalty):
    model, difference = speaking(name)
    found = searching(beam, length_penalty)(model, difference)
    assert found.weights.shape == (*found.words.shape, 3)
    lengths, greedy = set(), greedy_attending(model, difference).words
    for row in range(PAIRS):
        pair = rows(difference, lambda x, row=row: x[row : row + 1])
        words, weights = plain(model, pair, beam, length_penalty)
        assert [word for word in found.words[row].tolist() if word != NULL] == words
        torch.testing.assert_close(found.weights[row, : len(words)], weights.half(), rtol=2e-3, atol=1e-3)
        assert not found.weights[row, len(words) :].any()
        lengths.add(len(words))
    assert len(lengths) > 2  # they left the batch at different times
    assert beam == 1 or greedy.shape != found.words.shape or not torch.equal(greedy, found.words)


@MODELS
def test_a_beam_of_one_has_greedy_searchs_weights(name):
    model, difference = speaking(name)
    one, other = greedy_attending(model, difference), beam_attending(model, difference, 1)
    assert torch.equal(one.words, other.words)
    torch.testing.assert_close(one.weights, other.weights)


@MODELS
def test_the_words_weights_are_kept_and_read_and_the_ends_are_not(tmp_path, name):
    model, difference = speaking(name)
    searched = greedy_attending(model, difference)
    found = told(greedy_attending, model, difference, VOCABULARY)
    attention_maps.write(tmp_path / "a.npz", {str(row): each for row, each in enumerate(found)})
    read = attention_maps.read(tmp_path / "a.npz")
    assert {each.weighed for each in read.values()} == {("before", "difference", "after")}
    for row, each in enumerate(read.values()):
        assert each.caption == VOCABULARY.decode(searched.words[row].tolist())
        assert np.array_equal(each.weights, searched.weights[row, : len(each.words)].numpy())
