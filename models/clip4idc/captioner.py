"""CLIP4IDC's captioner: a post-LN transformer, encoder and decoder (its section 2.4 and appendix B).

B pairs, M = 2t tokens of both images, E width, S layers of the encoder and as many of the decoder, V words.
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.clip4idc.encoders import ClipSizes, Tables
from models.clip4idc.switches import ClipSwitches
from models.common.attention import MultiHeadAttention, all_of
from models.common.decoder import NULL, DecoderLayer, Past, TransformerState
from models.common.decoder_protocol import NextWord, Unweighed, Words
from models.common.difference import Difference
from models.common.switches import PAPER

EPSILON = 1e-12  # of its layer norms
DEVIATION = 0.02  # of its first weights


class EncoderLayer(nn.Module):
    """LN(x + drop(MHA(x))), then LN(x + drop(W_2 GELU(W_1 x))), W_1 E -> 4E."""

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.attention = MultiHeadAttention(width, heads, dropout)
        self.feed_forward = feed_forward(width)
        self.norms = nn.ModuleList(nn.LayerNorm(width, EPSILON) for _ in range(2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """B x M x E."""
        x = self.norms[0](x + self.dropout(self.attention(x, x)))
        return self.norms[1](x + self.dropout(self.feed_forward(x)))


def feed_forward(width: int) -> nn.Sequential:
    """W_2 GELU(W_1 x), by the error function."""
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


class Memories(nn.Module):
    """The captioner's encoder over F': every layer's output, or the last one's alone."""

    def __init__(self, sizes: ClipSizes, switches: ClipSwitches, dropout: float):
        super().__init__()
        self.layerwise = switches.memory == "layerwise"
        self.layers = nn.ModuleList(
            EncoderLayer(sizes.joint, sizes.caption_heads, dropout) for _ in range(sizes.caption_layers)
        )
        initialise(self, deviation(sizes, switches))

    def forward(self, x: Tensor) -> Tensor:
        """B x M x E -> B x S x M x E, or B x 1 x M x E."""
        found = []
        for layer in self.layers:
            x = layer(x)
            found.append(x)
        return torch.stack(found if self.layerwise else found[-1:], 1)


class ClipDecoder(Unweighed, nn.Module):
    """Words given the words before them and the memories of a pair, B x S x M x E.

    Words are predicted by the table that they are read by: logits = h E^T + b.
    """

    compiles = True

    def __init__(self, sizes: ClipSizes, switches: ClipSwitches, dropout: float):
        super().__init__()
        E = sizes.joint
        self.longest = sizes.longest
        self.tables = Tables(sizes.vocabulary, sizes.context, E, DEVIATION)
        self.norm = nn.LayerNorm(E, EPSILON)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(layer(sizes, dropout) for _ in range(sizes.caption_layers))
        self.head, self.head_norm = nn.Sequential(nn.Linear(E, E), nn.GELU()), nn.LayerNorm(E, EPSILON)
        self.bias = nn.Parameter(torch.zeros(sizes.vocabulary))
        initialise(self, deviation(sizes, switches))

    def embed(self, tokens: Tensor, first: int = 0) -> Tensor:
        """Tokens B x L, standing at positions first, first + 1, ... -> B x L x E."""
        return self.dropout(self.norm(self.tables(tokens, first)))

    def predict(self, x: Tensor) -> Tensor:
        """States ... x E -> logits ... x V."""
        return F.linear(self.head_norm(self.head(x)), self.tables.tokens.weight, self.bias)

    def forward(
        self, tokens: Tensor, difference: Difference, keep_layers: bool = False, padding_is_key: bool = True
    ) -> Words:
        """Captions R*B x (L+1) with both marks, NULL-padded: predict words 1..L.

        As CaptionDecoder's. No real word sees padding, which comes after it, whether or not it is a key.
        """
        x, read = self.embed(tokens[:, :-1]), tokens[:, :-1] != NULL
        kept = []
        for number, each in enumerate(all_of(DecoderLayer, self.layers)):
            states = each(x, of_layer(difference.memory, number), None if padding_is_key else read)
            x = states.out
            kept += [states] if keep_layers else []
        return Words(self.predict(x), x, tokens[:, 1:] != NULL, read, tuple(kept))

    def begin(self, difference: Difference, beam: int = 1) -> TransformerState:
        """What `step` keeps of a batch, to write `beam` captions of each pair."""
        memory, layers = difference.memory, enumerate(all_of(DecoderLayer, self.layers))
        return TransformerState(
            [Past(each, of_layer(memory, number), self.longest, beam) for number, each in layers]
        )

    def step(self, tokens: Tensor, position: int, state: TransformerState) -> NextWord:
        """The word after `tokens` (R), which stand at `position`."""
        x, state.words = self.embed(tokens[:, None], position), position + 1
        for each, kept in zip(all_of(DecoderLayer, self.layers), state.layers, strict=True):
            x, queries = each.step(x, kept, position)
        return NextWord(self.predict(x[:, 0]), queries)

    def maps(self, looked: Tensor | None, state: TransformerState) -> Tensor:
        """Where the last layer looked with the queries of each word, B x L x h x d -> B x L x 1 x n.

        The mean of the heads and of both images' patches, class tokens left out; summing to 1.
        """
        last, keys = all_of(DecoderLayer, self.layers)[-1], state.layers[-1].memory_keys
        before, after = last.cross_attention.map(state.queries(looked), keys).chunk(2, -1)
        patches = before[..., 1:] + after[..., 1:]
        return state.one_map(patches / patches.sum(-1, keepdim=True))


def layer(sizes: ClipSizes, dropout: float) -> DecoderLayer:
    """The shared decoder layer, with CLIP4IDC's feed-forward and epsilon."""
    made = DecoderLayer(sizes.joint, sizes.caption_heads, dropout, replace(PAPER, norm_epsilon=EPSILON))
    made.feed_forward = feed_forward(sizes.joint)
    return made


def of_layer(memory: Tensor, number: int) -> Tensor:
    """A decoder layer's memory, B x M x E: its own, where each has one."""
    return memory[:, number if memory.shape[1] > 1 else 0]


def deviation(sizes: ClipSizes, switches: ClipSwitches) -> float:
    """Of the maps' first weights. DEVIATION suits a width of 512: 128 wide, hardly anything gets through."""
    return DEVIATION if switches.first_weights == "clip" else sizes.joint**-0.5


@torch.no_grad()
def initialise(module: nn.Module, deviation: float) -> None:
    """N(0, deviation) for linear maps, biases 0."""
    for each in module.modules():
        if isinstance(each, nn.Linear):
            each.weight.normal_(0.0, deviation)
            each.bias.zero_()
