"""Signals of captions against the searches that they are computed from."""

import pytest
import torch

import models
from models.common.captioner import Sizes
from models.common.decoder_protocol import Difference
from pipeline.confidence.signals import NAMES, RARE, Reader, token_scores
from pipeline.decoding.beam_search import n_best
from pipeline.decoding.decode_split import searching
from pipeline.decoding.greedy import greedy
from pipeline.scoring.reversal import agreement
from pipeline.text.vocabularies import WordVocabulary
from tests.own_settings import settings_of

WORDS = ("<NULL>", "<UNK>", "<START>", "<END>", "the", "ball", "cube", "is", "gone", "moved", "no", "change")
VOCABULARY = WordVocabulary(WORDS, 7, True)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(3)
    sizes = Sizes(6, (2, 2), len(WORDS), 7, width=8, heads=2, layers=1, decoder_layers=1, word_width=4)
    built = models.build("scorer", sizes, settings_of("scorer")).eval()
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.mul_(2)
    return built


@pytest.fixture(scope="module")
@torch.inference_mode()
def pairs(model) -> tuple[Difference, Difference]:
    grids = torch.randn(2, 5, 6, 2, 2, generator=torch.Generator().manual_seed(0))
    return model.encode(grids[0], grids[1]), model.encode(grids[1], grids[0])


@torch.inference_mode()
def test_log_probabilities_equal_those_of_a_beam_of_one(model, pairs):
    own, leads = token_scores(model, pairs[0], greedy(model, pairs[0]))
    wanted = [best[0] for best in n_best(model, pairs[0], 1, 1)]
    assert [len(each) for each in own] == [len(best.tokens) for best in wanted]
    assert [each.sum() for each in own] == pytest.approx([best.log_probability for best in wanted], abs=1e-5)
    assert all((each >= 0).all() for each in leads)  # greedy search takes the likeliest token


@torch.inference_mode()
def test_signals_of_both_image_orders(model, pairs):
    reader = Reader(model, VOCABULARY, searching(1, 0.0))
    found = reader.signalled(reader.search(model, pairs[0]).words, *pairs)
    back = reader.signalled(reader.search(model, pairs[1]).words, *pairs[::-1])
    for one, other in zip(found, back, strict=True):
        assert one.numbers.shape == (len(NAMES),)
        assert (one.caption, one.exchanged) == (other.exchanged, other.caption)
        assert one.signals.exchanged_log_probability == pytest.approx(other.signals.log_probability)
        assert one.signals.exact == agreement(one.caption, one.exchanged).exact
        assert RARE <= one.signals.alternatives <= -RARE
        assert one.signals.log_probability <= one.signals.least <= one.signals.mean <= 0
    assert len({round(each.signals.alternatives, 6) for each in found}) > 1


@torch.inference_mode()
def test_without_a_grammar_only_change_is_compared(model, pairs):
    reader = Reader(model, VOCABULARY, searching(1, 0.0), grammar=False)
    for each in reader.signalled(reader.search(model, pairs[0]).words, *pairs):
        same = agreement(each.caption, each.exchanged, grammar=False).change
        assert {each.signals.kind, each.signals.object, each.signals.exact} == {same}
