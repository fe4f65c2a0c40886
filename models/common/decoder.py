"""The caption decoder that several papers share: a post-LN transformer over words (SCORER Eq. 8).

B: pairs; k: captions per pair; L: words; T: positions with a word (packing.py); e: word width;
D: model width; h: heads; d = D/h; N: tokens of the memory; V: size of the vocabulary. In a search, the pairs
that are not finished come first in the tensors; left: their number; R = left * k: number of their captions.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from models.common.attention import MultiHeadAttention, RespectiveAttention, feed_forward, jointly
from models.common.decoder_protocol import Difference, Exchange, NextWord, States, Unweighed, Words
from models.common.grid_embedding import Sizes, TransformerSizes
from models.common.packing import ALL_WORDS, NULL, RealWords, of_captions
from models.common.switches import PAPER, Switches


def sinusoids(length: int, width: int) -> Tensor:
    """Return fixed position embeddings, (length, width): sin and cos of position / 10000^(2i/width)."""
    position = torch.arange(length)[:, None]
    frequency = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    table = torch.zeros(length, width)
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency)
    return table


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention, feed-forward layer, each with residual and layer norm."""

    def __init__(
        self, width: int, heads: int, dropout: float, switches: Switches = PAPER, respective: bool = False
    ):
        super().__init__()
        output, self.wide = switches.attention_output, switches.feed_forward == "wide"
        self.self_attention = MultiHeadAttention(width, heads, dropout, output=output)
        if respective:
            self.cross_attention: Any = RespectiveAttention(width, heads, dropout)
        else:
            self.cross_attention = MultiHeadAttention(width, heads, dropout, output=output)
        if self.wide:
            self.feed_forward = feed_forward(width, nn.ReLU(), dropout)
        else:
            self.feed_forward = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width, switches.norm_epsilon) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Tensor, memory: Tensor, keys: Tensor | None = None, words: RealWords = ALL_WORDS
    ) -> States:
        """Apply the layer to words, (k*B, L, D) or packed (T, D); only `keys`, (k*B, L), are attended to."""
        self_attended = self.attend_words(x, keys, words)
        x = self.norms[0](x + self.dropout(self_attended))
        cross_attended = self.attend_memory(x, memory, words)
        y = self.norms[1](x + self.dropout(cross_attended))
        return States(self_attended, x, cross_attended, y, self.norms[2](self.fed_forward(y)))

    def attend_words(self, x: Tensor, keys: Tensor | None, words: RealWords) -> Tensor:
        """Return the self-attention's output. `x`, `keys` and `words` are as in `forward`."""
        maps = self.self_attention
        projected = jointly(x, maps.query, maps.key, maps.value)
        q, k, v = (maps.split(words.unpack(x)) for x in projected)  # (k*B, h, L, d)
        heads = maps.weighed(q, k, v, causal=True, real=keys)  # (k*B, L, D)
        return maps.output(words.pack(heads))

    def attend_memory(self, x: Tensor, memory: Tensor, words: RealWords) -> Tensor:
        """Return the cross-attention's output. `x`: words, as in `forward`; `memory`: (B, N, D)."""
        maps = self.cross_attention
        q = words.unpack(maps.query(x))  # (k*B, L, D)
        pair_queries = q.unflatten(0, (len(memory), -1)).flatten(1, 2)  # (B, k*L, D)
        heads = maps.weighed(maps.split(pair_queries), *maps.keys_values(memory))
        return maps.output(words.pack(heads.unflatten(1, (-1, q.shape[1])).flatten(0, 1)))

    def step(self, x: Tensor, past: "Past", position: int) -> tuple[Tensor, Tensor]:
        """Apply the layer to each caption's newest word, x, (R, 1, D); add its keys and values to `past`.

        Returns the output, (R, 1, D), and the queries of the cross-attention, (R, h, d).
        """
        q = self.self_attention.queries(x)
        keys, values = past.append(*self.self_attention.keys_values(x), position)
        x = self.norms[0](x + self.dropout(self.self_attention.attend(q, keys, values)))
        x = x.view(-1, past.beam, x.shape[-1])  # (left, k, D): a pair's captions share its memory
        q = self.cross_attention.queries(x)
        memory = past.memory_keys[: past.left], past.memory_values[: past.left]
        x = self.norms[1](x + self.dropout(self.cross_attention.attend(q, *memory)))
        x = self.norms[2](self.fed_forward(x))
        return x.flatten(0, 1)[:, None], q.transpose(1, 2).flatten(0, 1)

    def fed_forward(self, x: Tensor) -> Tensor:
        """Apply the feed-forward layer with its residual; the layer norm is not applied."""
        if self.wide:
            return x + self.dropout(self.feed_forward(x))
        w1, gelu, w2 = self.feed_forward
        u = gelu(w1(x))
        return self.dropout(w2(u)) + u  # the residual is from u, not from x


