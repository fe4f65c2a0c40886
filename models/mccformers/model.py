"""MCCFormers-D and -S: transformers over the cells of two images (Qiu et al., ICCV 2021).

B: pairs; N: cells of an image; D: width; M = 2D: width of the decoder; h: heads; d = D/h; L: words.
Equations: docs/methods.md, "MCCFormers".
"""

from dataclasses import dataclass, fields
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.common.attention import MultiHeadAttention, TransformerBlock
from models.common.captioner import (
    NEVER,
    Aligned,
    Captioner,
    initialise_jointly,
    initialise_xavier,
    oppose_halves,
)
from models.common.decoder import CaptionDecoder
from models.common.entry import PLAIN, Entry, Layer
from models.common.grid_embedding import DataSizes, GridEmbedding, TransformerSizes
from models.initialisation.counterpart_weights import CONTENT_SCALE, line_places, scale_block

WORDS = 0.1  # word embeddings and the map of logits are initialised uniformly from -WORDS to WORDS
# initialisation `opposed`: factor of keys and values, because differences are smaller than the images
GAIN = {"cross": 12.0, "joint": 4.0}


@dataclass(frozen=True)
class MccSwitches:
    """Switches of the MCCFormers.

    A default is the paper's value, or the usual choice if the paper gives none. The comment above a switch
    describes its values, separated by |.
    """

    # initial weights of the layers of S's encoder and of the decoder: random in each layer | copies of the
    # first layer's
    layers_start: Literal["separate", "equal"] = "separate"
    # decoding never writes <NULL>, <UNK> and <START> | may write any token
    barred: Literal["marks", "none"] = "marks"
    # initial weights: the authors' program's | the same, but changed so that the decoder attends to the
    # difference x_bef - x_aft of the images' cells (not published, for training on few pairs)
    first_weights: Literal["program", "opposed"] = "program"


RELEASED = MccSwitches(layers_start="equal", barred="none")


@dataclass(frozen=True)
class MccSizes(DataSizes):
    """Sizes of the MCCFormers."""

    multiples = (("width", "heads"), ("width", 2))

    width: int  # D
    heads: int  # number of heads of the encoder, and also of the decoder
    layers: int  # number of layers of the encoder
    decoder_layers: int


class CrossEncoder(nn.Module):
    """Encoder of MCCFormers-D: cells attend to the other image; both directions have the same weights."""

    def __init__(self, sizes: MccSizes, dropout: float):
        super().__init__()
        self.layers = layers_of(sizes, dropout)

    def forward(self, before: Tensor, after: Tensor) -> Aligned:
        """Compare encoded images, (B, N, D) each; `memory`, (B, N, 2D), joins both at each cell."""
        b, a = before, after
        for layer in self.layers:
            b_queries, b_keys, b_values = layer.attention.projections(b)  # (B, h, N, d)
            a_queries, a_keys, a_values = layer.attention.projections(a)
            # both directions start from the layer's inputs
            b = layer.rest(b, layer.attention.attend(b_queries, a_keys, a_values))  # (B, N, D)
            a = layer.rest(a, layer.attention.attend(a_queries, b_keys, b_values))
        return Aligned(torch.cat([b, a], -1), before, after, a_queries, b_keys)


class MccJointEncoder(nn.Module):
    """Encoder of MCCFormers-S: the cells of both images are one sequence, with a learned vector per image."""

    def __init__(self, sizes: MccSizes, dropout: float):
        super().__init__()
        self.images = nn.Embedding(2, sizes.width)
        self.layers = layers_of(sizes, dropout)

    def forward(self, before: Tensor, after: Tensor) -> Aligned:
        """Compare encoded images, (B, N, D) each; `memory`, (B, N, 2D), joins both at each cell."""
        u = torch.cat([before + self.images.weight[0], after + self.images.weight[1]], 1)  # (B, 2N, D)
        for layer in self.layers:
            queries, keys, values = layer.attention.projections(u)
            u = layer.rest(u, layer.attention.attend(queries, keys, values))
        memory = torch.cat(u.chunk(2, 1), -1)  # (B, N, M)
        return Aligned(memory, before, after, queries.chunk(2, 2)[1], keys.chunk(2, 2)[0])


Encoder = CrossEncoder | MccJointEncoder


def layers_of(sizes: MccSizes, dropout: float) -> Any:
    """Build the layers of an encoder (post-LN): an nn.ModuleList of TransformerBlocks."""
    return nn.ModuleList(
        TransformerBlock(sizes.width, sizes.heads, dropout, nn.ReLU(), inner_dropout=True)
        for _ in range(sizes.layers)
    )


class Logits(nn.Linear):
    """Output layer W_o drop(x) + b, which computes the logits of words."""

    def __init__(self, width: int, words: int, dropout: float):
        super().__init__(width, words)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.dropout(x, self.dropout, self.training))


