"""MCCFormers-D and -S: two images cell by cell through a transformer (Qiu et al., ICCV 2021).

B pairs, N cells an image, D width, M = 2D the decoder's width, h heads, L words. The paper's equations have
no numbers here: docs/methods.md, "MCCFormers".
"""

from dataclasses import dataclass, fields
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.common.attention import MultiHeadAttention, all_of
from models.common.captioner import (
    NEVER,
    Aligned,
    Captioner,
    Sizes,
    initialise_jointly,
    initialise_xavier,
    oppose_halves,
)
from models.common.decoder import CaptionDecoder, DecoderLayer
from models.common.entry import Entry
from models.common.grid_embedding import DataSizes, GridEmbedding
from models.common.transformer_block import TransformerBlock
from models.initialisation.counterpart_weights import SHOWN, calm_block, line_places

WORDS = 0.1  # bound of the words' and the logits' uniform first weights
# of opposed first weights:
GAIN = {"cross": 12.0, "joint": 4.0}  # of D's and S's keys and values: images differ by less than they show


@dataclass(frozen=True)
class MccSwitches:
    """The defaults are the paper's, or the standard part where nothing contradicts it."""

    # first weights of S's layers and of the decoder's: each by itself | the first one's, copied
    layers_start: Literal["separate", "equal"] = "separate"
    # decoding never writes <NULL>, <UNK> and <START> | may write any token
    barred: Literal["marks", "none"] = "marks"
    # first weights: the program's | those, but the decoder begins by looking at x_bef - x_aft; ours, for few
    # pairs
    first_weights: Literal["program", "opposed"] = "program"


RELEASED = MccSwitches(layers_start="equal", barred="none")


@dataclass(frozen=True)
class MccSizes(DataSizes):
    """Widths and depths."""

    width: int  # D
    heads: int  # of the encoder, and of the decoder
    layers: int  # of the encoder
    decoder_layers: int

    def __post_init__(self) -> None:
        """Raises ValueError where they make no model."""
        if self.width % self.heads or self.width % 2:
            raise ValueError(f"width {self.width} is not an even multiple of heads ({self.heads})")

    @property
    def shared(self) -> Sizes:
        """The same by the names of the pair encoding and the decoder: words are as wide as the decoder, M."""
        M = 2 * self.width
        data = self.channels, self.grid, self.vocabulary, self.longest
        return Sizes(*data, self.width, self.heads, self.layers, self.decoder_layers, M)


class CrossEncoder(nn.Module):
    """D: each cell asks the other image, never its own; both images have the same weights."""

    def __init__(self, sizes: MccSizes, dropout: float):
        super().__init__()
        self.layers = layers_of(sizes, dropout)

    def forward(self, before: Tensor, after: Tensor) -> Aligned:
        """The pair encoding, (B, N, D) each; the memory is (B, N, M)."""
        b, a = before, after
        for layer in all_of(TransformerBlock, self.layers):
            b_queries, a_queries = layer.attention.queries(b), layer.attention.queries(a)  # (B, h, N, d)
            (b_keys, b_values), (a_keys, a_values) = map(layer.attention.keys_values, (b, a))
            # both read the layer's inputs, not each other's outputs
            b = layer.rest(b, layer.attention.attend(b_queries, a_keys, a_values))  # (B, N, D)
            a = layer.rest(a, layer.attention.attend(a_queries, b_keys, b_values))
        return Aligned(torch.cat([b, a], -1), before, after, a_queries, b_keys)


class JointEncoder(nn.Module):
    """S: the cells of both images are one sequence; a vector for each image tells them apart."""

    def __init__(self, sizes: MccSizes, dropout: float):
        super().__init__()
        self.images = nn.Embedding(2, sizes.width)
        self.layers = layers_of(sizes, dropout)

    def forward(self, before: Tensor, after: Tensor) -> Aligned:
        """As D's. Its alignment is how a cell of after divides among before's what it gives to these."""
        u = torch.cat([before + self.images.weight[0], after + self.images.weight[1]], 1)  # (B, 2N, D)
        for layer in all_of(TransformerBlock, self.layers):
            queries, (keys, values) = layer.attention.queries(u), layer.attention.keys_values(u)
            u = layer.rest(u, layer.attention.attend(queries, keys, values))
        memory = torch.cat(u.chunk(2, 1), -1)  # (B, N, M)
        return Aligned(memory, before, after, queries.chunk(2, 2)[1], keys.chunk(2, 2)[0])


Encoder = CrossEncoder | JointEncoder


def layers_of(sizes: MccSizes, dropout: float) -> nn.ModuleList:
    """The encoder's post-LN layers, each with its own weights."""
    return nn.ModuleList(
        TransformerBlock(sizes.width, sizes.heads, dropout, nn.ReLU(), inner_dropout=True)
        for _ in range(sizes.layers)
    )


