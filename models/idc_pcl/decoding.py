"""IDC-PCL's decoding: at each step, a [MASK] is appended to the caption, and a word is predicted there.

Image tokens do not see the text, so they pass the cross-modal blocks only once. A step computes two tokens:
the last word, whose keys and values are kept, and [MASK], whose keys and values are overwritten in the next
step. The decoder has no weights of its own; it uses the captioner's network.

B: pairs; k: captions per pair; R: captions of the pairs that are not finished; L: words; N: cells of an
image; M = 2(N + 1): image tokens of a pair; D: width; h: heads; d = D/h.
"""

import torch
from torch import Tensor

from models.common.attention import attention_weights
from models.common.decoder import NULL, Past, TransformerState
from models.common.decoder_protocol import Difference, NextWord, Unweighed, Words
from models.common.transformer_block import TransformerBlock
from models.idc_pcl.network import Network, word_attention


class Kept(Past):
    """Keys and values of one cross-modal block in a search, for image tokens and for the words so far."""

    def __init__(self, keys: Tensor, values: Tensor, longest: int, beam: int):
        self.memory_keys, self.memory_values = keys, values  # (B, h, M, d)
        self.beam, self.left = beam, len(keys)
        B, h, _, d = keys.shape
        self.keys = keys.new_empty(B, beam, h, longest, d)
        self.values = torch.empty_like(self.keys)

    def with_mask(self, k: Tensor, v: Tensor, position: int) -> tuple[Tensor, Tensor]:
        """Store the keys k and values v of a word and of the [MASK] after the word, (R, h, 2, d) each.

        The word is at `position`. Returns the keys and the values of all words so far and of [MASK], (R, h,
        position + 2, d) each.
        """
        keys, values = (kept[: self.left].flatten(0, 1) for kept in (self.keys, self.values))  # views
        keys[:, :, position : position + 2], values[:, :, position : position + 2] = k, v
        return keys[:, :, : position + 2], values[:, :, : position + 2]


class MaskDecoder(Unweighed):
    """Decoder that predicts a word at the position of [MASK]."""

    compiles = False  # it has no tensors of its own

    def __init__(self, network: Network, longest: int):
        self.network, self.longest = network, longest

    def __call__(
        self, tokens: Tensor, difference: Difference, keep_layers: bool = False, padding_is_key: bool = True
    ) -> Words:
        """Predict each token of captions with masked words, (k*B, L), at the token's own position.

        The memory is V~ (network.py), (B, M, D). No word sees the padding, which comes after all words.
        """
        x = self.network.over_words(tokens, self.network.over_images(difference.memory)[0])
        return Words(self.network.output(x), x, tokens != NULL, tokens != NULL)

    def begin(self, difference: Difference, beam: int = 1) -> TransformerState:
        """Return the search state before the first word, for `beam` captions of each pair."""
        kept, _ = self.network.over_images(difference.memory)
        return TransformerState([Kept(keys, values, self.longest, beam) for keys, values in kept])

    def step(self, tokens: Tensor, position: int, state: TransformerState) -> NextWord:
        """Predict the next word of each caption.

        `tokens`, (R), are the captions' words at `position`. A [MASK] is appended to each caption, and the
        word is predicted there.
        """
        masks, state.words = torch.full_like(tokens, self.network.mask), position + 1
        x = self.network.cross.norm(self.network.text(torch.stack([tokens, masks], 1), position))
        for block, kept in zip(self.network.cross.each(), state.layers, strict=True):
            assert isinstance(kept, Kept)
            x, queries = step(block, x, kept, position)
        return NextWord(self.network.output(x[:, 1]), queries)

    def maps(self, looked: Tensor | None, state: TransformerState) -> Tensor:
        """Return each word's attention to the cells, (B, L, 1, N), with a sum of 1.

        It is the attention of the [MASK] at which the word was predicted, in the last block. `looked` holds
        the queries of [MASK], (B, L, h, d). The attention is averaged over heads, and added over both images.
        """
        before, after = state.layers[-1].memory_keys.chunk(2, 2)  # [IMG1] or [IMG2], then cells
        keys = torch.cat([before[:, :, 1:], after[:, :, 1:]], 2)
        first, second = attention_weights(state.queries(looked), keys).mean(1).chunk(2, -1)
        return state.one_map(first + second)


def step(block: TransformerBlock, x: Tensor, kept: Kept, position: int) -> tuple[Tensor, Tensor]:
    """Apply one block to the last word of each caption and the [MASK] after the word, x, (R, 2, D).

    The word does not see the [MASK]. Returns the output, (R, 2, D), and the queries of [MASK], (R, h, d).
    """
    attention, y = block.attention, block.norm_1(x)
    q = attention.queries(y)  # (R, h, 2, d)
    images = kept.memory_keys[: kept.left], kept.memory_values[: kept.left]
    heads = word_attention(q, images, kept.with_mask(*attention.keys_values(y), position))
    x = block.rest(x, attention.output(heads.transpose(1, 2).flatten(2)))
    return x, q[:, :, 1]
