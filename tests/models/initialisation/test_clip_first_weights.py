"""CLIP4IDC's first weights for few images: what reaches its decoder, untrained."""

import math
import re
from dataclasses import replace

import pytest
import torch

import models
from models.clip4idc.encoders import ClipSizes

ROWS, COLUMNS, D, C, HEADS = 4, 6, 64, 20, 2
CELLS = ROWS * COLUMNS
SIZES = ClipSizes(C, (ROWS, COLUMNS), 30, 8, 1, D, 2, 1, 2, 16, 2, 1, 10, D, HEADS, 1)
SETTINGS = {"variant": "paper", "dropout": 0.0, "coef_lr": 0.1}


def captioner(first="counterpart", sizes=SIZES, model="clip4idc_no_adapt", seed=1):
    torch.manual_seed(seed)
    switches = {"patches": "features", "first_weights": first}
    return models.build(model, sizes, SETTINGS | {"switches": switches}).eval()


@torch.no_grad()
def seen(model, before, after):
    """F', then the values of the decoder: of all tokens of both images."""
    difference = model.difference
    joint = difference.inter(model.encoding(before), model.encoding(after))
    values = model.decoder.layers[0].cross_attention.value(difference.memories(joint)[:, -1])
    return joint, values


def pairs_with_one_new_cell(cell, pairs=16):
    """Features of images that are alike but for one cell, P x C x H x W each."""
    before = torch.randn(pairs, C, ROWS, COLUMNS, generator=torch.Generator().manual_seed(2))
    after = before.clone()
    after[:, :, cell // COLUMNS, cell % COLUMNS] = torch.randn(
        pairs, C, generator=torch.Generator().manual_seed(3)
    )
    return before, after


def share_of(cell, tokens):
    """How much larger the tokens of a cell are than the others, by the mean of squares: B x 2(N+1) x E."""
    cells = torch.stack(tokens.chunk(2, 1))[:, :, 1:].square().mean((0, 1, 3))  # N
    return (cells[cell] / cells[torch.arange(CELLS) != cell].mean()).item()