class Logits(nn.Linear):
    """W_o drop(x) + b."""

    def __init__(self, width: int, words: int, dropout: float):
        super().__init__(width, words)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.dropout(x, self.dropout, self.training))


class WideDecoder(CaptionDecoder):
    """The papers' decoder, M wide, over words as wide: neither a map nor a norm before its layers."""

    def __init__(self, sizes: Sizes, dropout: float, word_dropout: float):
        M = sizes.word_width
        super().__init__(sizes.vocabulary, sizes.longest, M, M, sizes.heads, sizes.decoder_layers, dropout)
        del self.project, self.norm
        self.dropout = nn.Dropout(word_dropout)
        self.vocabulary = Logits(M, sizes.vocabulary, dropout)

    def embed(self, tokens: Tensor, first: int = 0) -> Tensor:
        """Tokens (B, L), standing at positions first, first + 1, ... -> (B, L, M)."""
        return self.dropout(self.embedding(tokens) + self.positions[first : first + tokens.shape[1]])


def captioner(
    sizes: MccSizes, switches: MccSwitches, difference: Encoder, dropout: float, word_dropout: float
) -> Captioner:
    """The encoder, the decoder over it, and their first weights."""
    encoding = GridEmbedding(sizes.channels, sizes.width, sizes.grid)
    decoder = WideDecoder(sizes.shared, dropout, word_dropout)
    initialise(encoding, difference, decoder, copied=switches.layers_start == "equal")
    if switches.first_weights == "opposed":
        oppose(encoding, difference, decoder)
    model = Captioner(sizes, difference, {}, dropout, encoding=encoding, decoder=decoder)
    model.never = NEVER if switches.barred == "marks" else ()
    return model


@torch.no_grad()
def initialise(encoding: GridEmbedding, difference: Encoder, decoder: WideDecoder, copied: bool) -> None:
    """The program's first weights: D's encoder has Xavier's; S's and the decoder keep torch's, words apart.

    Everywhere an attention's query, key and value are one weight of Xavier's, and its biases 0. `copied`: the
    layers of S and of the decoder begin alike.
    """
    towers: list[nn.ModuleList] = [decoder.layers]
    if isinstance(difference, CrossEncoder):
        initialise_xavier(encoding)
        initialise_xavier(difference, joint=True)
    else:
        towers.append(difference.layers)
    for layers in towers:
        for attention in (each for each in layers.modules() if isinstance(each, MultiHeadAttention)):
            initialise_jointly(attention)
        for layer in layers[1:] if copied else ():
            layer.load_state_dict(layers[0].state_dict())
    decoder.embedding.weight.uniform_(-WORDS, WORDS)
    decoder.vocabulary.weight.uniform_(-WORDS, WORDS)
    decoder.vocabulary.bias.zero_()


@torch.no_grad()
def oppose(encoding: GridEmbedding, difference: Encoder, decoder: WideDecoder) -> None:
    """What the decoder looks at, keys and values, begins as a map of x_bef - x_aft (first_weights).

    S's vectors of the images begin at 0: their own difference, in every cell, is larger than any change.
    """
    if isinstance(difference, JointEncoder):
        difference.images.weight.zero_()
        gain = GAIN["joint"]
    else:
        pass_norms(encoding, difference)
        gain = GAIN["cross"]
    for layer in all_of(DecoderLayer, decoder.layers):
        assert isinstance(layer.cross_attention, MultiHeadAttention)
        for each in (layer.cross_attention.key, layer.cross_attention.value):
            oppose_halves(each.weight.mul_(gain))


def pass_norms(encoding: GridEmbedding, difference: CrossEncoder) -> None:
    """Layers add little, and norms leave how much cells differ: places are sines and cosines, and long."""
    D = encoding.project.out_channels
    for places in (encoding.row.weight, encoding.column.weight):
        places.copy_(line_places(len(places), D))
    encoding.project.weight *= SHOWN
    for layer in all_of(TransformerBlock, difference.layers):
        calm_block(layer)


def mccformers_d(
    sizes: MccSizes, switches: MccSwitches, *, dropout: float, default_dropout: float
) -> Captioner:
    """MCCFormers-D; `default_dropout`: of words, which the program leaves at its library's default."""
    return captioner(sizes, switches, CrossEncoder(sizes, dropout), dropout, default_dropout)


def mccformers_s(
    sizes: MccSizes, switches: MccSwitches, *, dropout: float, default_dropout: float
) -> Captioner:
    """MCCFormers-S; `default_dropout`: of words and of the encoder."""
    return captioner(sizes, switches, JointEncoder(sizes, default_dropout), dropout, default_dropout)


SWITCHES = frozenset(field.name for field in fields(MccSwitches))
MCCFORMERS_D = Entry(mccformers_d, RELEASED, SWITCHES, MccSizes, "mccformers")
MCCFORMERS_S = Entry(mccformers_s, RELEASED, SWITCHES, MccSizes, "mccformers")
