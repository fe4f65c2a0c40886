"""CLIP4IDC (Guo et al., AACL-IJCNLP 2022): CLIP's image encoder compares two images, by learning to retrieve.

B pairs, t = n + 1 tokens an image (class token first), D width, E joint width, S layers of the captioner.
Equations: docs/methods.md, "CLIP4IDC".
"""

import math
import re

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.clip4idc.captioner import ClipDecoder, Memories
from models.clip4idc.encoders import ClipSizes, ImageEncoder, TextEncoder
from models.clip4idc.pair_encoders import JointEncoder, SeparateEncoder, class_maps
from models.clip4idc.switches import RELEASED, ClipSwitches
from models.common.captioner import Captioner, Difference
from models.common.distributed_batch import everyone, own, processes
from models.common.entry import GRID, PIXELS, EarlierPhase, Entry
from models.common.trainable import Group, Labels, Retrieves
from models.initialisation import clip4idc as first_weights

LARGEST = math.log(100.0)  # of the learned scale's logarithm: CLIP's
STEM = r"^encoding\.patches\."  # what `frozen: stem` keeps, beside CLIP's tables of words
ENCODER = r"^(encoding|difference\.inter)\."  # and `frozen: encoder` of the captioning


def tower(place: str) -> dict[str, str]:
    """Where what stands at `place` has its tensors in the file of CLIP's weights."""
    return {f"{place}{part}.": f"{part}." for part in ("patches", "blocks", "project")}


# of the adaptation, and (difference.inter) of the captioning
STARTS = tower("encoding.") | tower("inter.") | tower("difference.inter.")
STARTS |= {"text.": "text.", "log_scale": "log_scale"}


class Compared(nn.Module):
    """F' through the captioner's encoder: what each layer of its decoder attends to."""

    def __init__(self, inter: nn.Module, memories: Memories):
        super().__init__()
        self.inter, self.memories = inter, memories

    def forward(self, before: Tensor, after: Tensor) -> Difference:
        """(B, t, D) each; the memory is (B, S, 2t, E), or (B, 1, 2t, E) where all layers share one."""
        joint = self.inter(before, after)
        return Difference(
            self.memories(joint.float() if joint.dtype == torch.float16 else joint), before, after
        )


class Retrieval(Retrieves):
    """The adaptation (CLIP4IDC Eq. 6-8): a pair of images is to find its sentence, and that its pair."""

    terms = ("retrieval",)
    encoding: ImageEncoder
    starts = STARTS

    def __init__(self, sizes: ClipSizes, switches: ClipSwitches, coef: float, temperature: float):
        super().__init__()
        self.sizes, self.directions = sizes, switches.directions
        self.encoding = ImageEncoder(sizes, switches, sizes.intra)
        self.inter = JointEncoder(sizes, switches)
        self.text = TextEncoder(sizes)
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / temperature)))
        if switches.first_weights == "counterpart":
            first_weights.compare(self.encoding, self.inter)
            first_weights.gather(self.encoding, self.inter)
        self.groups = adapting(switches, coef)
        if switches.frozen != "none":
            freeze(self, STEM + r"|^text\.tables\.")

    def pairs(self, before: Tensor, after: Tensor) -> Tensor:
        """v, (B, E): the mean of both class tokens (Eq. 5) of encoded images, (B, t, D) each."""
        joint = self.inter(before, after)
        return (joint[:, 0] + joint[:, before.shape[1]]).float() / 2

    def sentences(self, tokens: Tensor) -> Tensor:
        """g, (B, E), of captions (B, L) with both marks."""
        return self.text(tokens).float()

    def losses_of(
        self, before: Tensor, after: Tensor, tokens: Tensor, parts: int = 1, labels: Labels | None = None
    ) -> dict[str, Tensor]:
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

    def halve(self) -> None:
        halve(self)


class ClipCaptioner(Captioner):
    """The captioning, over an image encoder that is CLIP's."""

    parts = "sum"

    def looks(self, before: Tensor, after: Tensor) -> dict[str, Tensor]:
        """Where the class tokens look."""
        return class_maps(self.encoding, self.difference.inter, before, after, self.cells)

    def halve(self) -> None:
        halve(self)


