"""IDC-PCL's random masks, and decoding by [MASK] with kept keys and values."""

import pytest
import torch

from models.common.decoder import NULL, NextWord
from models.idc_pcl.network import word_attention
from models.idc_pcl.pretraining import masked_cells, masked_words
from pipeline.decoding.beam_search import beam_search
from pipeline.decoding.greedy import greedy
from tests.reference.attention_by_hand import of_memory
from tests.reference.pcl import MASK, captioner, captions


def test_masked_words_have_the_right_frequencies():
    torch.manual_seed(0)
    tokens = captions(4).repeat(5000, 1)
    read, chosen = masked_words(tokens, 0.15, MASK)
    word = tokens > 3
    assert not chosen[(tokens == NULL) | (tokens == 2)].any()
    assert (read[~chosen] == tokens[~chosen]).all()
    assert (chosen & word).any(1).all()  # at least one word a caption
    assert chosen[tokens == 3].float().mean().item() == pytest.approx(0.15, abs=0.01)
    assert (read[chosen & (tokens == 3)] == MASK).all()
    # without the first word, which is masked if no other word is
    later = word.clone()
    later[:, 1] = False
    assert chosen[later].float().mean().item() == pytest.approx(0.15, abs=0.01)
    hidden = read[chosen & later]
    assert (hidden == MASK).float().mean().item() == pytest.approx(0.8 + 0.1 / 13, abs=0.01)
    same = (hidden == tokens[chosen & later]).float().mean().item()
    assert same == pytest.approx(0.1 + 0.1 / 13, abs=0.01)
    assert set(hidden.tolist()) == set(range(13))  # all tokens, [MASK] and [CLS] among them


def test_attention_dropout_of_words():
    """Values are unit vectors, so the result is the attention weights: 2 image tokens, then 3 words."""
    random = torch.Generator().manual_seed(0)
    q, keys = (torch.randn(2000, 1, n, 5, generator=random) for n in (3, 3))
    unit, images = torch.eye(5).expand(2000, 1, 5, 5), torch.randn(1000, 1, 2, 5, generator=random)
    given = q, (images, unit[:1000, :, :2]), (keys, unit[:, :, 2:])
    whole, dropped = word_attention(*given), word_attention(*given, 0.25)
    assert (whole[:, 0].triu(3) == 0).all()
    torch.testing.assert_close(whole.sum(-1), torch.ones(2000, 1, 3))
    seen = whole > 0
    kept = dropped[seen] > 0
    torch.testing.assert_close(dropped[seen][kept], whole[seen][kept] / 0.75)
    assert kept.float().mean().item() == pytest.approx(0.75, abs=0.02)


def test_if_no_word_is_drawn_the_first_word_is_masked():
    read, chosen = masked_words(torch.tensor([[2, 5, 6, 7, 3, 0]]), 0.0, MASK)
    assert read.tolist() == [[2, MASK, 6, 7, 3, 0]]
    assert chosen.tolist() == [[False, True, False, False, False, False]]


def test_masked_cells_have_the_right_frequencies():
    torch.manual_seed(0)
    single = masked_cells(torch.Size((2000, 1, 6)), 0.15, torch.device("cpu"))
    assert single.any(-1).all()
    assert single.float().mean((0, 1)).min() > 0.1
    hidden = masked_cells(torch.Size((20_000, 2, 6)), 0.15, torch.device("cpu"))
    sides = hidden.any(-1)
    assert (sides.sum(1) == 1).all()  # one image of each pair
    assert sides[:, 0].float().mean().item() == pytest.approx(0.5, abs=0.01)
    count = hidden.flatten(1).sum(1)
    assert count.min() == 1
    expected = 6 * 0.15 + 0.85**6  # one more where none was drawn
    assert count.float().mean().item() == pytest.approx(expected, abs=0.02)


def images_seen(count):
    return torch.randn(count, 14, 8, generator=torch.Generator().manual_seed(4), dtype=torch.float64)


@pytest.mark.parametrize("softmax", ["all", "vocabulary"])
@torch.no_grad()
def test_barred_tokens_are_never_written(softmax):
    """Each special token is the most likely one in turn."""
    marks = [0, 1, 2, 11, 12] if softmax == "all" else [0, 1, 2]
    for barred in ("marks", "none"):
        model = captioner("released", softmax=softmax, barred=barred)
        assert len(model.difference.output.weight) == (13 if softmax == "all" else 11)
        assert model.never == (tuple(marks) if barred == "marks" else ())
        for mark in marks:
            model.difference.output.bias.zero_()
            model.difference.output.bias[mark] = 1e3
            pairs = of_memory(images_seen(3))
            for words in (greedy(model, pairs), beam_search(model, pairs, 2).words):
                if barred == "none" and mark:
                    assert (words == mark).sum() == 21  # one that never ends, up to the longest
                else:
                    assert not torch.isin(words[words != NULL], torch.tensor(marks)).any()


@torch.no_grad()
def test_a_written_null_does_not_end_a_caption():
    model = captioner("released")
    pair = of_memory(images_seen(1))

    def step(tokens, position, state):
        logits = torch.full((len(tokens), 13), -9.0)
        logits[:, [5, NULL, 6, 3][position]] = 9.0
        return NextWord(logits, pair.memory.new_zeros(len(tokens), *head_sizes))

    attention = model.decoder.network.cross.blocks[-1].attention
    head_sizes = attention.heads, attention.query.out_features // attention.heads
    model.decoder.step = step
    for words in (greedy(model, pair), beam_search(model, pair, 1).words, beam_search(model, pair, 2).words):
        assert words.tolist() == [[5, NULL, 6, 3]]


@torch.no_grad()
def test_attention_maps_have_the_cells_of_both_images_and_no_marks():
    """Tokens 0 and 7 of the 14 are [IMG1] and [IMG2]."""
    decoder = captioner("paper").decoder
    state = decoder.begin(of_memory(images_seen(1)))
    queries = decoder.step(torch.tensor([2]), 0, state).trace  # (1, h, d)
    found = decoder.maps(queries[:, None], state)[0, 0, 0]
    keys, cells = state.layers[-1].memory_keys[0], [*range(1, 7), *range(8, 14)]
    weights = [(keys[h, cells] @ q / len(q) ** 0.5).softmax(0) for h, q in enumerate(queries[0])]
    mean = sum(weights) / len(weights)
    torch.testing.assert_close(found, mean[:6] + mean[6:])
