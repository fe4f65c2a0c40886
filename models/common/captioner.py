"""A change captioner: pair encoding, difference, words; what every model of the papers is made of.

B pairs, C feature channels, H x W grid, N = H*W cells, D width, L words, V vocabulary.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, Literal, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.common.attention import MultiHeadAttention
from models.common.decoder import NULL, CaptionDecoder
from models.common.decoder_protocol import Decoder, States, Words
from models.common.difference import Aligned as Aligned  # what a model's file needs comes from here
from models.common.difference import Difference as Difference
from models.common.distributed_batch import total
from models.common.grid_embedding import DataSizes, GridEmbedding
from models.common.grid_embedding import PairMap as PairMap
from models.common.grid_embedding import Sizes as Sizes
from models.common.switches import PAPER, Switches
from models.common.trainable import Labels, Trainable

Record = TypeVar("Record", bound="Difference | Words | States")
# how far the decoder reads: to the last word | to <END> | through padding, to the longest caption's length
Reads = Literal["words", "end", "padding"]
NEVER = (NULL, 1, 2)  # <NULL>, <UNK>, <START>: no words of a caption
DEVIATION = 0.02  # of the released programs' first weights


class Regulariser(nn.Module):
    """A loss term beside the caption's: called with the Difference and the Words of a batch, a scalar."""

    def constrain(self) -> None:
        """Bring its parameters back to where they may be, after an optimiser's step; most may be anywhere."""


