"""The change captioner: pair encoding, difference, decoder and loss terms. All models are Captioners.

B: pairs; C: feature channels; H x W: grid; N = H*W: cells; D: width; L: words; V: size of the vocabulary;
R: captions per pair.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, Literal, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.common.attention import MultiHeadAttention
from models.common.decoder import NULL, CaptionDecoder
from models.common.decoder_protocol import Aligned as Aligned  # a model's file imports them from here
from models.common.decoder_protocol import Decoder, States, Words
from models.common.decoder_protocol import Difference as Difference
from models.common.distributed_batch import total
from models.common.grid_embedding import DataSizes, GridEmbedding
from models.common.grid_embedding import PairMap as PairMap
from models.common.grid_embedding import Sizes as Sizes
from models.common.switches import PAPER, Switches
from models.common.trainable import Labels, Trainable

Record = TypeVar("Record", bound="Difference | Words | States")
# the decoder's input ends with: the last word | <END> | padding up to the length of the longest caption
Reads = Literal["words", "end", "padding"]
NEVER = (NULL, 1, 2)  # <NULL>, <UNK>, <START>: not words of a caption
DEVIATION = 0.02  # standard deviation of the released programs' initial weights


class Regulariser(nn.Module):
    """Additional loss term: maps the Difference and the Words of a batch to a scalar."""

    def prepare(self, pair: Difference, words: Words) -> Any:
        """Return the record that `forward` gets in place of the Difference; it is computed for all parts."""
        return pair

    def constrain(self) -> None:
        """Clamp the parameters to their bounds, if they have any; called after each optimiser step."""


class Captioner(Trainable):
    """Model that captions the change between two images.

    difference: turns two encoded images into a Difference
    regularisers: additional loss terms by name; `loss.lambda_<name>` is the weight of a term
    respective: the decoder attends to each image separately; the memory holds the tokens of both images
    keep_layers: the Words include the states of each decoder layer
    reads: where the decoder's input ends
    encoding, decoder: already initialised; None: SCORER's, initialised according to the switches
    """

    parts: Literal["mean", "sum"] = "mean"  # how the losses of the parts are combined
    never: tuple[int, ...] = NEVER  # tokens that decoding does not write

    def __init__(
        self,
        sizes: DataSizes,
        difference: nn.Module,
        regularisers: Mapping[str, Regulariser],
        dropout: float,
        switches: Switches = PAPER,
        respective: bool = False,
        keep_layers: bool = False,
        reads: Reads = "words",
        encoding: nn.Module | None = None,
        decoder: Decoder[Any] | None = None,
    ):
        super().__init__()
        self.sizes, self.keep_layers, self.reads = sizes, keep_layers, reads
        self.cells = sizes.grid  # rows and columns of the decoder's attention maps
        self.encoding = encoding or GridEmbedding(
            sizes.channels, _papers(sizes).width, sizes.grid, switches.coordinates
        )
        self.difference = difference
        self.regularisers = nn.ModuleDict(regularisers)
        self.decoder: Decoder[Any] = decoder or _decoder(_papers(sizes), dropout, switches, respective)
        if encoding is not None:
            return
        if switches.initialisation == "normal":
            initialise(self)
        elif switches.initialisation != "torch":
            initialise_xavier(self, joint=switches.initialisation == "xavier_joint")
        if switches.initialisation == "xavier_opposed":
            oppose(self)

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the loss terms, starting with `cap`, the cross-entropy of the caption."""
        return ("cap", *self.regularisers)

    def class_token_maps(self, before: Tensor, after: Tensor) -> dict[str, Tensor]:
        """Return the image encoder's class-token attention by block, for images (B, C, H, W).

        Each entry is (B, 2, rows, columns) and sums to 1 over an image. Empty without class tokens.
        """
        return {}

    def encode(self, before: Tensor, after: Tensor) -> Difference:
        """Encode the feature grids (B, C, H, W) of both images as a Difference."""
        return self.difference(self.encoding(before), self.encoding(after))

    def losses(self, before: Tensor, after: Tensor, tokens: Tensor) -> dict[str, Tensor]:
        """Return all loss terms, scalars, for the feature grids (B, C, H, W) of both images.

        `tokens`: (B, L+1), with <START> and <END>, padded with NULL.
        """
        return self.losses_of(self.encoding(before), self.encoding(after), tokens)

    def losses_of(
        self, before: Tensor, after: Tensor, tokens: Tensor, parts: int = 1, labels: Labels | None = None
    ) -> dict[str, Tensor]:
        """Return all loss terms for encoded images (B, N, D).

        The batch is split into `parts` equal parts; their losses are averaged or summed (`self.parts`).

        tokens: (B*R, L+1), a pair's R captions are consecutive; regularisers see only its first caption
        parts: a pair is contrasted only with pairs of its own part (SCORER section 4.3)

        If processes share the batch, each returns its share of a term (distributed_batch.py).
        """
        difference = self.difference(before, after)
        tokens = self.padded(tokens)
        words = self.decoder(tokens, difference, self.keep_layers, self.reads != "padding")
        R = len(tokens) // len(before)
        first = rows(words, lambda x: x[::R])
        records = {name: split(each.prepare(difference, first), parts) for name, each in self._extra.items()}
        each = zip(split(words, parts), split(first, parts), tokens.chunk(parts), strict=True)
        terms = [
            {"cap": caption_loss(own, target)}
            | {name: term(records[name][part], single) for name, term in self._extra.items()}
            for part, (own, single, target) in enumerate(each)
        ]
        together = torch.mean if self.parts == "mean" else torch.sum
        return {name: together(torch.stack([found[name] for found in terms])) for name in self.terms}

    def word_logits(self, tokens: Tensor, difference: Difference) -> Tensor:
        """Logits of each word given the words before it: captions (R*B, L+1) -> (R*B, L, V).

        The R captions of a pair follow each other; they have both marks and are NULL-padded.
        """
        return self.decoder(tokens, difference).logits.float()

    def padded(self, tokens: Tensor) -> Tensor:
        """Pad captions (B, L+1) so that the decoder's input ends where `reads` says."""
        room = max(0, self.sizes.longest + 1 - tokens.shape[1])  # the decoder does not read the last token
        more = {"words": 0, "end": min(1, room), "padding": room}[self.reads]
        return F.pad(tokens, (0, more), value=NULL)

    @property
    def _extra(self) -> dict[str, Regulariser]:
        return {name: each for name, each in self.regularisers.items() if isinstance(each, Regulariser)}

    def constrain(self) -> None:
        """Clamp learned temperatures to their bounds; called after each optimiser step."""
        for regulariser in self._extra.values():
            regulariser.constrain()