def wide_decoder(sizes: MccSizes, dropout: float, word_dropout: float) -> CaptionDecoder:
    """Build a decoder of width 2 * `sizes.width`, without linear map and layer norm after the embedding."""
    M, data = 2 * sizes.width, (sizes.channels, sizes.grid, sizes.vocabulary, sizes.longest)
    decoder = CaptionDecoder(TransformerSizes(*data, M, sizes.heads, sizes.decoder_layers, M), dropout)
    decoder.project = decoder.norm = nn.Identity()
    decoder.dropout = nn.Dropout(word_dropout)
    decoder.vocabulary = Logits(M, sizes.vocabulary, dropout)
    return decoder


def captioner(
    sizes: MccSizes, switches: MccSwitches, difference: Encoder, dropout: float, word_dropout: float
) -> Captioner:
    """Build a captioner with the encoder `difference`, and initialise it."""
    encoding = GridEmbedding(sizes.channels, sizes.width, sizes.grid)
    decoder = wide_decoder(sizes, dropout, word_dropout)
    initialise(encoding, difference, decoder, copied=switches.layers_start == "equal")
    if switches.first_weights == "opposed":
        oppose(encoding, difference, decoder)
    model = Captioner(sizes, difference, {}, dropout, encoding=encoding, decoder=decoder)
    model.never = NEVER if switches.barred == "marks" else ()
    return model


@torch.no_grad()
def initialise(encoding: GridEmbedding, difference: Encoder, decoder: CaptionDecoder, copied: bool) -> None:
    """Initialise the weights as the authors' program does.

    In MCCFormers-D, matrices are Xavier's, with attentions by `initialise_jointly`. Word embedding and output
    layer are uniform from -WORDS to WORDS. With `copied`, all layers of the decoder, and of MCCFormers-S's
    encoder, are copies of the first.
    """
    stacks: list[nn.ModuleList] = [decoder.layers]
    if isinstance(difference, CrossEncoder):
        initialise_xavier(encoding)
        initialise_xavier(difference, joint=True)
    else:
        stacks.append(difference.layers)
    for layers in stacks:
        for module in layers.modules():
            if isinstance(module, MultiHeadAttention):
                initialise_jointly(module)
        for layer in layers[1:] if copied else ():
            layer.load_state_dict(layers[0].state_dict())
    decoder.embedding.weight.uniform_(-WORDS, WORDS)
    decoder.vocabulary.weight.uniform_(-WORDS, WORDS)
    decoder.vocabulary.bias.zero_()


@torch.no_grad()
def oppose(encoding: GridEmbedding, difference: Encoder, decoder: CaptionDecoder) -> None:
    """Make the decoder's keys and values linear in x_bef - x_aft of a cell (`first_weights: opposed`)."""
    if isinstance(difference, MccJointEncoder):
        difference.images.weight.zero_()  # their difference would be larger than any change
        gain = GAIN["joint"]
    else:
        pass_norms(encoding, difference)
        gain = GAIN["cross"]
    for layer in decoder.layers:
        for map_ in (layer.cross_attention.key, layer.cross_attention.value):
            oppose_halves(map_.weight.mul_(gain))


def pass_norms(encoding: GridEmbedding, difference: CrossEncoder) -> None:
    """Make the layers of MCCFormers-D's encoder change the cells little.

    The position embeddings become longer than the cells' content, so that a layer norm divides all cells by
    nearly the same number, and preserves the size of their difference.
    """
    D = encoding.project.out_channels
    for positions in (encoding.row.weight, encoding.column.weight):
        positions.copy_(line_places(len(positions), D))
    encoding.project.weight *= CONTENT_SCALE
    for layer in difference.layers:
        scale_block(layer)


def mccformers_d(
    sizes: MccSizes, switches: MccSwitches, *, dropout: float, default_dropout: float
) -> Captioner:
    """Build MCCFormers-D; `default_dropout` is only that of word embeddings."""
    return captioner(sizes, switches, CrossEncoder(sizes, dropout), dropout, default_dropout)


def mccformers_s(
    sizes: MccSizes, switches: MccSwitches, *, dropout: float, default_dropout: float
) -> Captioner:
    """Build MCCFormers-S; `default_dropout` is that of the encoder and of word embeddings."""
    return captioner(sizes, switches, MccJointEncoder(sizes, default_dropout), dropout, default_dropout)


SWITCHES = frozenset(field.name for field in fields(MccSwitches))
LAYER: Layer = {
    "settings": {"dropout": 0.5, "default_dropout": 0.1},
    "sizes": {"heads": 4, "layers": 2},
    "train": PLAIN | {"learning_rate": 1e-4, "schedule": "constant"},
}
MCCFORMERS_D = Entry(mccformers_d, RELEASED, SWITCHES, MccSizes, "mccformers", layer=LAYER)
MCCFORMERS_S = Entry(mccformers_s, RELEASED, SWITCHES, MccSizes, "mccformers", layer=LAYER)
