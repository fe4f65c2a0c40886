"""Packing of captions, which removes padding before a decoder's linear maps.

B: pairs; k: captions of a pair; L: positions of a caption, with padding; T: number of positions with a word,
in all captions together; C: channels.
"""

from torch import Tensor


class AllWords:
    """No packing: linear maps are computed at all positions, including padding."""

    def pack(self, x: Tensor) -> Tensor:
        """Return x, (k*B, L, C), unchanged."""
        return x

    def spread(self, x: Tensor) -> Tensor:
        """Return x, (k*B, L, C), unchanged."""
        return x


ALL_WORDS = AllWords()


class RealWords(AllWords):
    """Packing of the T positions with a word, which are 40 % of all positions in the dataset `tabletop`.

    It is used on a CPU only. On a GPU, the program would have to wait until the number of words is known.
    """

    def __init__(self, read: Tensor):
        """Find the positions with a word: those where `read`, (k*B, L), is true."""
        self.shape, self.at = read.shape, read.flatten().nonzero()[:, 0]

    def pack(self, x: Tensor) -> Tensor:
        """Return the values of x, (k*B, L, C), at the T positions with a word: (T, C)."""
        return x.flatten(0, 1).index_select(0, self.at)

    def spread(self, x: Tensor) -> Tensor:
        """Put the values x, (T, C), at their positions in captions, (k*B, L, C); padding gets zeros."""
        whole = x.new_zeros(self.shape.numel(), x.shape[-1])
        return whole.index_copy(0, self.at, x).unflatten(0, self.shape)
