"""The id 0 is padding only after the last word; inside a caption it is a word, for every decoder."""

from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.common import decoder
from models.common.captioner import rows
from models.common.packing import ALL_WORDS, END, NULL, of_captions, up_to_last
from models.common.trainable import Labels
from models.idc_pcl import pretraining
from pipeline.decoding.beam_search import beam_search
from pipeline.decoding.greedy import evaluating, greedy, sample
from pipeline.training.reinforce import log_probabilities
from tests.models.test_conformance import CASES, LONGEST, built, images

# the second row ends with id 0 before <END>; the third has no <END>, so id 0 is a word to its end
CAPTIONS = [
    [2, 5, 0, 7, 3, 0, 0, 0, 0],
    [2, 4, 0, 0, 3, 0, 0, 0, 0],
    [2, 6, 0, 9, 8, 0, 5, 0, 0],
    [2, 0, 3, 0, 0, 0, 0, 0, 0],
    [2, 4, 5, 6, 7, 8, 0, 9, 3],
    [2, 3, 0, 0, 0, 0, 0, 0, 0],
]
LENGTHS = [5, 5, 9, 3, 9, 2]
REFERENCES = [row for row in CAPTIONS if END in row]


def unpacked(monkeypatch):
    """Let every decoder compute all positions, as on a GPU."""
    monkeypatch.setattr(decoder, "RealWords", lambda read: ALL_WORDS)


@given(st.lists(st.lists(st.integers(0, 4), min_size=6, max_size=6), min_size=1, max_size=4))
def test_a_caption_is_masked_up_to_its_last_word(captions):
    words = [[place for place, token in enumerate(row, 1) if token != NULL] for row in captions]
    last = [max(places, default=0) for places in words]
    tokens = torch.tensor(captions)
    assert up_to_last(tokens).tolist() == [[place < end for place in range(6)] for end in last]
    ends = [end if END in row else 6 for row, end in zip(captions, last, strict=True)]
    assert of_captions(tokens).tolist() == [[place < end for place in range(6)] for end in ends]


def test_lengths_of_captions():
    assert of_captions(torch.tensor(CAPTIONS)).sum(1).tolist() == LENGTHS


@CASES
@pytest.mark.parametrize("padding_is_key", [True, False])
@torch.no_grad()
def test_all_words_at_once_are_the_words_one_by_one(monkeypatch, name, variant, padding_is_key):
    model, tokens = built(name, variant), torch.tensor(CAPTIONS)
    difference = model.encode(*images(model, 3))
    if name.startswith("idc_pcl"):  # this decoder predicts at [MASK]; word_logits puts it after the words
        call = model.word_logits
    else:
        call = partial(model.decoder, padding_is_key=padding_is_key)
    found = call(tokens, difference)
    unpacked(monkeypatch)
    whole = call(tokens, difference)
    found, whole = (getattr(each, "logits", each) for each in (found, whole))
    state = model.decoder.begin(difference, 2)
    for position in range(LONGEST - 1):
        step = model.decoder.step(tokens[:, position], position, state).logits
        real = torch.tensor([position < length for length in LENGTHS])
        for each in (found, whole):
            torch.testing.assert_close(each[real, position].double(), step[real], rtol=1e-5, atol=1e-6)


def outcome(model):
    """Return the losses, and the gradients of all weights, of captions with an id 0 inside."""
    model.zero_grad()
    before, after = (model.encoding(side) for side in images(model, len(REFERENCES)))
    torch.manual_seed(3)  # IDC-PCL masks random words
    labels = Labels(torch.tensor([1, 0, 1, 1, 0]), "", kinds=torch.tensor([2, 5, 2, 4, 5]))
    losses = model.losses_of(before, after, torch.tensor(REFERENCES), labels=labels)
    sum(losses.values()).backward()
    grads = {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}
    return losses, grads


@CASES
def test_losses_and_gradients_with_id_0_inside_do_not_depend_on_packing(monkeypatch, name, variant):
    model = built(name, variant).train()
    losses, grads = outcome(model)
    unpacked(monkeypatch)
    whole, expected = outcome(model)
    torch.testing.assert_close(losses, whole, rtol=1e-6, atol=1e-9)
    assert grads.keys() == expected.keys()
    for parameter, grad in grads.items():
        torch.testing.assert_close(grad, expected[parameter], rtol=1e-5, atol=1e-8)


@CASES
@torch.no_grad()
def test_a_sample_with_null_has_the_log_probability_of_its_words(name, variant):
    """The reward phase computes log p(c) of sampled captions again, all words at once."""
    model = built(name, variant)
    model.never = ()
    model.decoder.step = often_null(model.decoder.step)
    model.word_logits = partial(with_null, model.word_logits)
    with evaluating(model):
        difference = model.encode(*images(model, 4))
        torch.manual_seed(0)
        words, log_p = sample(model, difference, 25)
        inside = of_captions(words) & (words == NULL)
        assert inside.any(1).float().mean() > 0.3
        assert inside[:, -1].any()  # a caption that was cut at the limit ends with NULL
        found = log_probabilities(model, difference, words)
    torch.testing.assert_close(found.double(), log_p.double(), rtol=1e-4, atol=1e-4)
    assert set(of_captions(words).sum(1).tolist()) == {
        row.index(END) + 1 if END in row else len(row) for row in words.tolist()
    }


def often_null(step):
    def changed(tokens, position, state):
        found = step(tokens, position, state)
        found.logits[:, NULL] = found.logits.amax(1)
        return found

    return changed


def with_null(word_logits, tokens, difference):
    logits = word_logits(tokens, difference)
    logits[:, :, NULL] = logits.amax(2)
    return logits


@CASES
def test_a_beam_of_one_is_greedy_search_with_null_at_the_limit(name, variant):
    model = built(name, variant)
    model.never, model.ends = (END,), (END,)  # captions of MEDIC end with NULL, too
    model.decoder.step = often_null(model.decoder.step)
    difference = model.encode(*images(model, 3))
    with torch.inference_mode():
        words = greedy(model, difference)
        assert words.shape == (3, LONGEST - 1)
        assert (words == NULL).any()
        assert torch.equal(beam_search(model, difference, 1).words, words)


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_a_random_token_0_in_a_masked_caption_is_no_padding(variant):
    """A word that MLM replaces by the random token 0 is attended to; the padding is not, in `paper`."""
    model = built("idc_pcl", variant, phase="pretrain")
    before, after = (model.encoding(side) for side in images(model, 1))
    tokens = torch.tensor([[2, 5, NULL, 6, 3, NULL, NULL]])
    masks = []
    model.difference.cross.register_forward_pre_hook(lambda _, given: masks.append(given[1]))
    model.joint(before, after, tokens)
    assert pretraining.NULL == NULL
    if variant == "released":
        assert masks == [None]
    else:
        assert masks[0][0, -7:].tolist() == [True] * 5 + [False] * 2


@torch.no_grad()
def test_rows_of_words_keep_the_mask():
    model = built("scorer_cbr", "paper")
    words = model.decoder(torch.tensor(CAPTIONS), model.encode(*images(model, 6)))
    assert words.real.sum(1).tolist() == [length - 1 for length in LENGTHS]
    assert rows(words, lambda x: x[::2]).read.sum(1).tolist() == [5, 8, 8]
