"""IDC-PCL's captions: a [MASK] behind the words so far, in whose place the likeliest word goes.

Image tokens see no text, so they pass the cross-modal blocks once; a step
feeds the last word, whose keys and values are kept, and [MASK], whose are overwritten by the next word's.
Tensors are the network's, which the captioner holds: nothing of a decoder is saved.
"""

import torch
from torch import Tensor

from models.common.attention import attention_weights
from models.common.decoder import NULL, Past, TransformerState
from models.common.decoder_protocol import NextWord, Unweighed, Words
from models.common.difference import Difference
from models.common.transformer_block import TransformerBlock
from models.idc_pcl.network import Network
from models.idc_pcl.word_attention import word_attention


class Kept(Past):
    """One cross-modal block's keys and values: of the image tokens, and of the words so far."""

    def __init__(self, keys: Tensor, values: Tensor, longest: int, beam: int):
        self.memory_keys, self.memory_values = keys, values  # (B, h, M, d)
        self.beam, self.left = beam, len(keys)
        B, h, _, d = keys.shape
        self.keys = keys.new_empty(B, beam, h, longest, d)
        self.values = torch.empty_like(self.keys)

    def with_mask(self, k: Tensor, v: Tensor, position: int) -> tuple[Tensor, Tensor]:
        """Keeps a word at `position` and the [MASK] behind it, (R, h, 2, d): (R, h, position + 2, d)."""
        keys, values = (kept[: self.left].flatten(0, 1) for kept in (self.keys, self.values))  # views
        keys[:, :, position : position + 2], values[:, :, position : position + 2] = k, v
        return keys[:, :, : position + 2], values[:, :, : position + 2]


class MaskDecoder(Unweighed):
    """Words given image tokens; B pairs, k captions of each, R = B * k."""

    compiles = False  # it has no tensors of its own

    def __init__(self, network: Network, longest: int):
        self.network, self.longest = network, longest

    def __call__(
        self, tokens: Tensor, difference: Difference, keep_layers: bool = False, padding_is_key: bool = True
    ) -> Words:
        """What stands at each place of captions with masked words, (R*B, L), given V~, (B, M, D), the memory.

        Padding comes after all words and is seen by none of them.
        """
        x = self.network.over_words(tokens, self.network.over_images(difference.memory)[0])
        return Words(self.network.output(x), x, tokens != NULL, tokens != NULL)

    def begin(self, difference: Difference, beam: int = 1) -> TransformerState:
        """What `step` keeps of a batch, to write `beam` captions of each pair."""
        kept, _ = self.network.over_images(difference.memory)
        return TransformerState([Kept(keys, values, self.longest, beam) for keys, values in kept])

    def step(self, tokens: Tensor, position: int, state: TransformerState) -> NextWord:
        """The word after `tokens` (R), which stand at `position`: what stands for the [MASK] behind them."""
        masks, state.words = torch.full_like(tokens, self.network.mask), position + 1
        x = self.network.cross.norm(self.network.text(torch.stack([tokens, masks], 1), position))
        for block, kept in zip(self.network.cross.each(), state.layers, strict=True):
            assert isinstance(kept, Kept)
            x, queries = step(block, x, kept, position)
        return NextWord(self.network.output(x[:, 1]), queries)

    def maps(self, looked: Tensor | None, state: TransformerState) -> Tensor:
        """Where each [MASK] looked in the last block, (B, L, h, d) -> (B, L, 1, N).

        Of what a head gives to cells of either image, marks and words left out; the heads' mean, both images
        added up, summing to 1.
        """
        before, after = state.layers[-1].memory_keys.chunk(2, 2)  # a mark, then cells
        keys = torch.cat([before[:, :, 1:], after[:, :, 1:]], 2)
        first, second = attention_weights(state.queries(looked), keys).mean(1).chunk(2, -1)
        return state.one_map(first + second)


def step(block: TransformerBlock, x: Tensor, kept: Kept, position: int) -> tuple[Tensor, Tensor]:
    """A word and the [MASK] behind it, which it does not see, through one block, (R, 2, D).

    And the [MASK]s' queries, (R, h, d).
    """
    attention, y = block.attention, block.norm_1(x)
    q = attention.queries(y)  # (R, h, 2, d)
    images = kept.memory_keys[: kept.left], kept.memory_values[: kept.left]
    heads = word_attention(q, images, kept.with_mask(*attention.keys_values(y), position))
    x = block.rest(x, attention.output(heads.transpose(1, 2).flatten(2)))
    return x, q[:, :, 1]
