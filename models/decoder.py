"""The caption decoder that the papers share: a post-LN transformer over words (SCORER Eq. 8).

B captions of L words, e word width, D model width, h heads, d = D/h, N tokens of memory, V words.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from models.attention import MultiHeadAttention, attention_weights
from models.switches import PAPER, Switches

NULL = 0  # the padding token


def sinusoids(length: int, width: int) -> Tensor:
    """Fixed positions, L x e: sin, cos of position / 10000^(2i/e) in turn (Vaswani et al., 3.5)."""
    position = torch.arange(length)[:, None]
    frequency = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    table = torch.zeros(length, width)
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency)
    return table


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention to the difference, feed-forward; each with residual and LN."""

    def __init__(self, width: int, heads: int, dropout: float, switches: Switches = PAPER):
        super().__init__()
        output = switches.attention_output
        self.self_attention = MultiHeadAttention(width, heads, dropout, output=output)
        self.cross_attention = MultiHeadAttention(width, heads, dropout, output=output)
        self.wide = switches.feed_forward == "wide"
        self.feed_forward = (
            nn.Sequential(
                nn.Linear(width, 4 * width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(4 * width, width)
            )
            if self.wide
            else nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        """All words at once: B x L x D, B x N x D -> B x L x D."""
        x = self.norms[0](x + self.dropout(self.self_attention(x, x, causal=True)))
        return self.rest(x, *self.cross_attention.keys_values(memory))[0]

    def step(self, x: Tensor, past: "Past") -> tuple[Tensor, Tensor]:
        """One more word, B x 1 x D: the same as `forward`'s last word, from what `past` keeps.

        Beside it the queries, B x h x 1 x d, with which the word looked at the memory.
        """
        q = self.self_attention.queries(x)
        x = self.norms[0](x + self.dropout(self.self_attention.attend(q, *past.append(self, x))))
        return self.rest(x, past.memory_keys, past.memory_values)

    def rest(self, x: Tensor, memory_keys: Tensor, memory_values: Tensor) -> tuple[Tensor, Tensor]:
        """Everything after the self-attention, and the queries of the memory."""
        q = self.cross_attention.queries(x)
        x = self.norms[1](x + self.dropout(self.cross_attention.attend(q, memory_keys, memory_values)))
        return self.norms[2](self.fed_forward(x)), q

    def fed_forward(self, x: Tensor) -> Tensor:
        """The feed-forward with its residual, before the norm."""
        if self.wide:
            return x + self.dropout(self.feed_forward(x))
        first, gelu, last = self.feed_forward
        u = gelu(first(x))
        return self.dropout(last(u)) + u  # the residual is from u, not from x


class Past:
    """One layer's keys and values: of the memory, computed once, and of the words so far."""

    def __init__(self, layer: DecoderLayer, memory: Tensor):
        self.memory_keys, self.memory_values = layer.cross_attention.keys_values(memory)  # B x h x N x d
        self.keys: Tensor | None = None  # B x h x (words so far) x d
        self.values: Tensor | None = None

    def append(self, layer: DecoderLayer, x: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of all words up to and with x."""
        k, v = layer.self_attention.keys_values(x)
        self.keys = k if self.keys is None else torch.cat([self.keys, k], 2)
        self.values = v if self.values is None else torch.cat([self.values, v], 2)
        return self.keys, self.values


@dataclass
class Words:
    """What the decoder made of a batch of captions, by name."""

    logits: Tensor  # B x L x V
    hidden: Tensor  # B x L x D, the last layer's states, which `logits` are a linear map of
    real: Tensor  # B x L, true where the word to predict is not padding


@dataclass
class NextWord:
    """What one step of the decoder gives, by name."""

    logits: Tensor  # B x V
    queries: Tensor  # B x h x 1 x d, of the last layer's cross-attention


class CaptionDecoder(nn.Module):
    """Words given the words before them and the difference of a pair."""

    def __init__(
        self,
        vocabulary: int,
        longest: int,
        word_width: int,
        width: int,
        heads: int,
        layers: int,
        dropout: float,
        switches: Switches = PAPER,
    ):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, word_width, padding_idx=NULL)
        self.register_buffer("positions", sinusoids(longest, word_width), persistent=False)
        self.project = nn.Linear(word_width, width)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(DecoderLayer(width, heads, dropout, switches) for _ in range(layers))
        self.vocabulary = nn.Linear(width, vocabulary)

    def embed(self, tokens: Tensor, first: int = 0) -> Tensor:
        """Tokens B x L, standing at positions first, first + 1, ... -> B x L x D."""
        placed = self.embedding(tokens) + self.positions[first : first + tokens.shape[1]]  # B x L x e
        return self.norm(self.dropout(self.project(placed)))

    def forward(self, tokens: Tensor, memory: Tensor) -> Words:
        """Captions B x (L+1) with both marks, NULL-padded, and memory B x N x D: predict words 1..L."""
        x = self.embed(tokens[:, :-1])
        for layer in self.layers:
            x = layer(x, memory)
        return Words(self.vocabulary(x), x, tokens[:, 1:] != NULL)

    def begin(self, memory: Tensor) -> list[Past]:
        """What `step` keeps of a batch's memory, B x N x D."""
        return [Past(layer, memory) for layer in self.layers]

    def step(self, tokens: Tensor, position: int, past: list[Past]) -> NextWord:
        """The word after `tokens` (B), which stand at `position`."""
        x = self.embed(tokens[:, None], position)
        for layer, kept in zip(self.layers, past, strict=True):
            x, queries = layer.step(x, kept)
        return NextWord(self.vocabulary(x[:, 0]), queries)

    def attention(self, steps: Sequence[NextWord], past: list[Past]) -> Tensor:
        """Where the last layer looked to predict each word, B x L x N: its heads' mean, summing to 1.

        For all steps at once: each product with the keys first copies them.
        """
        queries = torch.cat([step.queries for step in steps], 2)  # B x h x L x d
        return attention_weights(queries, past[-1].memory_keys).mean(1)
