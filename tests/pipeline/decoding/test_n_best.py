"""The K best captions of a beam: against every caption there is, and against the beam itself."""

from itertools import product

import pytest
import torch

import models
from models.common.captioner import Sizes
from pipeline.decoding.beam_search import beam_search, n_best
from pipeline.text.vocabularies import END, NULL, START
from tests.own_settings import settings_of
from tests.reference.attention_by_hand import of_memory

WORDS = (END, 4, 5, 6)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(3)
    sizes = Sizes(6, (2, 2), 7, 4, width=8, heads=2, layers=1, decoder_layers=1, word_width=4)
    built = models.build("scorer", sizes, settings_of("scorer")).eval()
    with torch.no_grad():
        for parameter in built.decoder.parameters():
            parameter.mul_(2)
    return built


@pytest.fixture(scope="module")
def memory():
    return torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(0))


def log_probability(model, memory, tokens):
    """Of a caption, word after word; NULL, UNK and START are never written."""
    words = model.decoder(torch.tensor([[START, *tokens]]), of_memory(memory[None]))
    return words.logits[0].double().log_softmax(-1)[range(len(tokens)), list(tokens)].sum().item()


def every_caption(longest):
    """All that can be written: up to <END>, or cut."""
    for length in range(1, longest + 1):
        for tokens in product(WORDS, repeat=length):
            if END not in tokens[:-1] and (tokens[-1] == END or length == longest):
                yield tokens


@torch.inference_mode()
@pytest.mark.parametrize("length_penalty", [0.0, 0.7])
def test_a_beam_of_all_captions_finds_the_best_in_order(model, memory, length_penalty):
    everything = list(every_caption(model.sizes.longest - 1))
    found = n_best(model, of_memory(memory), beam=len(everything), count=6, length_penalty=length_penalty)
    for own, pair in zip(found, memory, strict=True):
        scored = [(log_probability(model, pair, tokens), tokens) for tokens in everything]
        best = sorted(((p / len(t) ** length_penalty, p, t) for p, t in scored), reverse=True)[:6]
        assert [each.tokens for each in own] == [tokens for _, _, tokens in best]
        assert [each.log_probability for each in own] == pytest.approx([p for _, p, _ in best], abs=1e-4)
        assert [each.score for each in own] == pytest.approx([score for score, _, _ in best], abs=1e-4)


@torch.inference_mode()
@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_the_first_is_the_beams(model, memory, beam, length_penalty):
    found = n_best(model, of_memory(memory), beam, beam, length_penalty)
    wanted = beam_search(model, of_memory(memory), beam, length_penalty).tolist()
    assert [list(own[0].tokens) for own in found] == [[t for t in row if t != NULL] for row in wanted]
    assert all(len(own) == beam and len({each.tokens for each in own}) == beam for own in found)


def test_no_more_than_the_beam_holds(model, memory):
    with pytest.raises(ValueError, match="a beam of 2 does not end with 3"):
        n_best(model, of_memory(memory), 2, 3)