def _papers(sizes: DataSizes) -> Sizes:
    assert isinstance(sizes, Sizes)  # models with other sizes pass their own encoding and decoder
    return sizes


def _decoder(sizes: Sizes, dropout: float, switches: Switches, respective: bool) -> CaptionDecoder:
    return CaptionDecoder(
        sizes.vocabulary,
        sizes.longest,
        sizes.word_width,
        sizes.width,
        sizes.heads,
        sizes.decoder_layers,
        dropout,
        switches,
        respective=respective,
    )


@torch.no_grad()
def initialise(model: nn.Module) -> None:
    """Initialise as SCORER's released program does: N(0, 0.02) for linear maps and embeddings, biases 0.

    Convolutions and layer norms keep torch's initialisation; the padding token's row stays zero.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear) and type(module) in (nn.Linear, PairMap):
            module.weight.normal_(0.0, DEVIATION)
            if module.bias is not None:
                module.bias.zero_()
        if type(module) is nn.Embedding:
            module.weight.normal_(0.0, DEVIATION)
            if module.padding_idx is not None:
                module.weight[module.padding_idx].zero_()


def initialise_xavier(model: nn.Module, joint: bool = False) -> None:
    """Initialise each weight of two or more dimensions by Xavier's uniform (Glorot and Bengio, 2010).

    Other parameters keep torch's initialisation; the padding token's row stays zero. `joint`: query, key and
    value of an attention count as one weight, (3D, D), and its biases are 0, as in nn.MultiheadAttention.
    """
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
    if joint:
        for module in model.modules():
            if isinstance(module, MultiHeadAttention):
                initialise_jointly(module)
    for module in model.modules():
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            nn.init.zeros_(module.weight[module.padding_idx])


@torch.no_grad()
def oppose(model: nn.Module) -> None:
    """Initialise each fusion as a map of the difference, like Subtraction: equal images cancel out."""
    for module in model.modules():
        if isinstance(module, PairMap):
            oppose_halves(module.weight)


@torch.no_grad()
def oppose_halves(weight: Tensor) -> None:
    """Make W [x ; y] = W' (x - y): the second half of W, (..., 2D), becomes the negative of the first."""
    first, second = weight.chunk(2, 1)
    second.copy_(-first)


def initialise_jointly(attention: MultiHeadAttention) -> None:
    """Initialise query, key and value by Xavier's uniform, as one weight; biases 0."""
    for map_ in (attention.query, attention.key, attention.value):
        nn.init.xavier_uniform_(map_.weight, gain=0.5**0.5)  # sqrt(6 / (3D + D)), not sqrt(6 / (D + D))
    for name, parameter in attention.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)


def split(record: Record, parts: int) -> list[Record]:
    """Split a Difference or Words into equal parts."""

    def part(number: int) -> Callable[[Tensor], Tensor]:
        return lambda x: x.chunk(parts)[number]

    return [rows(record, part(number)) for number in range(parts)]


def rows(record: Record, choose: Callable[[Tensor], Tensor]) -> Record:
    """Choose rows of a Difference or Words; each field is a tensor or a tuple of such records."""

    def chosen(value: Tensor | tuple[Record, ...]) -> Any:
        return choose(value) if isinstance(value, Tensor) else tuple(rows(each, choose) for each in value)

    return replace(record, **{field.name: chosen(getattr(record, field.name)) for field in fields(record)})


def caption_loss(words: Words, tokens: Tensor) -> Tensor:
    """L_cap (SCORER Eq. 12): cross-entropy, averaged over the target tokens of all processes."""
    logits, targets = words.logits.float().flatten(0, 1), tokens[:, 1:].flatten()
    summed = F.cross_entropy(logits, targets, ignore_index=NULL, reduction="sum")
    return summed / total(words.real.sum())
