"""Sample captions: each word is drawn from the model's distribution over the words that it may write.

B: pairs; R: captions that have not ended; L: tokens of a caption; V: size of the vocabulary.
"""

import torch
from torch import Tensor

from models.common.captioner import Captioner, Difference, rows
from pipeline.decoding.greedy import Greedy


class Sampling(Greedy):
    """Search like Greedy, except that each word is drawn at random, with torch's global generator."""

    def _choose(self, logits: Tensor) -> Tensor:
        """Return a random next word of each caption, (R,), given the logits, (R, V)."""
        return torch.multinomial(logits.float().softmax(-1), 1)[:, 0]


@torch.no_grad()
def sample(model: Captioner, difference: Difference, samples: int) -> Tensor:
    """Return `samples` random captions of each of B pairs, as token ids, (B * samples, L).

    The captions of a pair are consecutive, and have no <START>. A caption ends with <END>, followed by
    <NULL>, or is cut at the model's limit of tokens.
    """
    repeated = rows(difference, lambda x: x.repeat_interleave(samples, 0))
    return Sampling(model, repeated).run().words
