"""CLIP4IDC (Guo et al., AACL-IJCNLP 2022): CLIP's image encoder compares two images, by learning to retrieve.

B pairs, t = n + 1 tokens an image (class token first), D width, E joint width, S layers of the captioner.
Equations: docs/methods.md, "CLIP4IDC".
"""

import math
import re

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.captioner import Captioner, Difference, Group
from models.clip import Block, ClipSizes, ImageEncoder, Projection, TextEncoder, added, numbered
from models.clip_captioner import ClipDecoder, Memories
from models.clip_variants import ClipSwitches
from models.counterpart import grid_places, look_across, side_of
from models.distributed_batch import everyone, own, processes
from models.half_weights import halve as halve  # what decides a training stands among the recipe's files

LARGEST = math.log(100.0)  # of the learned scale's logarithm: CLIP's
STEM = r"^encoding\.patches\."  # what `frozen: stem` keeps, beside CLIP's tables of words
ENCODER = r"^(encoding|difference\.inter)\."  # and `frozen: encoder` of the captioning


class JointEncoder(nn.Module):
    """F_inter (CLIP4IDC Eq. 4-5): the last blocks on the tokens of both images, then W on every token."""

    def __init__(self, sizes: ClipSizes, switches: ClipSwitches):
        super().__init__()
        D, (rows, columns) = sizes.width, sizes.cells
        t = 1 + rows * columns
        self.images = nn.Parameter(torch.randn(2, D) * D**-0.5)  # e
        self.positions = nn.Parameter(torch.randn(2 * t, D) * D**-0.5)  # p
        self.norm = nn.LayerNorm(D) if switches.joint_norm else nn.Identity()
        self.blocks = numbered(sizes, range(sizes.intra, sizes.intra + sizes.inter))
        self.project = Projection(sizes)
        if switches.first_weights == "counterpart" and self.blocks:
            self.compare(sizes)

    @torch.no_grad()
    def compare(self, sizes: ClipSizes) -> None:
        """The first block looks at the same cell of the other image; e tells the images apart."""
        side = side_of(sizes.width)
        self.images[0], self.images[1] = side, -side
        first = next(iter(self.blocks.values()))
        assert isinstance(first, Block)
        look_across(first.attention, grid_places(*sizes.cells, sizes.width), side)

    def joined(self, before: Tensor, after: Tensor) -> Tensor:
        """Twice B x t x D -> Z, B x 2t x D (Eq. 4)."""
        images, positions = added(self.images, before), added(self.positions, before)
        Z = torch.cat([before + images[0], after + images[1]], 1) + positions
        return self.norm(Z)

    def forward(self, before: Tensor, after: Tensor) -> Tensor:
        """Twice B x t x D -> F', B x 2t x E."""
        Z = self.joined(before, after)
        for block in self.blocks.values():
            Z = block(Z)
        return self.project(Z)


class SeparateEncoder(nn.Module):
    """CLIP-FT's: no block sees both images; F' is each one's tokens, one after the other."""

    def __init__(self, sizes: ClipSizes):
        super().__init__()
        self.project = Projection(sizes)

    def forward(self, before: Tensor, after: Tensor) -> Tensor:
        """Twice B x t x D -> B x 2t x E."""
        return self.project(torch.cat([before, after], 1))


class Compared(nn.Module):
    """F' through the captioner's encoder: what each layer of its decoder attends to."""

    def __init__(self, inter: nn.Module, memories: Memories):
        super().__init__()
        self.inter, self.memories = inter, memories

    def forward(self, before: Tensor, after: Tensor) -> Difference:
        """Twice B x t x D; the memory is B x S x 2t x E, or B x 1 x 2t x E where all layers share one."""
        joint = self.inter(before, after)
        return Difference(
            self.memories(joint.float() if joint.dtype == torch.float16 else joint), before, after
        )