class WideNorm(nn.LayerNorm):
    """A layer norm computed in 32 bits."""

    def forward(self, x: Tensor) -> Tensor:
        """(..., D), of any type."""
        return super().forward(x.float()).to(x.dtype)


def halve(model: nn.Module) -> None:
    """Train CLIP's maps in 16 bits, as the released program does: `half_weights` of a phase.

    Weights and biases of the towers' linear maps and convolutions have 16 bits, and so have their gradients,
    what the optimiser keeps of them, and the towers' activations. Layer norms, tokens, positions and the
    captioner keep 32 bits; vectors and F' become 32 bits before they are compared or captioned.
    """
    for name in ("encoding", "inter", "text", "difference.inter"):
        tower = dict(model.named_modules()).get(name)
        for module in tower.modules() if tower else ():
            if isinstance(module, (nn.Linear, nn.Conv2d)):
                module.half()
            elif type(module) is nn.LayerNorm:
                module.__class__ = WideNorm


def adapting(switches: ClipSwitches, coef: float) -> tuple[Group, ...]:
    """Rates and decay of the adaptation's tensors: the first pattern that a name holds counts."""
    new = 1.0 if switches.new_rate == "base" else coef
    return (
        Group(r"^inter\.(images|positions|norm\.weight)", new, True),
        Group(r"^inter\.norm\.bias", new, False),
        Group(r"bias", coef, False),
        Group(r"", coef, True),
    )


def captioning(coef: float, clips_words: bool, compares: bool = False) -> tuple[Group, ...]:
    """The same of the captioning: what is CLIP's at coef times the rate, the captioner at the rate.

    Where the captioner's first layer `compares` from its first weights, it is at coef times the rate, too:
    at the whole rate they are undone.
    """
    slow = r"^(encoding|difference\.inter" + r"|difference\.memories\.layers\.0" * compares + r")\."
    words = (Group(r"^decoder\.tables\.", coef, True),) if clips_words else ()
    return (
        *words,
        Group(slow + ".*bias", coef, False),
        Group(slow, coef, True),
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
    encoding: ImageEncoder,
    inter: JointEncoder | SeparateEncoder,
    dropout: float,
    coef: float,
) -> Captioner:
    """The captioner (CLIP4IDC section 2.4, appendix B) over an image encoder."""
    clips = switches.words == "clip"
    if clips and sizes.text_width != sizes.joint:
        raise ValueError(f"words: clip needs a text_width of joint's {sizes.joint}, not {sizes.text_width}")
    memories = Memories(sizes, switches, dropout)
    decoder = ClipDecoder(sizes, switches, dropout)
    compares = False
    if switches.first_weights == "counterpart":
        compares = first_weights.begin_captioner(encoding, inter, memories, decoder)
    model = ClipCaptioner(sizes, Compared(inter, memories), {}, dropout, encoding=encoding, decoder=decoder)
    words = {"text.tables.": "decoder.tables."} if clips else {}
    model.cells, model.groups = sizes.cells, captioning(coef, clips, compares)
    model.takes = {"encoding.": "encoding.", "inter.": "difference.inter."} | words
    model.starts = tower("encoding.") | tower("difference.inter.") | {b: a for a, b in words.items()}
    if switches.frozen != "none":
        tables = r"|^decoder\.tables\." + "positions" * (switches.frozen == "stem_but_words")
        freeze(model, (ENCODER if switches.frozen == "encoder" else STEM) + tables * clips)
    return model


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


def reads(switches: ClipSwitches) -> str:
    """Pixels, but where patches are features."""
    return GRID if switches.patches == "features" else PIXELS


ENCODERS = frozenset(("frozen", "memory", "words", "patches", "first_weights"))
CLIP_FT = Entry(clip_ft, RELEASED, ENCODERS, ClipSizes, "clip", reads)
NO_ADAPT = Entry(no_adapt, RELEASED, ENCODERS | {"joint_norm"}, ClipSizes, "clip", reads)
CLIP4IDC = Entry(
    clip4idc,
    RELEASED,
    ENCODERS | {"joint_norm", "directions", "new_rate"},
    ClipSizes,
    "clip",
    reads,
    phases=(EarlierPhase("adapt", adaptation, "retrieval"),),
    captioning=("memory", "words"),
)
