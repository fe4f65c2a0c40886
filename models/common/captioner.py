"""Captioner, the base class of all models: pair encoding, difference, decoder and loss terms.

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
from models.common.decoder import CaptionDecoder
from models.common.decoder_protocol import Aligned as Aligned  # a model's file imports them from here
from models.common.decoder_protocol import Decoder, States, Words
from models.common.decoder_protocol import Difference as Difference
from models.common.distributed_batch import total
from models.common.grid_embedding import DataSizes, GridEmbedding
from models.common.grid_embedding import PairMap as PairMap
from models.common.grid_embedding import Sizes as Sizes
from models.common.packing import END, NULL
from models.common.switches import PAPER, Switches
from models.common.trainable import Labels, Trainable

Record = TypeVar("Record", bound="Difference | Words | States")
# what the decoder's input ends with: the last word | <END> | padding up to the length of the longest caption
Reads = Literal["words", "end", "padding"]
NEVER = (NULL, 1, 2)  # <NULL>, <UNK> and <START>, which are not words of a caption
DEVIATION = 0.02  # standard deviation of the released programs' initial weights


class Regulariser(nn.Module):
    """Base class of loss terms: a call computes a scalar from the Difference and the Words of a batch."""

    def prepare(self, pair: Difference, words: Words) -> Any:
        """Return what `forward` needs, computed from the whole batch before it is split into parts."""
        return pair

    def constrain(self) -> None:
        """Clamp learned temperatures to their bounds; called after each optimiser step."""


Terms = Mapping[str, Regulariser]  # loss terms besides the caption loss, by name


class TermModules(nn.ModuleDict):
    """Loss terms by name. Unlike in torch's class, a name may be that of a method, such as `type`."""

    def add_module(self, name: str, module: nn.Module | None) -> None:
        self._modules[name] = module  # type: ignore[assignment]


