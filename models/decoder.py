"""The caption decoder that the papers share: a post-LN transformer over words (SCORER Eq. 8).

B captions of L words, e word width, D model width, h heads, d = D/h, N tokens of memory, V words.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from models.attention import MultiHeadAttention, RespectiveAttention, all_of
from models.variants import PAPER, Switches

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

    def __init__(
        self, width: int, heads: int, dropout: float, switches: Switches = PAPER, respective: bool = False
    ):
        super().__init__()
        output = switches.attention_output
        self.self_attention = MultiHeadAttention(width, heads, dropout, output=output)
        self.cross_attention = (
            RespectiveAttention(width, heads, dropout)
            if respective
            else MultiHeadAttention(width, heads, dropout, output=output)
        )
        self.wide = switches.feed_forward == "wide"
        self.feed_forward = (
            nn.Sequential(
                nn.Linear(width, 4 * width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(4 * width, width)
            )
            if self.wide
            else nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width, switches.norm_epsilon) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, memory: Tensor, keys: Tensor | None = None) -> "States":
        """All words at once: R*B x L x D, B x N x D -> what becomes of them.

        The R captions of a pair follow each other, and look at its memory as if they were one of R*L words.
        `keys`, R*B x L: only words where it is true are keys of the self-attention.
        """
        own = self.self_attention(x, x, causal=True, real=keys)
        x = self.norms[0](x + self.dropout(own))
        together = x.unflatten(0, (len(memory), -1)).flatten(1, 2)  # B x R*L x D
        seen = self.cross_attention(together, memory).view_as(x)
        y = self.norms[1](x + self.dropout(seen))
        return States(own, x, seen, y, self.norms[2](self.fed_forward(y)))

    def step(self, x: Tensor, past: "Past", position: int) -> tuple[Tensor, Tensor]:
        """One more word of each caption, R x 1 x D: `forward`'s last word, from what `past` keeps.

        Beside it the queries, B x h x k x d, with which the k captions of a pair looked at its memory.
        """
        q = self.self_attention.queries(x)
        keys, values = past.append(self, x, position)
        x = self.norms[0](x + self.dropout(self.self_attention.attend(q, keys, values)))
        together = x.view(-1, past.beam, x.shape[-1])  # B x k x D: a pair's captions share its memory
        x, q = self.rest(together, past.memory_keys[: past.left], past.memory_values[: past.left])
        return x.flatten(0, 1)[:, None], q

    def rest(self, x: Tensor, memory_keys: Tensor, memory_values: Tensor) -> tuple[Tensor, Tensor]:
        """What follows the self-attention, and the queries of the memory."""
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
    """One layer's keys and values: of the memory, computed once, and of the words so far.

    Of the B pairs, each with k captions, the first `left` are still captioned: R = left * k rows. There is
    room for the longest caption from the start, because room that grows is copied at every word.
    """

    def __init__(self, layer: DecoderLayer, memory: Tensor, longest: int, beam: int):
        self.memory_keys, self.memory_values = layer.cross_attention.keys_values(memory)  # B x h x N x d
        self.beam, self.left = beam, len(memory)
        B, h, _, d = self.memory_keys.shape
        self.keys = memory.new_empty(B, beam, h, longest, d)
        self.values = torch.empty_like(self.keys)

    def append(self, layer: DecoderLayer, x: Tensor, position: int) -> tuple[Tensor, Tensor]:
        """Keys and values of all words up to and with x (R x 1 x D): R x h x (position + 1) x d."""
        k, v = layer.self_attention.keys_values(x)
        keys, values = (kept[: self.left].flatten(0, 1) for kept in (self.keys, self.values))  # views
        keys[:, :, position], values[:, :, position] = k[:, :, 0], v[:, :, 0]
        return keys[:, :, : position + 1], values[:, :, : position + 1]

    def follow(self, parents: Tensor, words: int) -> None:
        """Each caption goes on from the first `words` words of the row that `parents` (R) names."""
        for kept in (self.keys, self.values):
            rows = kept[: self.left].flatten(0, 1)[:, :, :words]  # a view
            rows.copy_(rows[parents])

    def leave(self, places: "Exchange") -> None:
        """Only the first `places.left` pairs are captioned from here on, after the exchange.

        Of pairs that left, only the memory's keys are kept: `CaptionDecoder.attention` needs them.
        """
        places.apply(self.memory_keys)
        for kept in (self.memory_values, self.keys, self.values):
            places.move(kept)
        self.left = places.left


class Exchange:
    """Brings the rows that go on to the front: each that does not stand there takes an ended one's place."""

    def __init__(self, ended: Tensor):
        """`ended`: for each row in its place, whether it is to leave."""
        here = ~ended
        self.left = int(here.sum())
        self.front = ended[: self.left].nonzero()[:, 0].tolist()  # ended
        self.back = (self.left + here[self.left :].nonzero()[:, 0]).tolist()  # going on

    def move(self, rows: Tensor) -> None:
        """Copy the rows that go on; ended ones are lost. Row by row, for there is no room for many."""
        for front, back in zip(self.front, self.back, strict=True):
            rows[front].copy_(rows[back])

    def apply(self, rows: Tensor) -> None:
        """Exchange the rows: none is lost."""
        for front, back in zip(self.front, self.back, strict=True):
            ended = rows[front].clone()
            rows[front].copy_(rows[back])
            rows[back].copy_(ended)