@pytest.mark.parametrize("cell", [0, 8, 23])
def test_the_decoders_values_begin_as_the_difference(cell):
    before, after = pairs_with_one_new_cell(cell)
    joint, values = seen(captioner(), before, after)
    assert share_of(cell, joint[..., : D // 2]) > 5
    assert share_of(cell, joint[..., D // 2 + 2 :]) < 2  # what the cell shows, as any other does
    assert share_of(cell, values) > 2.5
    assert share_of(cell, seen(captioner("clip"), before, after)[1]) < 1.5


@torch.no_grad()
def first_looks(model, before, after):
    """Where each head looks for the first word, h x 2t, the mean over pairs."""
    attention = model.decoder.layers[0].cross_attention
    memory = model.difference(model.encoding(before), model.encoding(after)).memory[:, -1]
    asked = attention.queries(model.decoder.embed(torch.full((len(before), 1), 2)))
    logits = asked @ attention.keys_values(memory)[0].transpose(-2, -1) / math.sqrt(D / attention.heads)
    return logits.softmax(-1).mean(0)[:, 0]


@pytest.mark.parametrize("cell", [0, 8, 23])
@pytest.mark.parametrize("seed", range(2))
def test_words_begin_by_looking_at_what_differs_half_of_the_heads_in_each_image(cell, seed):
    pairs = pairs_with_one_new_cell(cell)
    for head, found in enumerate(first_looks(captioner(seed=seed), *pairs)):
        asked, other = found.chunk(2) if head < HEADS / 2 else reversed(found.chunk(2))
        assert asked[1 + cell] > max(0.5, 1.5 * other[1 + cell])  # 1.75 on a processor with AVX-512
    assert first_looks(captioner("clip"), *pairs).max() < 3 / (2 * CELLS)  # everywhere: 1 / (2 CELLS)


def adapting(inter=2, seed=1):
    torch.manual_seed(seed)
    switches = {"patches": "features", "first_weights": "counterpart"}
    settings = SETTINGS | {"switches": switches, "temperature": 0.07}
    return models.build("clip4idc", replace(SIZES, inter=inter), settings, "adapt").eval()


@torch.no_grad()
def first_token(model, before, after):
    """Where the class token looks in the last block, 2t, the mean over heads and pairs."""
    Z = model.inter.joined(model.encoding(before), model.encoding(after))
    *earlier, last = model.inter.blocks.values()
    for block in earlier:
        Z = block(Z)
    return last.weights(Z)[:, [0, 3]].mean(0)


@torch.no_grad()
@pytest.mark.parametrize("cell", [0, 8, 23])
def test_in_the_adaptation_class_tokens_gather_what_differs(cell):
    model, (before, after) = adapting(), pairs_with_one_new_cell(cell)
    asked, plain = first_token(model, before, after)
    assert asked[1 + cell] + asked[CELLS + 2 + cell] > 0.5
    assert plain.max() < 0.1  # a cell's: everywhere
    v = model.pairs(model.encoding(before), model.encoding(after))
    same = model.pairs(model.encoding(before), model.encoding(before))
    moved = (v - same)[:, : D // 2].square().sum() / (v - same).square().sum()
    assert moved > 0.5  # in what F' has of the difference
    assert v.var(0).mean() > 20 * same.var(0).mean()


@pytest.mark.parametrize("cell", [0, 8, 23])
@pytest.mark.parametrize(("model", "inter"), [("clip_ft", 1), ("clip4idc_no_adapt", 0)])
def test_without_a_block_on_both_images_the_captioners_first_layer_compares(model, inter, cell):
    begun = captioner(sizes=replace(SIZES, inter=inter), model=model)
    before, after = pairs_with_one_new_cell(cell)
    joint, values = seen(begun, before, after)
    assert share_of(cell, joint) < 2  # each image by itself: as any other
    assert share_of(cell, values) > 2.5
    for head, found in enumerate(first_looks(begun, before, after)):
        asked, other = found.chunk(2) if head < HEADS / 2 else reversed(found.chunk(2))
        assert asked[1 + cell] > max(0.5, 1.5 * other[1 + cell])  # 1.75 on a processor with AVX-512


@pytest.mark.parametrize(
    ("model", "inter", "first", "slow"),
    [
        ("clip_ft", 1, "counterpart", True),
        ("clip4idc_no_adapt", 0, "counterpart", True),
        ("clip4idc_no_adapt", 1, "counterpart", False),
        ("clip_ft", 1, "clip", False),
    ],
)
def test_what_compares_learns_at_coef_lr(model, inter, first, slow):
    """At the whole rate the first weights are undone before the decoder can use them."""
    begun = captioner(first, replace(SIZES, inter=inter, caption_layers=2), model)
    of = {
        name: next(group for group in begun.groups if re.search(group.names, name)) for name in named(begun)
    }
    part = "difference.memories.layers."
    for name, group in of.items():
        if name.startswith(f"{part}0."):
            assert (group.rate, group.decays) == ((0.1, "bias" not in name) if slow else whole(name)), name
        elif name.startswith((f"{part}1.", "decoder.")):
            assert (group.rate, group.decays) == whole(name), name


def named(model):
    return [name for name, _ in model.named_parameters()]


def whole(name):
    """The captioner's own rate, and whether such a tensor decays."""
    return 1.0, not re.search("bias|norm", name)


def test_a_joint_space_wider_than_the_blocks_or_too_narrow_is_refused():
    for joint in (2, 128):
        with pytest.raises(ValueError, match=rf"needs a joint from 4 to width's 64, not {joint}"):
            captioner(sizes=replace(SIZES, joint=joint))
    before, after = pairs_with_one_new_cell(8)
    for model in ("clip4idc_no_adapt", "clip_ft"):
        narrow = captioner(sizes=replace(SIZES, joint=32), model=model)
        assert share_of(8, seen(narrow, before, after)[1]) > 2


def test_what_compares_in_the_captioner_needs_an_even_width():
    with pytest.raises(ValueError, match="needs an even joint here, not 33"):
        captioner(sizes=replace(SIZES, joint=33, caption_heads=1), model="clip_ft")
