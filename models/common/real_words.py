"""The rows of a decoder's linear maps: all positions of a batch of captions, or only those with a word.

B: pairs; k: captions of a pair; L: positions; T: positions with a word; C: channels.
"""

from torch import Tensor


class AllWords:
    """Rows of a decoder's linear maps: every position of captions (k*B, L), padding too."""

    def pack(self, x: Tensor) -> Tensor:
        """Return the rows of positions (k*B, L, C)."""
        return x

    def spread(self, x: Tensor) -> Tensor:
        """Return rows at their positions: (k*B, L, C)."""
        return x


ALL_WORDS = AllWords()


class RealWords(AllWords):
    """Only the T positions with a word: on tabletop 40 % of all. Padding gets zeros.

    For a CPU: on a GPU, the number of words would have to be waited for.
    """

    def __init__(self, read: Tensor):
        self.shape, self.at = read.shape, read.flatten().nonzero()[:, 0]

    def pack(self, x: Tensor) -> Tensor:
        """(k*B, L, C) -> (T, C)."""
        return x.flatten(0, 1).index_select(0, self.at)

    def spread(self, x: Tensor) -> Tensor:
        """(T, C) -> (k*B, L, C)."""
        whole = x.new_zeros(self.shape.numel(), x.shape[-1])
        return whole.index_copy(0, self.at, x).unflatten(0, self.shape)