class Retrieval(nn.Module):
    """The adaptation (CLIP4IDC Eq. 6-8): a pair of images is to find its sentence, and the sentence its pair.

    The same calls as a Captioner's, so that one loop trains both.
    """

    terms = ("retrieval",)
    encoding: ImageEncoder

    def __init__(self, sizes: ClipSizes, switches: ClipSwitches, coef: float, temperature: float):
        super().__init__()
        self.sizes, self.directions = sizes, switches.directions
        self.encoding = ImageEncoder(sizes, switches, sizes.intra)
        self.inter = JointEncoder(sizes, switches)
        self.text = TextEncoder(sizes)
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / temperature)))
        self.groups = adapting(switches, coef)
        if switches.frozen != "none":
            freeze(self, STEM + r"|^text\.tables\.")

    def pairs(self, before: Tensor, after: Tensor) -> Tensor:
        """v, B x E: the mean of both class tokens (Eq. 5) of encoded images, twice B x t x D."""
        joint = self.inter(before, after)
        return (joint[:, 0] + joint[:, before.shape[1]]).float() / 2

    def sentences(self, tokens: Tensor) -> Tensor:
        """g, B x E, of captions B x L with both marks."""
        return self.text(tokens).float()

    def losses_of(self, before: Tensor, after: Tensor, tokens: Tensor, parts: int = 1) -> dict[str, Tensor]:
        """The contrast of B pairs with their B sentences; other processes' are negatives too (Eq. 6-8).

        Each process returns its share: they add up to the batch's.
        """
        v, g = F.normalize(self.pairs(before, after), dim=-1), F.normalize(self.sentences(tokens), dim=-1)
        scale, mine = self.log_scale.exp(), own(len(v))
        right = torch.arange(len(v) * processes(), device=v.device)[mine]
        to_pair = F.cross_entropy(scale * g @ everyone(v).T, right, reduction="sum")
        to_text = F.cross_entropy(scale * v @ everyone(g).T, right, reduction="sum")
        both = (to_pair + to_text) / (len(v) * processes())
        return {"retrieval": both if self.directions == "sum" else both / 2}

    @torch.no_grad()
    def constrain(self) -> None:
        """To call after every step of the optimiser: s = exp(l) is at most 100."""
        self.log_scale.clamp_(max=LARGEST)


def adapting(switches: ClipSwitches, coef: float) -> tuple[Group, ...]:
    """Rates and decay of the adaptation's tensors: the first pattern that a name holds counts."""
    new = 1.0 if switches.new_rate == "base" else coef
    return (
        Group(r"^inter\.(images|positions|norm\.weight)", new, True),
        Group(r"^inter\.norm\.bias", new, False),
        Group(r"bias", coef, False),
        Group(r"", coef, True),
    )


def captioning(coef: float, clips_words: bool) -> tuple[Group, ...]:
    """The same of the captioning: what is CLIP's at coef times the rate, the captioner at the rate."""
    words = (Group(r"^decoder\.tables\.", coef, True),) if clips_words else ()
    return (
        *words,
        Group(r"^(encoding|difference\.inter)\..*bias", coef, False),
        Group(r"^(encoding|difference\.inter)\.", coef, True),
        Group(r"bias|norm", 1.0, False),
        Group(r"", 1.0, True),
    )


def freeze(model: nn.Module, names: str) -> None:
    """Take the tensors whose names match out of the training."""
    for name, parameter in model.named_parameters():
        if re.search(names, name):
            parameter.requires_grad_(False)


def captioner(
    sizes: ClipSizes,
    switches: ClipSwitches,
    encoding: nn.Module,
    inter: nn.Module,
    dropout: float,
    coef: float,
) -> Captioner:
    """The captioner (CLIP4IDC section 2.4, appendix B) over an image encoder."""
    clips = switches.words == "clip"
    if clips and sizes.text_width != sizes.joint:
        raise ValueError(f"words: clip needs a text_width of joint's {sizes.joint}, not {sizes.text_width}")
    memories = Memories(sizes, switches, dropout)
    decoder = ClipDecoder(sizes, switches, dropout)
    model = Captioner(sizes, Compared(inter, memories), {}, dropout, encoding=encoding, decoder=decoder)
    model.cells, model.parts, model.groups = sizes.cells, "sum", captioning(coef, clips)
    model.takes = {"encoding.": "encoding.", "inter.": "difference.inter."}
    if clips:
        model.takes["text.tables."] = "decoder.tables."
    if switches.frozen != "none":
        tables = r"|^decoder\.tables\." + "positions" * (switches.frozen == "stem_but_words")
        freeze(model, (ENCODER if switches.frozen == "encoder" else STEM) + tables * clips)
    return model


