"""CLIP4IDC's first weights for few images: what reaches its decoder, untrained."""

from dataclasses import replace

import pytest
import torch

import models
from models.clip4idc import first_weights
from models.clip4idc.encoders import ClipSizes

ROWS, COLUMNS, D, C = 4, 6, 64, 20
CELLS = ROWS * COLUMNS
SIZES = ClipSizes(C, (ROWS, COLUMNS), 30, 8, 1, D, 2, 1, 2, 16, 2, 1, 10, D, 2, 1)
SETTINGS = {"variant": "paper", "dropout": 0.0, "coef_lr": 0.1}


def captioner(first="counterpart", sizes=SIZES, model="clip4idc_no_adapt", seed=1):
    torch.manual_seed(seed)
    switches = {"patches": "features", "first_weights": first}
    return models.build(model, sizes, SETTINGS | {"switches": switches}).eval()


@torch.no_grad()
def seen(model, before, after):
    """F', then the keys of the decoder: of all tokens of both images."""
    difference = model.difference
    joint = difference.inter(model.encoding(before), model.encoding(after))
    keys = model.decoder.layers[0].cross_attention.key(difference.memories(joint)[:, -1])
    return joint, keys


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
def test_the_decoders_keys_begin_as_the_difference(cell):
    before, after = pairs_with_one_new_cell(cell)
    joint, keys = seen(captioner(), before, after)
    assert share_of(cell, joint[..., : D // 2]) > 3
    assert share_of(cell, joint[..., D // 2 :]) < 1.5  # what the cell shows, as any other does
    assert share_of(cell, keys) > 3
    assert share_of(cell, seen(captioner("clip"), before, after)[1]) < 1.5


def test_they_look_alike_from_another_seed_and_are_others():
    before, after = pairs_with_one_new_cell(8)
    one, again, other = (seen(captioner(seed=seed), before, after)[1] for seed in (1, 1, 2))
    assert one.equal(again)
    assert not one.equal(other)
    assert share_of(8, other) > 3


@torch.no_grad()
def test_cells_have_a_side_and_class_tokens_none():
    inter = captioner().difference.inter
    nothing = torch.zeros(1, CELLS + 1, D)
    before, after = inter.joined(nothing, nothing).chunk(2, 1)
    assert before[:, 1:].equal(-after[:, 1:])
    assert before[:, 1:].norm(dim=-1).min() > 1
    assert before[:, 0].abs().max() == after[:, 0].abs().max() == 0


@torch.no_grad()
@pytest.mark.parametrize(("quiet", "most"), [(first_weights.QUIET, True), (3.0, False)])
def test_most_of_what_the_decoder_sees_varies_from_pair_to_pair(monkeypatch, quiet, most):
    """Places and sides tell nothing of a pair."""
    monkeypatch.setattr(first_weights, "QUIET", quiet)
    before, after = torch.randn(2, 32, C, ROWS, COLUMNS, generator=torch.Generator().manual_seed(4))
    joint, _ = seen(captioner(), before, after)
    assert (joint.var(0).mean() / joint.square().mean() > 0.5).item() == most


def test_without_a_block_on_both_images_the_decoder_begins_plainly():
    for model, sizes in (("clip_ft", SIZES), ("clip4idc_no_adapt", replace(SIZES, inter=0))):
        key = captioner(sizes=sizes, model=model).decoder.layers[0].cross_attention.key.weight
        assert key[:, D // 2 :].std().item() == pytest.approx(D**-0.5, rel=0.1)


def test_a_joint_space_wider_than_the_blocks_is_refused():
    with pytest.raises(ValueError, match=r"needs a joint of at most width's 64, not 128"):
        captioner(sizes=replace(SIZES, joint=128))
    narrow = captioner(sizes=replace(SIZES, joint=32))
    before, after = pairs_with_one_new_cell(8)
    assert share_of(8, seen(narrow, before, after)[1]) > 2
