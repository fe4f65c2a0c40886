"""IDC-PCL's pre-training: masked words (MLM), masked cells (MVCL), fine-grained negatives (FDA).

On pairs, or on single images with captions (CUB), I = 2 or 1 images; on NABirds' pairs of classes beside.
B pairs, C feature channels, N cells an image, D width, L words. Equations: docs/methods.md, "IDC-PCL".
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.common.grid_embedding import GridCells
from models.common.trainable import Labels, Trainable
from models.idc_pcl.masking import masked_cells, masked_words
from models.idc_pcl.network import EMBEDDING_EPSILON, Network, PclSizes, norm, rates
from models.idc_pcl.switches import PclSwitches

TASKS = {"mlm": ("mlm",), "mlm_mvcl": ("mlm", "mvcl"), "all": ("mlm", "mvcl", "fda")}
MEASURES = {
    "mlm": ("mlm_accuracy",),
    "mvcl": ("mvcl_rank",),
    "fda": ("fda_accuracy_change", "fda_accuracy_no_change"),
    "class_pairs": ("class_accuracy", "same_accuracy"),
}
CAPTIONS = 7  # of a pair in FDA: its own, then six negatives
CLASSES = 555  # of NABirds
MARGIN = 0.4  # images of different classes may be alike up to this cosine


class ClassPairs(nn.Module):
    """NABirds' task, without text: each image's class, whether both are of one, and a contrast of all images.

    K classes. IDC-PCL's section on data expansion.
    """

    def __init__(self, sizes: PclSizes, classes: int):
        super().__init__()
        self.classifier = nn.Linear(sizes.width, classes)
        self.aligner = nn.Linear(2 * sizes.width, 2)

    def forward(
        self, network: Network, before: Tensor, after: Tensor, classes: Tensor, same: Tensor
    ) -> dict[str, Tensor]:
        """The loss and both accuracies, of cells (B, N, C) of each image.

        `classes`: (2, B), of the before and the after images; `same`: B, 1 where the pair is labelled as of
        one class.
        """
        singles = network.singles(before, after)  # (2B, N+1, D)
        c, flat = singles[:, 0], classes.flatten()
        marks = network.paired(singles).unflatten(1, (2, -1))[:, :, 0].flatten(1)  # (B, 2D)
        named, aligned = self.classifier(c).float(), self.aligner(marks).float()
        unit = F.normalize(c.float(), dim=-1)
        alike = unit @ unit.T
        agree = flat[:, None] == flat
        contrast = torch.where(agree, 1 - alike, (alike - MARGIN).clamp(min=0)).mean()
        return {
            "class_pairs": F.cross_entropy(named, flat) + F.cross_entropy(aligned, same) + contrast,
            "class_accuracy": (named.argmax(-1) == flat).float().mean(),
            "same_accuracy": (aligned.argmax(-1) == same).float().mean(),
        }


class CellHead(nn.Module):
    """p = W^T LN(GELU(A v + a)) + c, D -> D -> C; W is the embedding's."""

    def __init__(self, sizes: PclSizes, switches: PclSwitches):
        super().__init__()
        self.map = nn.Linear(sizes.width, sizes.width)
        self.norm = norm(sizes.width, switches, EMBEDDING_EPSILON)
        self.bias = nn.Parameter(torch.zeros(sizes.channels))

    def forward(self, v: Tensor, weight: Tensor) -> Tensor:
        """Outputs (..., D) and W, (D, C) -> (..., C)."""
        return self.norm(F.gelu(self.map(v))) @ weight + self.bias