class Past:
    """Keys and values of one decoder layer in a search, for the memory and for the words so far.

    From the start, the tensors have room for captions of `longest` words, so no new word needs a copy.
    """

    def __init__(self, keys: Tensor, values: Tensor, longest: int, beam: int):
        """Store the memory, (B, h, N, d) each; make room for `beam` captions of `longest` words per pair."""
        self.memory_keys, self.memory_values = keys, values
        self.beam, self.left = beam, len(keys)
        B, h, _, d = keys.shape
        self.keys = keys.new_empty(B, beam, h, longest, d)
        self.values = torch.empty_like(self.keys)

    def append(self, k: Tensor, v: Tensor, position: int) -> tuple[Tensor, Tensor]:
        """Store n new words from `position` on: k, v (R, h, n, d) -> all so far, (R, h, position + n, d)."""
        end = position + k.shape[2]
        keys, values = (rows[: self.left].flatten(0, 1) for rows in (self.keys, self.values))  # views
        keys[:, :, position:end], values[:, :, position:end] = k, v
        return keys[:, :, :end], values[:, :, :end]

    def follow(self, parents: Tensor, words: int) -> None:
        """Give each caption r the keys and values of the first `words` words of caption parents[r]."""
        for stored in (self.keys, self.values):
            rows = stored[: self.left].flatten(0, 1)[:, :, :words]  # a view
            rows.copy_(rows[parents])

    def leave(self, exchange: Exchange) -> None:
        """Keep only the unfinished pairs, first; the maps need the finished pairs' memory keys, now last."""
        exchange.apply(self.memory_keys)
        for rows in (self.memory_values, self.keys, self.values):
            exchange.move(rows)
        self.left = exchange.left


class TransformerState:
    """Search state (decoder_protocol.State) of a transformer decoder: keys and values of each layer."""

    def __init__(self, layers: list[Past]):
        self.layers, self.words = layers, 0
        memory = layers[-1].memory_keys
        self.order = torch.arange(len(memory), device=memory.device)  # at each row, the pair's original index

    def follow(self, parents: Tensor) -> None:
        for past in self.layers:
            past.follow(parents, self.words)

    def leave(self, ended: Tensor) -> None:
        exchange = Exchange(ended)
        for past in self.layers:
            past.leave(exchange)
        exchange.apply(self.order)

    def queries(self, trace: Tensor) -> Tensor:
        """Put generated words' queries into the search's order of pairs: (B, L, h, d) -> (B, h, L, d)."""
        return trace[self.order].transpose(1, 2).contiguous()

    def one_map(self, maps: Tensor) -> Tensor:
        """Put maps from the search's order of pairs into the batch's: (B, L, N) -> (B, L, 1, N)."""
        return maps[self.order.argsort(), :, None]


