"""The caption decoder that the papers share: a post-LN transformer over words (SCORER Eq. 8).

B captions of L words, e word width, D model width, h heads, d = D/h, N tokens of memory, V words.
"""

import math

import torch
from torch import Tensor, nn

from models.common.attention import MultiHeadAttention, RespectiveAttention, all_of
from models.common.decoder_protocol import Exchange, NextWord, States, Unweighed, Words
from models.common.difference import Difference
from models.common.switches import PAPER, Switches
from models.common.transformer_block import feed_forward

NULL = 0  # the padding token


def sinusoids(length: int, width: int) -> Tensor:
    """Fixed positions, (L, e): sin, cos of position / 10000^(2i/e) in turn (Vaswani et al., 3.5)."""
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
            feed_forward(width, nn.ReLU(), dropout)
            if self.wide
            else nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width, switches.norm_epsilon) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, memory: Tensor, keys: Tensor | None = None) -> States:
        """All words at once: (R*B, L, D), (B, N, D) -> what becomes of them.

        The R captions of a pair follow each other, and look at its memory as if they were one of R*L words.
        `keys`, (R*B, L): only words where it is true are keys of the self-attention.
        """
        own = self.self_attention(x, x, causal=True, real=keys)
        x = self.norms[0](x + self.dropout(own))
        together = x.unflatten(0, (len(memory), -1)).flatten(1, 2)  # (B, R*L, D)
        seen = self.cross_attention(together, memory).view_as(x)
        y = self.norms[1](x + self.dropout(seen))
        return States(own, x, seen, y, self.norms[2](self.fed_forward(y)))

    def step(self, x: Tensor, past: "Past", position: int) -> tuple[Tensor, Tensor]:
        """One more word of each caption, (R, 1, D): `forward`'s last word, from what `past` keeps.

        Beside it the queries, (R, h, d), with which each caption looked at its pair's memory.
        """
        q = self.self_attention.queries(x)
        keys, values = past.append(self, x, position)
        x = self.norms[0](x + self.dropout(self.self_attention.attend(q, keys, values)))
        together = x.view(-1, past.beam, x.shape[-1])  # (B, k, D): a pair's captions share its memory
        x, q = self.rest(together, past.memory_keys[: past.left], past.memory_values[: past.left])
        return x.flatten(0, 1)[:, None], q.transpose(1, 2).flatten(0, 1)

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
        self.memory_keys, self.memory_values = layer.cross_attention.keys_values(memory)  # (B, h, N, d)
        self.beam, self.left = beam, len(memory)
        B, h, _, d = self.memory_keys.shape
        self.keys = memory.new_empty(B, beam, h, longest, d)
        self.values = torch.empty_like(self.keys)

    def append(self, layer: DecoderLayer, x: Tensor, position: int) -> tuple[Tensor, Tensor]:
        """Keys and values of all words up to and with x (R x 1 x D): (R, h, position + 1, d)."""
        k, v = layer.self_attention.keys_values(x)
        keys, values = (kept[: self.left].flatten(0, 1) for kept in (self.keys, self.values))  # views
        keys[:, :, position], values[:, :, position] = k[:, :, 0], v[:, :, 0]
        return keys[:, :, : position + 1], values[:, :, : position + 1]

    def follow(self, parents: Tensor, words: int) -> None:
        """Each caption goes on from the first `words` words of the row that `parents` (R) names."""
        for kept in (self.keys, self.values):
            rows = kept[: self.left].flatten(0, 1)[:, :, :words]  # a view
            rows.copy_(rows[parents])

    def leave(self, places: Exchange) -> None:
        """Only the first `places.left` pairs are captioned from here on, after the exchange.

        Of pairs that left, only the memory's keys are kept: the maps need them.
        """
        places.apply(self.memory_keys)
        for kept in (self.memory_values, self.keys, self.values):
            places.move(kept)
        self.left = places.left


