"""Greedy search, beam search and the n best captions, against plain searches of one pair."""

from itertools import product

import pytest
import torch

from models import Sizes, build
from models.common.captioner import NEVER
from pipeline.decoding.beam_search import beam_search, n_best
from pipeline.decoding.greedy import greedy
from pipeline.text.vocabularies import END, NULL, START
from tests.reference.attention_by_hand import looked, of_memory

VARIANTS = pytest.mark.parametrize("variant", ["paper", "released"])
WORDS = (END, 4, 5, 6)  # of a vocabulary of 7 words


def make(variant="paper", vocabulary=12, longest=9, fusion="cat", end=0):
    """Build a model whose captions differ from pair to pair in words and length."""
    torch.manual_seed(3)
    sizes = Sizes(6, (3, 3), vocabulary, longest, 8, 2, 1, 2, 4)
    settings = {"variant": variant, "switches": {"fusion": fusion}, "dropout": 0.1, "temperature": 0.5}
    model = build("scorer_cbr", sizes, settings).eval()
    with torch.no_grad():
        for parameter in model.decoder.parameters():
            if parameter.ndim == 2:
                parameter.mul_(3 if variant == "paper" else 40)  # the released variant's begin at 0.02
        model.decoder.vocabulary.bias[END] += end
    return model


def without_padding(rows):
    return [[token for token in row if token != NULL] for row in rows.tolist()]


def log_probabilities(model, memory, tokens):
    """Return the log-probabilities of the word after `tokens`, for one pair."""
    logits = model.decoder(torch.tensor([[*tokens, NULL]]), of_memory(memory)).logits[0, -1]
    scores = logits.double().log_softmax(-1)
    scores[list(NEVER)] = -torch.inf
    return scores.tolist()


@torch.no_grad()
def plain(model, memory, beam, length_penalty):
    """Return the best caption of one pair, by a search with lists up to the longest caption."""
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
    return max(ended, key=lambda each: each[0])[1]  # the first of equal captions


@VARIANTS
def test_greedy_search_equals_the_plain_search(variant):
    model, memory = make(variant), torch.randn(20, 9, 8)
    found = without_padding(greedy(model, of_memory(memory)))
    assert found == [plain(model, memory[row : row + 1], 1, 0.0) for row in range(20)]
    assert len({tuple(row) for row in found}) > 2
    assert len({len(row) for row in found}) > 1


@pytest.mark.slow
@VARIANTS
@pytest.mark.parametrize(("beam", "length_penalty"), [(2, 0.0), (3, 0.7), (3, 1.0), (5, 0.0), (40, 2.0)])
def test_beam_search_equals_the_plain_search(variant, beam, length_penalty):
    model, memory = make(variant), torch.randn(7, 9, 8)
    found = without_padding(beam_search(model, of_memory(memory), beam, length_penalty).words)
    assert found == [plain(model, memory[row : row + 1], beam, length_penalty) for row in range(7)]
    assert found != without_padding(greedy(model, of_memory(memory)))
    assert len({tuple(row) for row in found}) > 2


@VARIANTS
def test_a_caption_that_has_ended_is_not_computed_any_more(variant, monkeypatch):
    model, rows = make(variant, 20, 24, end=4), []
    step = model.decoder.step
    monkeypatch.setattr(
        model.decoder, "step", lambda word, *rest: rows.append(len(word)) or step(word, *rest)
    )
    lengths = [len(row) for row in without_padding(greedy(model, of_memory(torch.randn(100, 9, 8))))]
    assert rows == [sum(length > position for length in lengths) for position in range(max(lengths))]
    assert len(set(lengths)) > 2


def searches(model, memory):
    yield greedy(model, of_memory(memory))
    yield beam_search(model, of_memory(memory), 3, length_penalty=1.0).words


def test_the_lowest_of_equally_likely_words_is_chosen():
    model = make()
    with torch.no_grad():
        for parameter in model.decoder.vocabulary.parameters():
            parameter.zero_()
    for found in searches(model, torch.randn(2, 9, 8)):
        assert without_padding(found) == [[END], [END]]


def test_padding_and_unknown_words_are_never_written():
    model = make()
    with torch.no_grad():
        model.decoder.vocabulary.bias[list(NEVER)] = 20
        model.decoder.vocabulary.bias[END] = -1e6
    for found in searches(model, torch.randn(8, 9, 8)):
        assert found.shape == (8, 8)  # cut at the longest
        assert not torch.isin(found, torch.tensor(NEVER)).any()


@pytest.mark.parametrize(
    ("variant", "fusion"), [("paper", "cat"), ("released", "cat"), ("paper", "respective")]
)
@torch.no_grad()
def test_maps_are_those_of_the_chosen_caption(variant, fusion):
    """With the fusion `respective`, the decoder attends to each image by itself."""
    model, memory = make(variant, fusion=fusion), torch.randn(15, 18 if fusion == "respective" else 9, 8)
    found = beam_search(model, of_memory(memory), 4, 0.5)
    assert found.maps.shape == (*found.words.shape, 1, 9)
    assert found.maps.dtype == torch.float16
    captions = without_padding(found.words)
    assert len({len(caption) for caption in captions}) > 1
    for row, caption in enumerate(captions):
        expected = looked(model, memory[row : row + 1], caption)
        maps = found.maps[row, : len(caption), 0].float()
        torch.testing.assert_close(maps, expected, rtol=2e-3, atol=1e-4)


def log_probability(model, memory, tokens):
    words = model.decoder(torch.tensor([[START, *tokens]]), of_memory(memory[None]))
    return words.logits[0].double().log_softmax(-1)[range(len(tokens)), list(tokens)].sum().item()


@torch.inference_mode()
@pytest.mark.parametrize("length_penalty", [0.0, 0.7])
def test_a_beam_of_all_captions_finds_the_best_in_order(length_penalty):
    small, memory = make(vocabulary=7, longest=4), torch.randn(2, 9, 8)
    longest = small.sizes.longest - 1
    captions = [tokens for length in range(1, longest + 1) for tokens in product(WORDS, repeat=length)]
    every = [t for t in captions if END not in t[:-1] and (t[-1] == END or len(t) == longest)]
    found = n_best(small, of_memory(memory), beam=len(every), count=6, length_penalty=length_penalty)
    for own, pair in zip(found, memory, strict=True):
        scored = [(log_probability(small, pair, tokens), tokens) for tokens in every]
        expected = sorted(((p / len(t) ** length_penalty, p, t) for p, t in scored), reverse=True)[:6]
        assert [each.tokens for each in own] == [tokens for _, _, tokens in expected]
        assert [each.log_probability for each in own] == pytest.approx([p for _, p, _ in expected], abs=1e-4)
        assert [each.score for each in own] == pytest.approx([score for score, _, _ in expected], abs=1e-4)


@torch.inference_mode()
@pytest.mark.parametrize(("beam", "length_penalty"), [(1, 0.0), (2, 1.0), (5, 0.0), (5, 1.0)])
def test_the_first_of_the_n_best_is_the_caption_of_beam_search(beam, length_penalty):
    small, memory = make(vocabulary=7, longest=4), torch.randn(2, 9, 8)
    found = n_best(small, of_memory(memory), beam, beam, length_penalty)
    expected = without_padding(beam_search(small, of_memory(memory), beam, length_penalty).words)
    assert [list(own[0].tokens) for own in found] == expected
    assert all(len(own) == beam and len({each.tokens for each in own}) == beam for own in found)
    with pytest.raises(ValueError, match=f"a beam of {beam} does not end with"):
        n_best(small, of_memory(memory), beam, beam + 1)
