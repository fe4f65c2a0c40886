"""Which positions of a caption have a word, and packing of captions so that only these are computed.

The id 0 is padding only after the last word of a caption. Inside a caption it is a word: CLIP's byte pairs
give this id to a "!", and a released program may write <NULL>.

k: captions per pair; B: pairs; L: words; T: positions with a word; D: width.
"""

import torch
from torch import Tensor

NULL = 0  # the padding token
END = 3  # <END>, which ends a caption


def up_to_last(tokens: Tensor) -> Tensor:
    """Return a mask, (captions, L), that is true up to the last token of each caption that is not NULL."""
    places = torch.arange(1, tokens.shape[1] + 1, device=tokens.device)
    return places <= ((tokens != NULL) * places).amax(1, keepdim=True)


def of_captions(tokens: Tensor) -> Tensor:
    """Return a mask, (captions, L), of tokens before the padding; a caption without <END> has no padding."""
    return up_to_last(tokens) | (tokens != END).all(1, keepdim=True)


class RealWords:
    """Packing of captions, so that linear maps are computed only at the T positions with a word.

    Captions are packed on a CPU only. On a GPU, the program would have to wait until T is known.
    """

    def __init__(self, read: Tensor | None):
        """Store `read`, (k*B, L), True at positions with a word. None: `pack` and `unpack` return x."""
        self.read, self.indices = read, None if read is None else read.flatten().nonzero()[:, 0]

    def pack(self, x: Tensor) -> Tensor:
        return x if self.indices is None else x.flatten(0, 1).index_select(0, self.indices)

    def unpack(self, x: Tensor) -> Tensor:
        """Undo `pack`: return x, (T, D), as (k*B, L, D), with zeros at the positions without a word."""
        if self.read is None or self.indices is None:
            return x
        unpacked = x.new_zeros(self.read.numel(), x.shape[-1])
        return unpacked.index_copy(0, self.indices, x).unflatten(0, self.read.shape)


ALL_WORDS = RealWords(None)