class Captioner(Trainable):
    """Model that captions the change between two images.

    sizes: sizes of the model: an object with the fields of DataSizes. The default modules of `encoding`
        and `decoder` also need fields of Sizes, such as `width`.
    difference: module that computes a Difference from two encoded images
    regularisers: additional loss terms by name; `loss.lambda_<name>` is the weight of a term
    switches: options of the default modules (switches.py). If `encoding` is None, the option
        `initialisation` also decides how all weights of the model are initialised.
    respective: True if the decoder attends to each image separately
    keep_layers: True if the decoder's output (class Words) includes the states of each of its layers
    encoding, decoder: modules with initial weights; None: the default module, which is SCORER's
    """

    sizes: DataSizes
    regularisers: Any  # nn.ModuleDict: name of the loss term -> Regulariser
    parts: Literal["mean", "sum"] = "mean"  # how the losses of a batch's parts are combined
    never: tuple[int, ...] = NEVER  # tokens that decoding never writes
    ends: tuple[int, ...] = (END,)  # tokens that end a caption

    def __init__(
        self,
        sizes: Any,
        difference: nn.Module,
        regularisers: Terms,
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
        if encoding is None:
            self.encoding = GridEmbedding(sizes.channels, sizes.width, sizes.grid, switches.coordinates)
        else:
            self.encoding = encoding
        self.difference = difference
        self.regularisers = TermModules(regularisers)
        if decoder is None:
            decoder = CaptionDecoder(sizes, dropout, switches, respective)
        self.decoder: Decoder[Any] = decoder
        if encoding is None:
            initialise_as(self, switches.initialisation)

    @property
    def terms(self) -> tuple[str, ...]:
        return ("cap", *self.regularisers)

    def class_token_maps(self, before: Tensor, after: Tensor) -> dict[str, Tensor]:
        """Return the class token's attention in both images, summing to 1: block -> (B, 2, rows, columns)."""
        return {}

    def encode(self, before: Tensor, after: Tensor, labels: Labels | None = None) -> Difference:
        """Encode both images' feature grids, (B, C, H, W) each; `labels` may open MEDIC's gate."""
        return self.difference(self.encoding(before), self.encoding(after))

    def routed(self, difference: Any) -> list[tuple[str, float]] | None:
        """Return the kind of each pair by the model's routers, with its probability; None without routers."""
        return None

    def compared(self, before: Tensor, after: Tensor, labels: Labels | None) -> Difference:
        """Return the Difference of encoded images, (B, N, D) each, for training; here without `labels`."""
        return self.difference(before, after)

    def losses(self, before: Tensor, after: Tensor, tokens: Tensor) -> dict[str, Tensor]:
        return self.losses_of(self.encoding(before), self.encoding(after), tokens)

    def losses_of(
        self, before: Tensor, after: Tensor, tokens: Tensor, parts: int = 1, labels: Labels | None = None
    ) -> dict[str, Tensor]:
        """Return the loss terms of a batch of B pairs: name -> scalar, or this process's share of it.

        before, after: encodings of the images, (B, N, D) each
        tokens: R captions of each pair, (B*R, L+1), consecutive; regularisers see only the first caption of
            each pair
        parts: number of equal parts; a pair is contrasted only with pairs of its part (SCORER section 4.3).
            The losses of the parts are averaged, or summed if the model's attribute `parts` (not this
            argument) is "sum".
        labels: used only by some subclasses (see Trainable)
        """
        difference = self.compared(before, after, labels)
        tokens = self.padded(tokens)
        words = self.decoder(tokens, difference, self.keep_layers, self.reads != "padding")
        R = len(tokens) // len(before)
        first = rows(words, lambda x: x[::R])
        extra = self.regularisers.items()
        inputs = {name: split(term.prepare(difference, first), parts) for name, term in extra}
        batches = zip(split(words, parts), split(first, parts), tokens.chunk(parts), strict=True)
        losses = [
            {"cap": caption_loss(part_words, part_tokens)}
            | {name: term(inputs[name][part], part_first) for name, term in extra}
            for part, (part_words, part_first, part_tokens) in enumerate(batches)
        ]
        combine = torch.mean if self.parts == "mean" else torch.sum
        return {name: combine(torch.stack([part[name] for part in losses])) for name in self.terms}

    def word_logits(self, tokens: Tensor, difference: Difference) -> Tensor:
        """Return the logits of each word given the words before it: tokens (R*B, L+1) -> (R*B, L, V)."""
        return self.decoder(tokens, difference).logits.float()

    def padded(self, tokens: Tensor) -> Tensor:
        """Add as much padding to the captions, (B, L+1), as the decoder reads.

        reads "words": none; the input ends with the last word of the longest caption in `tokens`
        reads "end": one, if there is room; the longest caption's input then also contains <END>
        reads "padding": as many as make the input as long as the longest caption of the data
        """
        room = max(0, self.sizes.longest + 1 - tokens.shape[1])  # the last token is no input of the decoder
        added = {"words": 0, "end": min(1, room), "padding": room}[self.reads]
        return F.pad(tokens, (0, added), value=NULL)

    def constrain(self) -> None:
        for regulariser in self.regularisers.values():
            regulariser.constrain()


def initialise_as(model: nn.Module, kind: str) -> None:
    """Initialise a model's weights by `kind`, a value of the switch `initialisation` (switches.py)."""
    if kind == "normal":
        initialise(model)
    elif kind != "torch":
        initialise_xavier(model, joint=kind == "xavier_joint")
    for module in model.modules():
        if kind == "xavier_opposed" and isinstance(module, PairMap):
            oppose_halves(module.weight)


@torch.no_grad()
def initialise(model: nn.Module) -> None:
    """Draw weights from N(0, 0.02), with zero biases and padding, as SCORER's released program does."""
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
    """Initialise matrices by Xavier's uniform, but padding by zero; `joint`: see `initialise_jointly`."""
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
def oppose_halves(weight: Tensor) -> None:
    """Set the second half of `weight`, (D, 2D), to minus the first, W': it maps [x ; y] to W' (x - y)."""
    first, second = weight.chunk(2, 1)
    second.copy_(-first)


def initialise_jointly(attention: MultiHeadAttention) -> None:
    """Initialise as torch's nn.MultiheadAttention does: Xavier's range of one (3D, D) matrix, zero biases."""
    for map_ in (attention.query, attention.key, attention.value):
        nn.init.xavier_uniform_(map_.weight, gain=0.5**0.5)  # sqrt(6 / (3D + D)), not sqrt(6 / (D + D))
    for name, parameter in attention.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)


def split(record: Record, parts: int) -> list[Record]:
    """Split each tensor of a record, such as Difference or Words, along the batch into equal parts."""

    def part(number: int) -> Callable[[Tensor], Tensor]:
        return lambda x: x.chunk(parts)[number]

    return [rows(record, part(number)) for number in range(parts)]


def rows(record: Record, choose: Callable[[Tensor], Tensor]) -> Record:
    """Return a copy of a record with `choose` applied to its tensors, also to those of nested records."""

    def chosen(value: Tensor | tuple[Record, ...]) -> Any:
        return choose(value) if isinstance(value, Tensor) else tuple(rows(part, choose) for part in value)

    return replace(record, **{field.name: chosen(getattr(record, field.name)) for field in fields(record)})


def caption_loss(words: Words, tokens: Tensor) -> Tensor:
    """Return this process's share of L_cap (SCORER Eq. 12), the mean over words; 0 is no target anywhere."""
    logits = words.logits.to(torch.promote_types(words.logits.dtype, torch.float32)).flatten(0, 1)
    targets = tokens[:, 1:].flatten()
    summed = F.cross_entropy(logits, targets, ignore_index=NULL, reduction="sum")
    return summed / total((targets != NULL).sum())