class Pretraining(Trainable):
    """A step has one task, which its Labels name."""

    def __init__(
        self,
        sizes: PclSizes,
        switches: PclSwitches,
        dropout: float,
        masked: tuple[float, float],
        taus: tuple[float, float],
        coef: float,
        single: bool = False,
    ):
        """`masked`: what share of words and of cells is hidden; `taus`: MVCL's and FDA's."""
        super().__init__()
        self.sizes, self.switches = sizes, switches
        (self.word_share, self.cell_share), (self.tau1, self.tau2) = masked, taus
        self.groups = rates(coef)
        self.single = single  # CUB's: an item is one image, given as before
        self.takes = {"difference.": "difference.", "cell_head.": "cell_head."}  # of the phase on those
        self.terms: tuple[str, ...] = TASKS[switches.tasks]
        if "nabirds" in switches.extra_data and not single:
            self.terms += ("class_pairs",)
        self.measures = tuple(name for task in self.terms for name in MEASURES[task])
        self.zero_idle = switches.idle_gradients == "zero"
        self.encoding = GridCells(pool=sizes.pool)
        self.difference = Network(sizes, switches, dropout)
        if "mvcl" in self.terms:
            self.cell_head = CellHead(sizes, switches)
        self.classes = CLASSES if "class_pairs" in self.terms else 0  # that it tells apart
        if self.classes:
            self.class_pairs = ClassPairs(sizes, self.classes)

    def losses_of(
        self, before: Tensor, after: Tensor, tokens: Tensor, parts: int = 1, labels: Labels | None = None
    ) -> dict[str, Tensor]:
        """The task's loss, and what is measured of it, of cells (B, N, C) of both images.

        `tokens`: a caption of each pair, NULL-padded; of FDA 7 of each, one after another; unread with
        classes. Without labels it is the task that takes the most memory.
        """
        task = labels.task if labels else "mvcl" if "mvcl" in self.terms else "mlm"
        if labels and labels.classes is not None:
            same = (labels.classes[0] == labels.classes[1]).long()
            return self.class_pairs(self.difference, before, after, labels.classes, same)
        room = self.sizes.longest - tokens.shape[1] if self.switches.padding == "attended" else 0
        tokens = F.pad(tokens, (0, room))
        if task == "mlm":
            return self.mlm(before, after, tokens)
        if task == "mvcl":
            return self.mvcl(before, after, tokens)
        assert labels is not None
        return self.fda(before, after, tokens, labels.changed)

    def joint(self, before: Tensor, after: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """V^ and T^ of cells (B, N, C) and as many captions, or several of each pair, one after another."""
        memory = self.difference.alone(before) if self.single else self.difference(before, after).memory
        memory = memory.repeat_interleave(len(tokens) // len(memory), 0)
        return self.difference.joint(memory, tokens, self.switches.padding == "attended")

    def marks_and_cells(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """V^, (B, M, D) -> its [IMG1] and [IMG2], (B, 2, D), and its cells, (B, I, N, D)."""
        if self.single:  # [IMG2] stands behind the cells
            return images[:, [0, -1]], images[:, None, 1:-1]
        both = images.unflatten(1, (2, -1))
        return both[:, :, 0], both[:, :, 1:]

    def mlm(self, before: Tensor, after: Tensor, tokens: Tensor) -> dict[str, Tensor]:
        """The mean over chosen tokens of -log P(w | the others, V~)."""
        read, chosen = masked_words(tokens, self.word_share, self.difference.mask)
        _, words = self.joint(before, after, read)
        logits = self.difference.output(words[:, 1:][chosen]).float()
        right = (logits.argmax(-1) == tokens[chosen]).float().mean()
        return {"mlm": F.cross_entropy(logits, tokens[chosen]), "mlm_accuracy": right}

    def mvcl(self, before: Tensor, after: Tensor, tokens: Tensor) -> dict[str, Tensor]:
        """A masked cell's output is to be like its feature, and unlike the negatives.

        The rank is the true feature's among all masked ones, from 0, the first, to 1, the last: 1/2 by
        chance.
        """
        cells = torch.stack([before] if self.single else [before, after], 1)  # (B, I, N, C)
        hidden = masked_cells(cells.shape[:3], self.cell_share, cells.device)
        shown = cells.masked_fill(hidden[..., None], 0)
        images, _ = self.joint(shown[:, 0], shown[:, -1], tokens)
        _, v = self.marks_and_cells(images)
        weight = self.difference.project.weight
        x = F.normalize(cells.float(), dim=-1)
        p = F.normalize(self.cell_head(v[hidden], weight).float(), dim=-1)
        alike = p @ x[hidden].T  # row i, column j: cos(p_i, x_j)
        if self.switches.mvcl_negatives == "originals":
            right = alike.diagonal()[:, None]
            logits, place = torch.cat([right, p @ x[~hidden].T], 1), torch.zeros(len(p), dtype=torch.int64)
        else:
            others = F.normalize(self.cell_head(v[~hidden], weight).float(), dim=-1)
            logits, place = torch.cat([alike, p @ others.T], 1), torch.arange(len(p))
        before_it = (alike > alike.diagonal()[:, None]).float().sum(1)
        loss = F.cross_entropy(logits / self.tau1, place.to(logits.device))
        return {"mvcl": loss, "mvcl_rank": before_it.mean() / max(1, len(p) - 1)}

    def fda(self, before: Tensor, after: Tensor, tokens: Tensor, changed: Tensor) -> dict[str, Tensor]:
        """The pair's own caption is to be more like its images than six that are nearly right."""
        images, words = self.joint(before, after, tokens)
        marks, _ = self.marks_and_cells(images)
        first, second = marks.float().unbind(1)
        q = F.cosine_similarity((first + second) / 2, words[:, 0].float(), dim=-1)
        q = q.unflatten(0, (len(before), -1))  # (B, 7)
        right = (q.argmax(1) == 0).float()
        found = {"fda": F.cross_entropy(q / self.tau2, torch.zeros_like(changed))}
        found["fda_accuracy_change"] = right[changed != 0].mean()  # NaN where there is none
        return found | {"fda_accuracy_no_change": right[changed == 0].mean()}