class Captioner(Trainable):
    """`difference` turns two encoded images into a Difference; each regulariser adds a loss term.

    A regulariser's name is the term's: `loss.lambda_<name>` weighs it. `respective`: the decoder attends
    to both images' tokens, which the Difference's memory then holds, each image by itself. `keep_layers`:
    the Words hold what each layer made of them; `reads`: how far they go. A model that has an `encoding` and
    a `decoder` of its own gives both, with their first weights.
    """

    parts: Literal["mean", "sum"] = "mean"  # how the parts' losses come together
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
        self.cells = sizes.grid  # lines and columns that the decoder's attention is shown on
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
        """The names of the loss terms; `cap`, the caption's cross-entropy, first."""
        return ("cap", *self.regularisers)

    def looks(self, before: Tensor, after: Tensor) -> dict[str, Tensor]:
        """Where an image encoder looks, by its blocks: B x 2 x lines x columns, each image's summing to 1.

        Of both images, (B, C, H, W) each; nothing where the encoding compares no cells.
        """
        return {}

    def encode(self, before: Tensor, after: Tensor) -> Difference:
        """Feature grids (B, C, H, W) of both images -> their Difference."""
        return self.difference(self.encoding(before), self.encoding(after))

    def losses(self, before: Tensor, after: Tensor, tokens: Tensor) -> dict[str, Tensor]:
        """Every term of a batch, a scalar each, from feature grids (B, C, H, W) of both images.

        `tokens`: (B, L+1), with both marks, NULL-padded.
        """
        return self.losses_of(self.encoding(before), self.encoding(after), tokens)

    def losses_of(
        self, before: Tensor, after: Tensor, tokens: Tensor, parts: int = 1, labels: Labels | None = None
    ) -> dict[str, Tensor]:
        """`losses` of encoded images, (B, N, D): the mean, or sum, over `parts` equal parts in turn.

        `tokens`: R captions of each pair, one after another; the regularisers see the words of its first one.
        A pair is contrasted with the pairs of its own part (SCORER section 4.3: both pairs of a scene).
        Where processes share a batch, each returns its share of a term (distributed_batch.py).
        """
        difference = self.difference(before, after)
        tokens = self.padded(tokens)
        words = self.decoder(tokens, difference, self.keep_layers, self.reads != "padding")
        each = zip(split(difference, parts), split(words, parts), tokens.chunk(parts), strict=True)
        terms = [self._terms(*part, len(tokens) // len(before)) for part in each]
        together = torch.mean if self.parts == "mean" else torch.sum
        return {name: together(torch.stack([found[name] for found in terms])) for name in self.terms}

    def word_logits(self, tokens: Tensor, difference: Difference) -> Tensor:
        """Logits of each word given the words before it: captions (R*B, L+1) -> (R*B, L, V).

        The R captions of a pair follow each other; they have both marks and are NULL-padded.
        """
        return self.decoder(tokens, difference).logits.float()

    def padded(self, tokens: Tensor) -> Tensor:
        """Captions (B, L+1) with as much padding behind them that the decoder reads what it shall."""
        room = max(0, self.sizes.longest + 1 - tokens.shape[1])  # the decoder reads a token less
        more = {"words": 0, "end": min(1, room), "padding": room}[self.reads]
        return F.pad(tokens, (0, more), value=NULL)

    def _terms(self, difference: Difference, words: Words, tokens: Tensor, R: int) -> dict[str, Tensor]:
        first = rows(words, lambda x: x[::R])
        regularisers = {
            name: regulariser(difference, first) for name, regulariser in self.regularisers.items()
        }
        return {"cap": caption_loss(words, tokens)} | regularisers

    def constrain(self) -> None:
        """To call after every step of the optimiser: learned temperatures stay in their bounds."""
        for regulariser in self.regularisers.values():
            assert isinstance(regulariser, Regulariser)  # torch's dictionaries do not tell what they hold
            regulariser.constrain()


def _papers(sizes: DataSizes) -> Sizes:
    assert isinstance(sizes, Sizes)  # a model of other sizes has parts of its own
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
    """N(0, 0.02) for every linear map and embedding, biases 0: the released programs' first weights.

    Convolutions and layer norms keep torch's own; the padding token's row stays zero.
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
    """Xavier's uniform (Glorot and Bengio, 2010) for every weight of two or more dimensions.

    The others keep torch's own; the padding token's row stays zero. `joint`: an attention's query, key and
    value are one weight, (3D, D), and its biases 0, as in torch's nn.MultiheadAttention.
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
    """Make every fusion start as a map of the difference, as Subtraction is: what both show cancels."""
    for module in model.modules():
        if isinstance(module, PairMap):
            oppose_halves(module.weight)


@torch.no_grad()
def oppose_halves(weight: Tensor) -> None:
    """W [x ; y] becomes W' (x - y): (..., 2D), the second half the negative of the first."""
    first, second = weight.chunk(2, 1)
    second.copy_(-first)


def initialise_jointly(attention: MultiHeadAttention) -> None:
    """Xavier's uniform for query, key and value as one weight; biases 0."""
    for map_ in (attention.query, attention.key, attention.value):
        nn.init.xavier_uniform_(map_.weight, gain=0.5**0.5)  # sqrt(6 / (3D + D)), not sqrt(6 / (D + D))
    for name, parameter in attention.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)


def split(record: Record, parts: int) -> list[Record]:
    """A Difference or Words in equal parts."""

    def part(number: int) -> Callable[[Tensor], Tensor]:
        return lambda x: x.chunk(parts)[number]

    return [rows(record, part(number)) for number in range(parts)]


def rows(record: Record, choose: Callable[[Tensor], Tensor]) -> Record:
    """A Difference or Words with some rows only: every field is a tensor or a tuple of such records."""

    def chosen(value: Tensor | tuple[Record, ...]) -> Any:
        return choose(value) if isinstance(value, Tensor) else tuple(rows(each, choose) for each in value)

    return replace(record, **{field.name: chosen(getattr(record, field.name)) for field in fields(record)})


def caption_loss(words: Words, tokens: Tensor) -> Tensor:
    """L_cap (SCORER Eq. 12): cross-entropy, mean over the real target tokens of all processes' captions."""
    logits, targets = words.logits.float().flatten(0, 1), tokens[:, 1:].flatten()
    summed = F.cross_entropy(logits, targets, ignore_index=NULL, reduction="sum")
    return summed / total(words.real.sum())
