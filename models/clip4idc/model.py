"""CLIP4IDC (Guo et al., AACL-IJCNLP 2022): CLIP's image encoder learns to compare two images by retrieval.

Training has two phases: the adaptation, which learns retrieval, and then the captioning.
B: pairs; n: patches of an image; t = n + 1: tokens of an image, class token first; D: width; E: width of the
space of pairs and captions; S: layers of the captioner; L: words. Equations: docs/methods.md, "CLIP4IDC".
"""

import math
import re

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.clip4idc.captioner import ClipDecoder, MemoryEncoder
from models.clip4idc.encoders import RELEASED, ClipSizes, ClipSwitches, ImageEncoder, TextEncoder
from models.clip4idc.pair_encoders import ClipJointEncoder, PairEncoder, SeparateEncoder, class_maps
from models.common.captioner import Captioner, Difference
from models.common.distributed_batch import join_processes, process_slice, processes
from models.common.entry import GRID, PIXELS, PLAIN, Entry, Layer, PretrainingPhase
from models.common.trainable import Group, Labels, Retrieves, Trainable
from models.initialisation import clip4idc as initialisation

LARGEST = math.log(100.0)  # CLIP's upper limit of the logarithm of the learned scale
STEM = r"^encoding\.patches\."  # tensors that `frozen: stem` freezes, besides CLIP's word embeddings
ENCODER = r"^(encoding|difference\.inter)\."  # tensors that `frozen: encoder` freezes in captioning


def encoder_prefixes(prefix: str) -> dict[str, str]:
    return {f"{prefix}{part}.": f"{part}." for part in ("patches", "blocks", "project")}


# prefixes of tensor names in the models of both phases -> prefixes in CLIP's file; only the captioning has
# difference.inter
STARTS = encoder_prefixes("encoding.") | encoder_prefixes("inter.") | encoder_prefixes("difference.inter.")
STARTS |= {"text.": "text.", "log_scale": "log_scale"}


class Compared(nn.Module):
    """Pair encoder, followed by a second encoder that belongs to the captioner.

    The pair encoder processes the tokens of both images together. The second encoder computes the
    memory to which the decoder attends.
    """

    def __init__(self, inter: PairEncoder, memories: MemoryEncoder):
        super().__init__()
        self.inter, self.memories = inter, memories

    def forward(self, before: Tensor, after: Tensor) -> Difference:
        """Compare tokens, (B, t, D) each; `memory` is (B, 1, 2t, E), or if layerwise (B, S, 2t, E)."""
        joint = self.inter(before, after)
        joint = joint.float() if joint.dtype == torch.float16 else joint
        return Difference(self.memories(joint), before, after)


class ClipModel(Trainable):
    """Base class of models with CLIP's encoders."""

    encoding: ImageEncoder

    def halve(self) -> None:
        """Convert CLIP's layers to float16, as the released program does (setting `half_weights` of a phase).

        In CLIP's encoders, linear maps, convolutions and activations become float16, like their gradients and
        optimiser states. Layer norms, class tokens, embeddings and the captioner stay float32.
        """
        for name, part in self.named_modules():
            for module in part.modules() if name in ("encoding", "inter", "text", "difference.inter") else ():
                if isinstance(module, (nn.Linear, nn.Conv2d)):
                    module.half()
                elif type(module) is nn.LayerNorm:
                    module.__class__ = WideNorm


