"""Sampled captions: each word is drawn from the model's distribution over the words that it may write.

B: pairs; R: captions in progress; L: words; V: size of the vocabulary.
"""

import torch
from torch import Tensor

from models.common.captioner import Captioner, Difference, rows
from pipeline.decoding.greedy import Greedy


class Sampling(Greedy):
    """A batch's captions, each word drawn with torch's global generator."""

    def _choose(self, logits: Tensor) -> Tensor:
        """Logits (R, V) -> token ids (R)."""
        return torch.multinomial(logits.float().softmax(-1), 1)[:, 0]


@torch.no_grad()
def sample(model: Captioner, difference: Difference, samples: int) -> Tensor:
    """Draw `samples` captions of each of B pairs: token ids (B * samples, L), a pair's one after another.

    They have no <START>. A caption ends with <END>, followed by <NULL>, or is cut at the model's longest.
    """
    repeated = rows(difference, lambda x: x.repeat_interleave(samples, 0))
    return Sampling(model, repeated).run().words
