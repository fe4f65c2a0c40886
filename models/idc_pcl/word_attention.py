"""What IDC-PCL's words see while captions are learned and written: the image tokens, and the words so far.

B pairs, R captions of each, one after another; h heads, d = D/h; M image tokens; W words,
of which the last L ask.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

KeysValues = tuple[Tensor, Tensor]


def word_attention(q: Tensor, images: KeysValues, words: KeysValues, dropout: float = 0.0) -> Tensor:
    """L queries, (RB, h, L, d), of `images`, (B, h, M, d) each, and `words`, (RB, h, W, d) each.

    -> (RB, h, L, d). No word behind its own is seen. The captions of a pair share its images' keys and
    values, which are not repeated: their queries stand together. `dropout`: of the weights.
    """
    (keys, values), (word_keys, word_values) = images, words
    (B, _, M, d), L, W = keys.shape, q.shape[2], word_keys.shape[2]
    q = q / math.sqrt(d)
    to_images = apart(together(q, B) @ keys.transpose(-2, -1), L)
    later = torch.ones(L, W, dtype=torch.bool, device=q.device).triu(W - L + 1)
    to_words = (q @ word_keys.transpose(-2, -1)).masked_fill(later, -math.inf)
    weights = F.dropout(torch.cat([to_images, to_words], -1).softmax(-1), dropout)
    return apart(together(weights[..., :M], B) @ values, L) + weights[..., M:] @ word_values


def together(x: Tensor, pairs: int) -> Tensor:
    """(RB, h, L, n) -> (B, h, RL, n)."""
    return x.unflatten(0, (pairs, -1)).transpose(1, 2).flatten(2, 3)


def apart(x: Tensor, queries: int) -> Tensor:
    """(B, h, RL, n) -> (RB, h, L, n)."""
    return x.unflatten(2, (-1, queries)).transpose(1, 2).flatten(0, 1)
