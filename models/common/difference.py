"""What encoding a batch of pairs gives: all that a decoder and the loss terms see of the images.

B pairs, N cells an image, D width, h heads, d = D/h.
"""

from dataclasses import dataclass

from torch import Tensor

from models.common.attention import attention_weights


@dataclass
class Difference:
    """What encoding a batch of pairs gives, by name."""

    memory: Tensor  # (B, N, D): what the decoder attends to; (B, 2N, D) where to each image by itself
    before: Tensor  # (B, N, D): the pair encoding, before any interaction
    after: Tensor  # (B, N, D)

    def alignment(self, rows: list[int]) -> Tensor | None:
        """Where cells of one image look in the other one; None where a model does not compare cells so."""
        return None


@dataclass
class Aligned(Difference):
    """Of a model that compares cells: how after looks at before in its last layer, (B, h, N, d) each."""

    after_queries: Tensor
    before_keys: Tensor

    def alignment(self, rows: list[int]) -> Tensor:
        """Of some pairs of the batch, rows x N x N: row i holds where cell i of after looks in before.

        SCORER's and DIRL's Eq. 5, the mean over the heads, summing to 1. Not for the whole batch at once:
        (N, N) is 196 x 196 a head.
        """
        return attention_weights(self.after_queries[rows], self.before_keys[rows]).mean(1)