class TransformerDecoder(Unweighed, nn.Module):
    """Base class of transformer decoders. Subclasses define `layers`, `longest`, `embed` and `predict`."""

    compiles = True
    layers: Any  # nn.ModuleList of DecoderLayers
    longest: int  # largest number of words of a caption

    def embed(self, tokens: Tensor, first: int = 0) -> Tensor:
        """Embed tokens, (B, L), at the positions `first`, `first` + 1, ...; return (B, L, D)."""
        raise NotImplementedError

    def predict(self, x: Tensor) -> Tensor:
        """Return the next word's logits for states of the last layer: (..., D) -> (..., V)."""
        raise NotImplementedError

    def memory_of(self, difference: Difference, number: int) -> Tensor:
        """Return the tensor, (B, N, D), that layer `number` attends to; here the same for all layers."""
        return difference.memory

    def forward(
        self, tokens: Tensor, difference: Difference, keep_layers: bool = False, padding_is_key: bool = True
    ) -> Words:
        """Predict words 1 to L of the captions `tokens`, (k*B, L+1), each from the words before it.

        The k captions of a pair are consecutive. `padding_is_key` changes only outputs at padding. On a CPU,
        these are zero if it is true and `keep_layers` is false.
        """
        x, read = self.embed(tokens[:, :-1]), of_captions(tokens[:, :-1])
        packs = x.device.type == "cpu" and padding_is_key and not keep_layers
        words, layer_states = RealWords(read) if packs else ALL_WORDS, []
        x = words.pack(x)
        for number, layer in enumerate(self.layers):
            states = layer(x, self.memory_of(difference, number), None if padding_is_key else read, words)
            x = states.out
            layer_states += [states] if keep_layers else []
        logits, hidden = words.unpack(self.predict(x)), words.unpack(x)
        return Words(logits, hidden, of_captions(tokens[:, 1:]), read, tuple(layer_states))

    def begin(self, difference: Difference, beam: int = 1) -> TransformerState:
        pasts = []
        for number, layer in enumerate(self.layers):
            keys, values = layer.cross_attention.keys_values(self.memory_of(difference, number))
            pasts.append(Past(keys, values, self.longest, beam))
        return TransformerState(pasts)

    def step(self, tokens: Tensor, position: int, state: TransformerState) -> NextWord:
        x, state.words = self.embed(tokens[:, None], position), position + 1
        for layer, past in zip(self.layers, state.layers, strict=True):
            x, queries = layer.step(x, past, position)
        return NextWord(self.predict(x[:, 0]), queries)

    def maps(self, trace: Any, state: TransformerState) -> Tensor:
        """Return the last layer's attention, averaged over heads: trace (B, L, h, d) -> (B, L, 1, N)."""
        attention, keys = self.layers[-1].cross_attention, state.layers[-1].memory_keys
        return state.one_map(attention.map(state.queries(trace), keys))


class CaptionDecoder(TransformerDecoder):
    """Caption decoder of SCORER, DIRL and others. `respective=True`: separate attention to each image."""

    def __init__(
        self,
        sizes: Sizes | TransformerSizes,
        dropout: float,
        switches: Switches = PAPER,
        respective: bool = False,
    ):
        super().__init__()
        V, e, width, self.longest = sizes.vocabulary, sizes.word_width, sizes.width, sizes.longest
        self.embedding = nn.Embedding(V, e, padding_idx=NULL)
        self.positions = nn.Buffer(sinusoids(self.longest, e), persistent=False)
        self.project: nn.Module = nn.Linear(e, width)
        self.norm: nn.Module = nn.LayerNorm(width, switches.norm_epsilon)
        self.dropout = nn.Dropout(dropout)
        self.norm_last = switches.word_dropout == "before_norm"
        self.layers = nn.ModuleList(
            DecoderLayer(width, sizes.heads, dropout, switches, respective)
            for _ in range(sizes.decoder_layers)
        )
        self.vocabulary = nn.Linear(width, V)

    def embed(self, tokens: Tensor, first: int = 0) -> Tensor:
        x = self.embedding(tokens) + self.positions[first : first + tokens.shape[1]]  # (B, L, e)
        x = self.project(x)
        return self.norm(self.dropout(x)) if self.norm_last else self.dropout(self.norm(x))

    def predict(self, x: Tensor) -> Tensor:
        return self.vocabulary(x)
