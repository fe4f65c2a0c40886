"""CLIP4IDC's initialisation for few images: the untrained decoder attends to the cell that differs."""

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
EACH_CELL = pytest.mark.parametrize("cell", [0, 8, 23])


def captioner(first="counterpart", model="clip4idc_no_adapt", phase=None, **sizes):
    torch.manual_seed(1)
    switches = {"patches": "features", "first_weights": first}
    settings = SETTINGS | {"switches": switches} | ({"temperature": 0.07} if phase else {})
    return models.build(model, replace(SIZES, **sizes), settings, phase).eval()


@torch.no_grad()
def seen(model, before, after):
    """Return F', and the values of the decoder, of all tokens of both images."""
    difference = model.difference
    joint = difference.inter(model.encoding(before), model.encoding(after))
    values = model.decoder.layers[0].cross_attention.value(difference.memories(joint)[:, -1])
    return joint, values


def pairs_that_differ_at(cell, pairs=16):
    """Return features of images that are equal except for one cell, (pairs, C, ROWS, COLUMNS) each."""
    before = torch.randn(pairs, C, ROWS, COLUMNS, generator=torch.Generator().manual_seed(2))
    after = before.clone()
    new = torch.randn(pairs, C, generator=torch.Generator().manual_seed(3))
    after[:, :, cell // COLUMNS, cell % COLUMNS] = new
    return before, after


def share_of(cell, tokens):
    """Return the mean square of a cell's tokens, relative to other cells; tokens: (B, 2(N+1), E)."""
    cells = torch.stack(tokens.chunk(2, 1))[:, :, 1:].square().mean((0, 1, 3))  # N
    return (cells[cell] / cells[torch.arange(CELLS) != cell].mean()).item()


@torch.no_grad()
def attends_to(model, cell, before, after):
    """Check that half of the heads attend to the cell in each image, at the first word."""
    attention = model.decoder.layers[0].cross_attention
    memory = model.difference(model.encoding(before), model.encoding(after)).memory[:, -1]
    asked = attention.queries(model.decoder.embed(torch.full((len(before), 1), 2)))
    logits = asked @ attention.keys_values(memory)[0].transpose(-2, -1) / math.sqrt(D / attention.heads)
    found = logits.softmax(-1).mean(0)[:, 0]  # h x 2t
    for head, own in enumerate(found):
        asked, other = own.chunk(2) if head < HEADS / 2 else reversed(own.chunk(2))
        if not asked[1 + cell] > max(0.5, 1.5 * other[1 + cell]):  # 1.75 on a processor with AVX-512
            return False
    return True


@EACH_CELL
def test_the_decoder_initially_attends_to_the_difference(cell):
    pair, model = pairs_that_differ_at(cell), captioner()
    joint, values = seen(model, *pair)
    assert share_of(cell, joint[..., : D // 2]) > 5
    assert share_of(cell, joint[..., D // 2 + 2 :]) < 2  # the content of the cell itself
    assert share_of(cell, values) > 2.5
    assert attends_to(model, cell, *pair)
    assert share_of(cell, seen(captioner("clip"), *pair)[1]) < 1.5
    assert not attends_to(captioner("clip"), cell, *pair)


@EACH_CELL
@pytest.mark.parametrize(("model", "inter"), [("clip_ft", 1), ("clip4idc_no_adapt", 0)])
def test_without_a_block_on_both_images_the_captioners_first_layer_compares(model, inter, cell):
    begun, pair = captioner(model=model, inter=inter), pairs_that_differ_at(cell)
    joint, values = seen(begun, *pair)
    assert share_of(cell, joint) < 2
    assert share_of(cell, values) > 2.5
    assert attends_to(begun, cell, *pair)


@torch.no_grad()
@EACH_CELL
def test_in_the_adaptation_class_tokens_gather_the_difference(cell):
    model, (before, after) = captioner(model="clip4idc", phase="adapt", inter=2), pairs_that_differ_at(cell)
    Z = model.inter.joined(model.encoding(before), model.encoding(after))
    *earlier, last = model.inter.blocks.values()
    for block in earlier:
        Z = block(Z)
    asked, plain = last.weights(Z)[:, [0, 3]].mean(0)  # the attention of a class token, and of a cell
    assert asked[1 + cell] + asked[CELLS + 2 + cell] > 0.5
    assert plain.max() < 0.1
    v = model.pairs(model.encoding(before), model.encoding(after))
    same = model.pairs(model.encoding(before), model.encoding(before))
    moved = (v - same)[:, : D // 2].square().sum() / (v - same).square().sum()
    assert moved > 0.5  # along the directions of the difference
    assert v.var(0).mean() > 20 * same.var(0).mean()


@pytest.mark.parametrize(
    ("model", "inter", "first", "slow"),
    [
        ("clip_ft", 1, "counterpart", True),
        ("clip4idc_no_adapt", 0, "counterpart", True),
        ("clip4idc_no_adapt", 1, "counterpart", False),
        ("clip_ft", 1, "clip", False),
    ],
)
def test_the_comparing_layer_has_the_low_learning_rate(model, inter, first, slow):
    begun = captioner(first, model, inter=inter, caption_layers=2)
    part = "difference.memories.layers."
    for name, _ in begun.named_parameters():
        group = next(group for group in begun.groups if re.search(group.names, name))
        if name.startswith(f"{part}0.") and slow:
            assert (group.rate, group.decays) == (0.1, "bias" not in name), name
        elif name.startswith((part, "decoder.")):
            assert (group.rate, group.decays) == (1.0, not re.search("bias|norm", name)), name


def test_widths_that_do_not_fit_are_refused():
    for joint in (2, 128):
        with pytest.raises(ValueError, match=rf"needs a joint from 4 to width's 64, not {joint}"):
            captioner(joint=joint)
    with pytest.raises(ValueError, match="needs an even joint here, not 33"):
        captioner(joint=33, caption_heads=1, model="clip_ft")
    for model in ("clip4idc_no_adapt", "clip_ft"):
        assert share_of(8, seen(captioner(joint=32, model=model), *pairs_that_differ_at(8))[1]) > 2


@pytest.mark.parametrize(("first", "deviation"), [("clip", 0.02), ("counterpart", D**-0.5)])
def test_the_captioners_maps_are_scaled_to_their_width(first, deviation):
    model = captioner(first)
    layers = [*model.difference.memories.layers, *model.decoder.layers]
    attentions = [getattr(layer, "self_attention", None) or layer.attention for layer in layers]
    maps = [each.weight for one in attentions for each in (one.query, one.key, one.value)]
    assert [each.std().item() for each in maps] == pytest.approx([deviation] * len(maps), rel=0.1)