class Retrieval(ClipModel, Retrieves):
    """Model of the adaptation phase: retrieval between image pairs and their captions (CLIP4IDC Eq. 6-8)."""

    terms = ("retrieval",)
    starts = STARTS

    def __init__(
        self, sizes: ClipSizes, switches: ClipSwitches, *, dropout: float, coef_lr: float, temperature: float
    ):
        """Build the model; the learned temperature begins with `temperature`; `dropout` has no effect."""
        super().__init__()
        self.sizes, self.directions = sizes, switches.directions
        self.encoding = ImageEncoder(sizes, switches, sizes.intra)
        self.inter = ClipJointEncoder(sizes, switches)
        self.text = TextEncoder(sizes)
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / temperature)))
        if switches.first_weights == "counterpart":
            initialisation.compare(self.encoding, self.inter)
            initialisation.gather(self.encoding, self.inter)
        self.groups = adapting(switches, coef_lr)
        if switches.frozen != "none":
            freeze(self, STEM + r"|^text\.tables\.")

    def pairs(self, before: Tensor, after: Tensor) -> Tensor:
        """Return the pairs' vectors v, (B, E): the mean of both class tokens in the encoded pair (Eq. 5)."""
        joint = self.inter(before, after)
        return (joint[:, 0] + joint[:, before.shape[1]]).float() / 2

    def sentences(self, tokens: Tensor) -> Tensor:
        return self.text(tokens).float()

    def losses_of(
        self, before: Tensor, after: Tensor, tokens: Tensor, parts: int = 1, labels: Labels | None = None
    ) -> dict[str, Tensor]:
        """Return this process's share of the contrastive loss of B pairs and their captions (Eq. 6-8).

        Negatives are all other pairs and captions of the batch, also those of other processes.
        """
        v, g = F.normalize(self.pairs(before, after), dim=-1), F.normalize(self.sentences(tokens), dim=-1)
        scale, B = self.log_scale.exp(), len(v) * processes()
        partners = torch.arange(B, device=v.device)[process_slice(len(v))]
        to_pair = F.cross_entropy(scale * g @ join_processes(v).T, partners, reduction="sum")
        to_text = F.cross_entropy(scale * v @ join_processes(g).T, partners, reduction="sum")
        loss = (to_pair + to_text) / B
        return {"retrieval": loss if self.directions == "sum" else loss / 2}

    @torch.no_grad()
    def constrain(self) -> None:
        self.log_scale.clamp_(max=LARGEST)


class ClipCaptioner(ClipModel, Captioner):
    """Captioner with CLIP's image encoder."""

    difference: Compared
    parts = "sum"

    def class_token_maps(self, before: Tensor, after: Tensor) -> dict[str, Tensor]:
        return class_maps(self.encoding, self.difference.inter, before, after, self.cells)


class WideNorm(nn.LayerNorm):
    """Layer norm that computes in float32, and returns its result in the type of the input."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.float()).to(x.dtype)


def adapting(switches: ClipSwitches, coef: float) -> tuple[Group, ...]:
    """Return the parameter groups of the adaptation; `coef`: learning-rate factor of CLIP's layers.

    With `new_rate: base`, the pair encoder's embeddings and layer norm have the factor 1. Biases have no
    weight decay.
    """
    new_rate = 1.0 if switches.new_rate == "base" else coef
    return (
        Group(r"^inter\.(images|positions|norm\.weight)", new_rate, True),
        Group(r"^inter\.norm\.bias", new_rate, False),
        Group(r"bias", coef, False),
        Group(r"", coef, True),
    )


def captioning(coef: float, clips_words: bool, compares: bool = False) -> tuple[Group, ...]:
    """Return the parameter groups of captioning; `coef`: factor of the learning rate of CLIP's layers.

    With `clips_words`, word embeddings have this factor, too; with `compares`, the first layer of the
    captioner's encoder, because the full rate would undo its initialisation.
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
    """Freeze the parameters whose names match the regular expression `names`."""
    for name, parameter in model.named_parameters():
        if re.search(names, name):
            parameter.requires_grad_(False)