class TransformerState:
    """What a transformer over words keeps: each layer's keys and values, and which pair stands where."""

    def __init__(self, layers: list[Past]):
        self.layers, self.words = layers, 0
        memory = layers[-1].memory_keys
        self.order = torch.arange(len(memory), device=memory.device)

    def follow(self, parents: Tensor) -> None:
        """Each caption goes on from that of the row which `parents` (R) names."""
        for kept in self.layers:
            kept.follow(parents, self.words)

    def leave(self, ended: Tensor) -> None:
        """Without the pairs for which `ended` (left) is true."""
        places = Exchange(ended)
        for kept in self.layers:
            kept.leave(places)
        places.apply(self.order)

    def queries(self, looked: Tensor | None) -> Tensor:
        """The queries of the words, (B, L, h, d) -> (B, h, L, d), pairs as the memory's keys stand."""
        assert looked is not None  # each step gives its queries
        return looked[self.order].transpose(1, 2).contiguous()

    def one_map(self, maps: Tensor) -> Tensor:
        """(B, L, N), pairs as the memory's keys stand -> (B, L, 1, N), as they stood in `begin`."""
        return maps[self.order.argsort(), :, None]


class TransformerDecoder(Unweighed, nn.Module):
    """Words given the words before them and a pair's memory, by DecoderLayers.

    Subclasses have `layers`, `longest`, `embed` and `predict`.
    """

    compiles = True
    layers: nn.ModuleList
    longest: int  # words of a caption

    def embed(self, tokens: Tensor, first: int = 0) -> Tensor:
        """Tokens (B, L) at positions first, first + 1, ... -> (B, L, D)."""
        raise NotImplementedError

    def predict(self, x: Tensor) -> Tensor:
        """States (..., D) -> logits (..., V)."""
        raise NotImplementedError

    def memory_of(self, difference: Difference, number: int) -> Tensor:
        """The memory of the layer of that number: (B, N, D)."""
        return difference.memory

    def forward(
        self, tokens: Tensor, difference: Difference, keep_layers: bool = False, padding_is_key: bool = True
    ) -> Words:
        """Predict words 1..L of captions (R*B, L+1), R of each pair in turn, with both marks, NULL-padded.

        `keep_layers`: keep each layer's states in the Words. `padding_is_key` concerns only the states at
        padding, because no real word sees the padding after it.
        """
        x, read = self.embed(tokens[:, :-1]), tokens[:, :-1] != NULL
        kept = []
        for number, layer in enumerate(self.layers):
            states = layer(x, self.memory_of(difference, number), None if padding_is_key else read)
            x = states.out
            kept += [states] if keep_layers else []
        return Words(self.predict(x), x, tokens[:, 1:] != NULL, read, tuple(kept))

    def begin(self, difference: Difference, beam: int = 1) -> TransformerState:
        """The state that `step` needs to write `beam` captions of each pair."""
        layers = enumerate(all_of(DecoderLayer, self.layers))
        return TransformerState(
            [Past(layer, self.memory_of(difference, number), self.longest, beam) for number, layer in layers]
        )

    def step(self, tokens: Tensor, position: int, state: TransformerState) -> NextWord:
        """Predict the word after `tokens`, (R), which are at `position`."""
        x, state.words = self.embed(tokens[:, None], position), position + 1
        for layer, kept in zip(all_of(DecoderLayer, self.layers), state.layers, strict=True):
            x, queries = layer.step(x, kept, position)
        return NextWord(self.predict(x[:, 0]), queries)

    def maps(self, looked: Tensor | None, state: TransformerState) -> Tensor:
        """Attention of the last layer for the queries of each word: (B, L, h, d) -> (B, L, 1, N).

        The mean over heads, and over both images if each is attended to separately; sums to 1. It is computed
        for all words at once, because each product with the keys copies them.
        """
        last, keys = all_of(DecoderLayer, self.layers)[-1], state.layers[-1].memory_keys
        return state.one_map(last.cross_attention.map(state.queries(looked), keys))


class CaptionDecoder(TransformerDecoder):
    """The papers' decoder. `respective`: the memory is (B, 2N, D), both images' tokens (attention.py)."""

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
        self.longest = longest
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
        placed = self.embedding(tokens) + self.positions[first : first + tokens.shape[1]]  # (B, L, e)
        x = self.project(placed)
        return self.norm(self.dropout(x)) if self.norm_last else self.dropout(self.norm(x))

    def predict(self, x: Tensor) -> Tensor:
        return self.vocabulary(x)