@dataclass
class States:
    """What one layer makes of a batch of captions, step by step; B x L x D each."""

    self_attended: Tensor  # the self-attention's output
    self_normed: Tensor  # after its residual and LN
    cross_attended: Tensor  # the cross-attention's output: the difference that each word looked at
    cross_normed: Tensor
    out: Tensor  # after the feed-forward: the next layer's input


@dataclass
class Words:
    """What the decoder made of a batch of captions, by name."""

    logits: Tensor  # B x L x V
    hidden: Tensor  # B x L x D, the last layer's states, which `logits` are a linear map of
    real: Tensor  # B x L, true where the word to predict is not padding
    read: Tensor  # B x L, true where the word that is read is not padding: with <END>, if that is read
    layers: tuple[States, ...] = ()  # where they were asked for


@dataclass
class NextWord:
    """What one step of the decoder gives, by name."""

    logits: Tensor  # R x V
    queries: Tensor  # left x h x k x d, of the last layer's cross-attention


class Decoder(Protocol):
    """What a captioner's decoder can do: for all words at once, and word by word."""

    def __call__(
        self, tokens: Tensor, memory: Tensor, keep_layers: bool = False, padding_is_key: bool = True
    ) -> Words:
        """Captions with both marks and the pairs' memory -> what becomes of all words."""

    def begin(self, memory: Tensor, beam: int = 1) -> list[Past]:
        """What `step` keeps of a batch's memory."""

    def step(self, tokens: Tensor, position: int, past: list[Past]) -> NextWord:
        """The word after `tokens`, which stand at `position`."""

    def attention(self, queries: Tensor, past: list[Past]) -> Tensor:
        """Where the last layer looked for each word: captions x words x cells."""


class CaptionDecoder(nn.Module):
    """Words given the words before them and the difference of a pair.

    `respective`: the memory is B x 2N x D, both images' tokens (attention.py).
    """

    positions: Tensor

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
        respective: bool = False,
    ):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, word_width, padding_idx=NULL)
        self.register_buffer("positions", sinusoids(longest, word_width), persistent=False)
        self.project = nn.Linear(word_width, width)
        self.norm = nn.LayerNorm(width, switches.norm_epsilon)
        self.dropout = nn.Dropout(dropout)
        self.norm_last = switches.word_dropout == "before_norm"
        self.layers = nn.ModuleList(
            DecoderLayer(width, heads, dropout, switches, respective) for _ in range(layers)
        )
        self.vocabulary = nn.Linear(width, vocabulary)

    def embed(self, tokens: Tensor, first: int = 0) -> Tensor:
        """Tokens B x L, standing at positions first, first + 1, ... -> B x L x D."""
        placed = self.embedding(tokens) + self.positions[first : first + tokens.shape[1]]  # B x L x e
        x = self.project(placed)
        return self.norm(self.dropout(x)) if self.norm_last else self.dropout(self.norm(x))

    def forward(
        self, tokens: Tensor, memory: Tensor, keep_layers: bool = False, padding_is_key: bool = True
    ) -> Words:
        """Captions R*B x (L+1) with both marks, NULL-padded, and memory B x N x D: predict words 1..L.

        Of a pair R captions, one after another. `keep_layers`: the Words hold what each layer makes of them.
        `padding_is_key`: of what reads padding itself; no real word sees any, for padding comes after it.
        """
        x, read = self.embed(tokens[:, :-1]), tokens[:, :-1] != NULL
        kept = []
        for layer in self.layers:
            states = layer(x, memory, None if padding_is_key else read)
            x = states.out
            kept += [states] if keep_layers else []
        return Words(self.vocabulary(x), x, tokens[:, 1:] != NULL, read, tuple(kept))

    def begin(self, memory: Tensor, beam: int = 1) -> list[Past]:
        """What `step` keeps of a batch's memory, B x N x D, to write `beam` captions of each pair."""
        return [Past(layer, memory, len(self.positions), beam) for layer in all_of(DecoderLayer, self.layers)]

    def step(self, tokens: Tensor, position: int, past: list[Past]) -> NextWord:
        """The word after `tokens` (R), which stand at `position`."""
        x = self.embed(tokens[:, None], position)
        for layer, kept in zip(all_of(DecoderLayer, self.layers), past, strict=True):
            x, queries = layer.step(x, kept, position)
        return NextWord(self.vocabulary(x[:, 0]), queries)

    def attention(self, queries: Tensor, past: list[Past]) -> Tensor:
        """Where the last layer looked with the queries of each word, B x h x L x d -> B x L x N.

        The mean of its heads, and of both images where each is attended to by itself; summing to 1. For all
        words at once: each product with the keys copies them.
        """
        return all_of(DecoderLayer, self.layers)[-1].cross_attention.map(queries, past[-1].memory_keys)
