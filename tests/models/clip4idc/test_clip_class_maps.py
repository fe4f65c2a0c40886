"""Where the image encoder's class tokens look, against loops."""

import math
from dataclasses import replace

import pytest
import torch

import models
from tests.models.clip4idc.test_clip4idc import SIZES, images, settings


@pytest.mark.parametrize(
    ("intra", "inter", "shown"), [(2, 1, [2, 3]), (1, 2, [1, 3]), (3, 0, [2, 3]), (0, 3, [2, 3])]
)
@torch.no_grad()
def test_where_class_tokens_look_by_hand(intra, inter, shown):
    """The first row of each shown block's attention, head by head, without the class tokens' columns."""
    sizes = replace(SIZES, intra=intra, inter=inter)
    torch.manual_seed(0)
    model = models.build("clip4idc", sizes, settings("clip4idc")).eval()
    before, after = images(2).chunk(2)
    found = model.class_token_maps(before, after)
    assert list(found) == [f"block {number}" for number in shown]
    blocks = {**model.encoding.blocks, **model.difference.inter.blocks}
    sides = [model.encoding.patches(image)[0] for image in (before, after)]
    for number in range(1, 4):
        block = blocks[str(number - 1)]
        if number == intra + 1:
            sides = [model.difference.inter.joined(*(side[None] for side in sides))[0]]
        rows = [first_row(block, tokens) for tokens in sides]
        if number in shown:
            halves = rows if number <= intra else rows[0].chunk(2)
            for side, half in enumerate(halves):
                wanted = (half[1:] / half[1:].sum()).view(2, 3)
                torch.testing.assert_close(found[f"block {number}"][0, side], wanted, rtol=1e-4, atol=1e-6)
        sides = [block(tokens[None])[0] for tokens in sides]


def first_row(block, tokens):
    """Where the first token looks, of t x D: the mean of both heads' softmax."""
    normed = block.norm_1(tokens)
    q, k = block.attention.query(normed)[0], block.attention.key(normed)
    each = [(k[:, part] @ q[part] / math.sqrt(8)).softmax(0) for part in (slice(0, 8), slice(8, 16))]
    return (each[0] + each[1]) / 2