def captioner(
    sizes: ClipSizes,
    switches: ClipSwitches,
    encoding: ImageEncoder,
    inter: PairEncoder,
    dropout: float,
    coef: float,
) -> Captioner:
    """Build a captioner (section 2.4, appendix B); `coef`: learning-rate factor of CLIP's layers.

    Raises ValueError if the captioner uses CLIP's word embeddings, but their width (`sizes.text_width`) is
    not the captioner's width (`sizes.joint`).
    """
    clips_words = switches.words == "clip"
    if clips_words and sizes.text_width != sizes.joint:
        raise ValueError(f"words: clip needs a text_width of joint's {sizes.joint}, not {sizes.text_width}")
    memories = MemoryEncoder(sizes, switches, dropout)
    decoder = ClipDecoder(sizes, switches, dropout)
    compares = False
    if switches.first_weights == "counterpart":
        compares = initialisation.initialise_captioner(encoding, inter, memories, decoder)
    model = ClipCaptioner(sizes, Compared(inter, memories), {}, dropout, encoding=encoding, decoder=decoder)
    model.cells, model.groups = sizes.cells, captioning(coef, clips_words, compares)
    takes = {"encoding.": "encoding.", "inter.": "difference.inter."}
    starts = encoder_prefixes("encoding.") | encoder_prefixes("difference.inter.")
    if clips_words:
        takes["text.tables."], starts["decoder.tables."] = "decoder.tables.", "text.tables."
    model.takes, model.starts = takes, starts
    if switches.frozen != "none":
        tables = r"|^decoder\.tables\." + "positions" * (switches.frozen == "stem_but_words")
        freeze(model, (ENCODER if switches.frozen == "encoder" else STEM) + tables * clips_words)
    return model


def clip4idc(
    sizes: ClipSizes, switches: ClipSwitches, *, dropout: float, coef_lr: float, temperature: float
) -> Captioner:
    """Build CLIP4IDC's captioner; `temperature` is only for the retrieval that is trained before."""
    encoding = ImageEncoder(sizes, switches, sizes.intra)
    return captioner(sizes, switches, encoding, ClipJointEncoder(sizes, switches), dropout, coef_lr)


def no_adapt(sizes: ClipSizes, switches: ClipSwitches, *, dropout: float, coef_lr: float) -> Captioner:
    return clip4idc(sizes, switches, dropout=dropout, coef_lr=coef_lr, temperature=1.0)


def clip_ft(sizes: ClipSizes, switches: ClipSwitches, *, dropout: float, coef_lr: float) -> Captioner:
    """Build CLIP-FT (Table 4): CLIP's blocks see single images, and only the captioner sees both."""
    encoding = ImageEncoder(sizes, switches, sizes.intra + sizes.inter)
    return captioner(sizes, switches, encoding, SeparateEncoder(sizes), dropout, coef_lr)


def reads(switches: ClipSwitches) -> str:
    return GRID if switches.patches == "features" else PIXELS


ENCODERS = frozenset(("frozen", "memory", "words", "patches", "first_weights"))
PUBLISHED = {"learning_rate": 1e-4, "schedule": "constant"}
LAYER: Layer = {
    "settings": {"dropout": 0.1, "coef_lr": 0.001, "temperature": 0.01},
    "sizes": {
        "patch": 32,
        "width": 768,
        "heads": 12,
        "intra": 9,
        "inter": 3,
        "text_width": 512,
        "text_heads": 8,
        "text_layers": 12,
        "context": 77,
        "joint": 512,
        "caption_heads": 8,
        "caption_layers": 3,
    },
    "adapt": PUBLISHED | {"batch": 128},
    "train": PLAIN | PUBLISHED | {"batch": 16},
}
CLIP_FT = Entry(clip_ft, RELEASED, ENCODERS, ClipSizes, "clip", reads, layer=LAYER)
NO_ADAPT = Entry(no_adapt, RELEASED, ENCODERS | {"joint_norm"}, ClipSizes, "clip", reads, layer=LAYER)
CLIP4IDC = Entry(
    clip4idc,
    RELEASED,
    ENCODERS | {"joint_norm", "directions", "new_rate"},
    ClipSizes,
    "clip",
    reads,
    pretraining=(PretrainingPhase("adapt", Retrieval, "retrieval"),),
    captioning=("memory", "words"),
    layer=LAYER,
)
