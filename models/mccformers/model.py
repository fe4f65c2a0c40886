"""MCCFormers-D and -S: transformers over the cells of two images (Qiu et al., ICCV 2021).

B: pairs; N: cells of an image; D: width; M = 2D: width of the decoder; h: heads; d = D/h; L: words.
Equations: docs/methods.md, "MCCFormers".
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

    width: int  # D
    heads: int  # number of heads of the encoder, and also of the decoder
    layers: int  # number of layers of the encoder
    decoder_layers: int

    def __post_init__(self) -> None:
        """Check that the sizes fit each other. Raises ValueError if not."""
        if self.width % self.heads or self.width % 2:
            raise ValueError(f"width {self.width} is not an even multiple of heads ({self.heads})")

    @property
    def shared(self) -> Sizes:
        """These sizes as `Sizes`, for shared modules; word embeddings have the decoder's width, M."""
        M = 2 * self.width
        data = self.channels, self.grid, self.vocabulary, self.longest
        return Sizes(*data, self.width, self.heads, self.layers, self.decoder_layers, M)


class CrossEncoder(nn.Module):
    """Encoder of MCCFormers-D, in which the cells of an image attend only to the other image.

    Both directions use the same weights.
    """

    def __init__(self, sizes: MccSizes, dropout: float):
        super().__init__()
        self.layers = layers_of(sizes, dropout)

    def forward(self, before: Tensor, after: Tensor) -> Aligned:
        """Compute the difference of the encoded images, (B, N, D) each; its memory is (B, N, M)."""
        b, a = before, after
        for layer in all_of(TransformerBlock, self.layers):
            b_queries, b_keys, b_values = layer.attention.projections(b)  # (B, h, N, d)
            a_queries, a_keys, a_values = layer.attention.projections(a)
            # both directions start from the layer's inputs
            b = layer.rest(b, layer.attention.attend(b_queries, a_keys, a_values))  # (B, N, D)
            a = layer.rest(a, layer.attention.attend(a_queries, b_keys, b_values))
        return Aligned(torch.cat([b, a], -1), before, after, a_queries, b_keys)


class JointEncoder(nn.Module):
    """Encoder of MCCFormers-S, in which the cells of both images form a single sequence.

    A learned vector is added to the cells of each image.
    """

    def __init__(self, sizes: MccSizes, dropout: float):
        super().__init__()
        self.images = nn.Embedding(2, sizes.width)
        self.layers = layers_of(sizes, dropout)

    def forward(self, before: Tensor, after: Tensor) -> Aligned:
        """Compute the difference of the encoded images, (B, N, D) each; its memory is (B, N, M).

        The result's method `alignment` normalises the attention of an after image's cell over the before
        image's cells, although the layers attend to the cells of both images.
        """
        u = torch.cat([before + self.images.weight[0], after + self.images.weight[1]], 1)  # (B, 2N, D)
        for layer in all_of(TransformerBlock, self.layers):
            queries, keys, values = layer.attention.projections(u)
            u = layer.rest(u, layer.attention.attend(queries, keys, values))
        memory = torch.cat(u.chunk(2, 1), -1)  # (B, N, M)
        return Aligned(memory, before, after, queries.chunk(2, 2)[1], keys.chunk(2, 2)[0])


Encoder = CrossEncoder | JointEncoder


def layers_of(sizes: MccSizes, dropout: float) -> nn.ModuleList:
    """Build the layers of an encoder (post-LN)."""
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


class WideDecoder(CaptionDecoder):
    """Caption decoder of width M, whose word embeddings also have the width M.

    There is no linear map and no layer norm between the embedding and the first layer.
    """

    def __init__(self, sizes: Sizes, dropout: float, word_dropout: float):
        M = sizes.word_width
        super().__init__(sizes.vocabulary, sizes.longest, M, M, sizes.heads, sizes.decoder_layers, dropout)
        del self.project, self.norm
        self.dropout = nn.Dropout(word_dropout)
        self.vocabulary = Logits(M, sizes.vocabulary, dropout)

    def embed(self, tokens: Tensor, first: int = 0) -> Tensor:
        """Embed tokens, (B, L), at the positions `first`, `first` + 1, ...; return (B, L, M)."""
        return self.dropout(self.embedding(tokens) + self.positions[first : first + tokens.shape[1]])


def captioner(
    sizes: MccSizes, switches: MccSwitches, difference: Encoder, dropout: float, word_dropout: float
) -> Captioner:
    """Build a captioner with the encoder `difference`, and initialise it."""
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
    """Initialise the weights as the authors' program does.

    The encoder of MCCFormers-D gets Xavier's initialisation; the encoder of MCCFormers-S and the decoder keep
    torch's, except for attentions. In all attentions, query, key and value maps count as a single weight,
    initialised by Xavier's uniform, and biases are 0. Word embeddings and the map of logits are drawn
    uniformly from -WORDS to WORDS. With `copied`, all layers of the decoder and of the encoder of
    MCCFormers-S are copies of the first layer.
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
    """Initialise the decoder's keys and values as linear maps of x_bef - x_aft (`first_weights: opposed`).

    The learned vectors of the images in MCCFormers-S are set to 0, because their difference would be larger
    than any change.
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
    """Initialise the encoder of MCCFormers-D so that its layers change the cells little.

    Position embeddings become longer than the cells' content; so layer norms do not change how much cells
    differ.
    """
    D = encoding.project.out_channels
    for places in (encoding.row.weight, encoding.column.weight):
        places.copy_(line_places(len(places), D))
    encoding.project.weight *= SHOWN
    for layer in all_of(TransformerBlock, difference.layers):
        calm_block(layer)


def mccformers_d(
    sizes: MccSizes, switches: MccSwitches, *, dropout: float, default_dropout: float
) -> Captioner:
    """Build MCCFormers-D.

    `default_dropout` is the dropout of word embeddings, for which the authors' program uses torch's default.
    """
    return captioner(sizes, switches, CrossEncoder(sizes, dropout), dropout, default_dropout)


def mccformers_s(
    sizes: MccSizes, switches: MccSwitches, *, dropout: float, default_dropout: float
) -> Captioner:
    """Build MCCFormers-S. `default_dropout` is the dropout of word embeddings and of the encoder."""
    return captioner(sizes, switches, JointEncoder(sizes, default_dropout), dropout, default_dropout)


SWITCHES = frozenset(field.name for field in fields(MccSwitches))
MCCFORMERS_D = Entry(mccformers_d, RELEASED, SWITCHES, MccSizes, "mccformers")
MCCFORMERS_S = Entry(mccformers_s, RELEASED, SWITCHES, MccSizes, "mccformers")
