"""IDC-PCL's decoding: at each step, a [MASK] is appended to the caption, and a word is predicted there.

A step computes two tokens: the last word, whose keys and values are kept, and [MASK], whose keys and values
are overwritten in the next step. The decoder has no weights of its own; it uses the captioner's network.

B: pairs; k: captions per pair; R: captions of the pairs that are not finished; L: words; N: cells of an
image; M = 2(N + 1): image tokens of a pair; D: width; h: heads; d = D/h.
"""

from typing import Any

import torch
from torch import Tensor

from models.common.attention import attention_weights
from models.common.decoder import NULL, Past, TransformerState
from models.common.decoder_protocol import Difference, NextWord, Unweighed, Words
from models.common.transformer_block import TransformerBlock
from models.idc_pcl.network import Network, word_attention


class MaskDecoder(Unweighed):
    """Decoder that predicts a word at the position of [MASK]."""

    compiles = False  # it has no tensors of its own

    def __init__(self, network: Network, longest: int):
        self.network, self.longest = network, longest

    def __call__(
        self, tokens: Tensor, difference: Difference, keep_layers: bool = False, padding_is_key: bool = True
    ) -> Words:
        """Predict words of captions in which some words are replaced by [MASK].

        `tokens`, (k*B, L), are the masked captions. The output at a position predicts the word at this
        position, not the next word. Each position attends to itself, to earlier positions, and to the
        images. Therefore no word attends to the padding, which is at the end.
        """
        x = self.network.over_words(tokens, self.network.over_images(difference.memory)[0])
        return Words(self.network.output(x), x, tokens != NULL, tokens != NULL)

    def begin(self, difference: Difference, beam: int = 1) -> TransformerState:
        images, _ = self.network.over_images(difference.memory)
        return TransformerState([Past(*keys_values, self.longest, beam) for keys_values in images])

    def step(self, tokens: Tensor, position: int, state: TransformerState) -> NextWord:
        """Predict the next word of each of R captions.

        `tokens`, (R,), are the words at `position`. [MASK] is put after each of them, and the next word is
        predicted at [MASK]. The keys and values of `tokens` are added to `state`.
        """
        masks, state.words = torch.full_like(tokens, self.network.mask), position + 1
        x = self.network.cross.norm(self.network.text(torch.stack([tokens, masks], 1), position))
        for block, past in zip(self.network.cross.blocks, state.layers, strict=True):
            x, queries = step(block, x, past, position)
        return NextWord(self.network.output(x[:, 1]), queries)

    def maps(self, looked: Any, state: TransformerState) -> Tensor:
        """Return the attention of each word to the cells, (B, L, 1, N); the weights of a word sum to 1.

        The decoder predicts a word at the position of a [MASK]. The attention of a word is the attention of
        its [MASK] in the last block. It is averaged over heads, and added over both images. `looked` holds
        the queries of the [MASK] tokens, (B, L, h, d).
        """
        before, after = state.layers[-1].memory_keys.chunk(2, 2)  # [IMG1] or [IMG2], then cells
        keys = torch.cat([before[:, :, 1:], after[:, :, 1:]], 2)
        first, second = attention_weights(state.queries(looked), keys).mean(1).chunk(2, -1)
        return state.one_map(first + second)


def step(block: TransformerBlock, x: Tensor, past: Past, position: int) -> tuple[Tensor, Tensor]:
    """Apply one transformer block to the two tokens `x` of each caption, (R, 2, D).

    The two tokens are the caption's last word, at index `position`, and [MASK]. The last word does not
    see [MASK]. `past` has the keys and values of the image tokens and of the earlier words. The keys
    and values of `x` are added to it. Returns the block's output, (R, 2, D), and the queries of [MASK],
    (R, h, d).
    """
    attention, y = block.attention, block.norm_1(x)
    q = attention.queries(y)  # (R, h, 2, d)
    images = past.memory_keys[: past.left], past.memory_values[: past.left]
    heads = word_attention(q, images, past.append(*attention.keys_values(y), position))
    x = block.rest(x, attention.output(heads.transpose(1, 2).flatten(2)))
    return x, q[:, :, 1]