def class_maps(model: Captioner, before: Tensor, after: Tensor) -> dict[str, Tensor]:
    """Where the class tokens look, by block, B x 2 x lines x columns, of both images, B x 3 x H x W each.

    Of the last block on each image by itself, whose class token looks at its own image, and of the last one
    on both, where the first image's looks at both (CLIP4IDC's figures: blocks 9 and 12); where there are no
    two such blocks, of the last two. The mean of the heads; class tokens left out, each image's sums to 1.
    """
    encoding, inter = model.encoding, model.difference.inter
    assert isinstance(encoding, ImageEncoder)
    sides, found = [encoding.patches(image) for image in (before, after)], {}
    alone = dict(encoding.blocks.items())
    joint = dict(inter.blocks.items()) if isinstance(inter, JointEncoder) else {}
    last = [*alone, *joint][-2:]
    shown = {[*alone][-1], [*joint][-1]} if alone and joint else set(last)
    for name, block in alone.items():
        if name in shown:
            found[name] = torch.stack([looks(block, x) for x in sides], 1)  # B x 2 x t
        sides = [block(x) for x in sides]
    Z = inter.joined(*sides) if isinstance(inter, JointEncoder) else torch.cat(sides, 1)
    for name, block in joint.items():
        if name in shown:
            found[name] = looks(block, Z).unflatten(-1, (2, -1))
        Z = block(Z)
    return {f"block {int(name) + 1}": patches_of(maps, model.cells) for name, maps in found.items()}


def looks(block: nn.Module, x: Tensor) -> Tensor:
    """Where the first token of B x t x D looks: B x t."""
    assert isinstance(block, Block)
    return block.looks(x)[:, 0]


def patches_of(maps: Tensor, cells: tuple[int, int]) -> Tensor:
    """B x 2 x t, the class token first -> B x 2 x lines x columns, of each image summing to 1."""
    patches = maps[..., 1:]
    return (patches / patches.sum(-1, keepdim=True)).unflatten(-1, cells)


def clip4idc(
    sizes: ClipSizes, switches: ClipSwitches, *, dropout: float, coef_lr: float, temperature: float
) -> Captioner:
    """CLIP4IDC's second stage; `temperature` is where the first one's begins."""
    encoding = ImageEncoder(sizes, switches, sizes.intra)
    return captioner(sizes, switches, encoding, JointEncoder(sizes, switches), dropout, coef_lr)


def adaptation(
    sizes: ClipSizes, switches: ClipSwitches, *, dropout: float, coef_lr: float, temperature: float
) -> Retrieval:
    """CLIP4IDC's first stage, which has no dropout."""
    return Retrieval(sizes, switches, coef_lr, temperature)


def no_adapt(sizes: ClipSizes, switches: ClipSwitches, *, dropout: float, coef_lr: float) -> Captioner:
    """CLIP4IDC without its first stage (Table 4)."""
    return clip4idc(sizes, switches, dropout=dropout, coef_lr=coef_lr, temperature=1.0)


def clip_ft(sizes: ClipSizes, switches: ClipSwitches, *, dropout: float, coef_lr: float) -> Captioner:
    """CLIP's whole image tower on each image by itself, and the captioner over both (Table 4)."""
    encoding = ImageEncoder(sizes, switches, sizes.intra + sizes.inter)
    return captioner(sizes, switches, encoding, SeparateEncoder(sizes), dropout, coef_lr)
