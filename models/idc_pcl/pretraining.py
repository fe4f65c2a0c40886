"""IDC-PCL's pretraining tasks: masked words (MLM), masked cells (MVCL), fine-grained negatives (FDA).

The data of these three tasks are captioned image pairs, or captioned single images (CUB). A fourth task,
`class_pairs`, uses pairs of images with known classes (NABirds).
B: pairs; I: images of a pair, 2 (1 on CUB); C: feature channels; N: cells of an image; M: image tokens; D:
width; L: words. V^ and T^: outputs of the network for image tokens and for words. Equations: docs/methods.md,
"IDC-PCL".
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.common.grid_embedding import GridCells
from models.common.packing import END, NULL
from models.common.trainable import Trainable
from models.idc_pcl.network import EMBEDDING_EPSILON, Network, norm, rates
from models.idc_pcl.switches import PclSizes, PclSwitches

START = 2
MASKED, RANDOM = 0.8, 0.1  # shares of the chosen words that become [MASK], and that become a random token
TASKS = {"mlm": ("mlm",), "mlm_mvcl": ("mlm", "mvcl"), "all": ("mlm", "mvcl", "fda")}
MEASURES = {
    "mlm": ("mlm_accuracy",),
    "mvcl": ("mvcl_rank",),
    "fda": ("fda_accuracy_change", "fda_accuracy_no_change"),
    "class_pairs": ("class_accuracy", "same_accuracy"),
}


def tasks_of(switches: PclSwitches, single: bool = False) -> tuple[str, ...]:
    """Return the names of the tasks of a pre-training; `single`: on single images, which have no class."""
    has_classes = "nabirds" in switches.extra_data and not single
    return TASKS[switches.tasks] + (("class_pairs",) if has_classes else ())


CLASSES = 555  # number of classes of NABirds
MARGIN = 0.4  # a cosine up to this value is not penalised for images of different classes


class ClassPairs(nn.Module):
    """Head and loss of the task on NABirds (section on data expansion in the paper).

    The loss is the sum of three terms: the cross-entropy of each image's class; the cross-entropy of "both
    images have the same class"; and a contrastive loss over all images of the batch, in which images of one
    class are positives.
    """

    def __init__(self, sizes: PclSizes, classes: int):
        super().__init__()
        self.classifier = nn.Linear(sizes.width, classes)
        self.aligner = nn.Linear(2 * sizes.width, 2)

    def forward(self, network: Network, before: Tensor, after: Tensor, classes: Tensor) -> dict[str, Tensor]:
        """Return the loss `class_pairs`, `class_accuracy` of images, and `same_accuracy` of pairs.

        `before` and `after` are cells, (B, N, C) each; `classes`, (2, B), those of the before, then of the
        after images. `same_accuracy` is of the prediction that both images have the same class.
        """
        same = (classes[0] == classes[1]).long()  # (B,), 1 if both images of a pair have the same class
        singles = network.singles(before, after)  # (2B, N+1, D)
        c, image_classes = singles[:, 0], classes.flatten()  # (2B, D), (2B,)
        marks = network.paired(singles).unflatten(1, (2, -1))[:, :, 0].flatten(1)  # (B, 2D)
        class_logits, same_logits = self.classifier(c).float(), self.aligner(marks).float()
        unit = F.normalize(c.float(), dim=-1)
        cosines = unit @ unit.T
        same_class = image_classes[:, None] == image_classes
        contrast = torch.where(same_class, 1 - cosines, (cosines - MARGIN).clamp(min=0)).mean()
        cross_entropies = F.cross_entropy(class_logits, image_classes) + F.cross_entropy(same_logits, same)
        return {
            "class_pairs": cross_entropies + contrast,
            "class_accuracy": (class_logits.argmax(-1) == image_classes).float().mean(),
            "same_accuracy": (same_logits.argmax(-1) == same).float().mean(),
        }


class CellHead(nn.Module):
    """Head of MVCL, which predicts the features of a cell: p = W^T LN(GELU(A v + a)) + c.

    A maps from D to D channels, and W^T from D to C. W is the weight of the network's cell embedding.
    """

    def __init__(self, sizes: PclSizes, switches: PclSwitches):
        super().__init__()
        self.map = nn.Linear(sizes.width, sizes.width)
        self.norm = norm(sizes.width, switches, EMBEDDING_EPSILON)
        self.bias = nn.Parameter(torch.zeros(sizes.channels))

    def forward(self, v: Tensor, weight: Tensor) -> Tensor:
        return self.norm(F.gelu(self.map(v))) @ weight + self.bias


class IdcPclPretraining(Trainable):
    """Model that is trained in a pre-training phase of IDC-PCL.

    Each batch trains one task, for example the prediction of masked words. The labels of the batch name
    the task.
    """

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
        """Build the model for a pre-training phase of IDC-PCL.

        masked: shares of hidden words and of hidden cells
        taus: the temperatures of the tasks MVCL (masked cells) and FDA (wrong captions)
        coef: learning-rate factor of the cell embedding and of the two image transformers
        single: True if the data are single images with captions (CUB), not pairs
        """
        super().__init__()
        self.sizes, self.switches = sizes, switches
        (self.word_share, self.cell_share), (self.tau1, self.tau2) = masked, taus
        self.groups = rates(coef)
        self.single = single  # CUB: a pair is one image, which is passed as `before`
        self.takes = {"difference.": "difference.", "cell_head.": "cell_head."}  # if there was a phase on CUB
        self.terms = tasks_of(switches, single)
        self.measures = tuple(name for task in self.terms for name in MEASURES[task])
        self.zero_idle = switches.idle_gradients == "zero"
        self.encoding = GridCells(pool=sizes.pool)
        self.difference = Network(sizes, switches, dropout)
        if "mvcl" in self.terms:
            self.cell_head = CellHead(sizes, switches)
        self.classes = CLASSES if "class_pairs" in self.terms else 0  # the stage `pretrain` reads it
        if self.classes:
            self.class_pairs = ClassPairs(sizes, self.classes)

    def losses_of(
        self, before: Tensor, after: Tensor, tokens: Tensor, parts: int = 1, labels: Any = None
    ) -> dict[str, Tensor]:
        """Return the loss and the measures of the batch's task, as scalars by name.

        before, after: cells of the two images of each pair, (B, N, C) each
        tokens: one caption of each pair; in the task FDA, seven: the pair's caption and then six wrong ones
        labels: they name the batch's task; None: the task is MVCL, or MLM if the phase lacks MVCL
        """
        task = labels.task if labels else "mvcl" if "mvcl" in self.terms else "mlm"
        if labels and labels.classes is not None:
            return self.class_pairs(self.difference, before, after, labels.classes)
        room = self.sizes.longest - tokens.shape[1] if self.switches.padding == "attended" else 0
        tokens = F.pad(tokens, (0, room))
        if task == "mlm":
            return self.mlm(before, after, tokens)
        if task == "mvcl":
            return self.mvcl(before, after, tokens)
        return self.fda(before, after, tokens, labels.changed)

    def joint(self, before: Tensor, after: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Encode images and k captions of a pair: V^ (k*B, M, D), M = 2(N+1) or N+2; T^ (k*B, 1+L, D)."""
        memory = self.difference.alone(before) if self.single else self.difference(before, after).memory
        memory = memory.repeat_interleave(len(tokens) // len(memory), 0)
        return self.difference.joint(memory, tokens, self.switches.padding == "attended")

    def marks_and_cells(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Split encoded images into [IMG1], [IMG2] and cells: (B, M, D) -> (B, 2, D), (B, I, N, D)."""
        if self.single:  # [IMG2] is after the cells
            return images[:, [0, -1]], images[:, None, 1:-1]
        both = images.unflatten(1, (2, -1))
        return both[:, :, 0], both[:, :, 1:]

    def mlm(self, before: Tensor, after: Tensor, tokens: Tensor) -> dict[str, Tensor]:
        """Return `mlm`, the mean cross-entropy of masked words given the rest, and its accuracy."""
        read, chosen = masked_words(tokens, self.word_share, self.difference.mask)
        _, words = self.joint(before, after, read)
        logits = self.difference.output(words[:, 1:][chosen]).float()
        accuracy = (logits.argmax(-1) == tokens[chosen]).float().mean()
        return {"mlm": F.cross_entropy(logits, tokens[chosen]), "mlm_accuracy": accuracy}

    def mvcl(self, before: Tensor, after: Tensor, tokens: Tensor) -> dict[str, Tensor]:
        """Return the loss and the rank of the task MVCL: to find a masked cell's feature among negatives.

        For each masked cell, the true features of all masked cells are sorted by their similarity to its
        prediction. The rank is the mean place of its own feature, from 0 (most similar) to 1; 1/2 by chance.
        """
        cells = torch.stack([before] if self.single else [before, after], 1)  # (B, I, N, C)
        hidden = masked_cells(cells.shape[:3], self.cell_share, cells.device)
        visible = cells.masked_fill(hidden[..., None], 0)
        images, _ = self.joint(visible[:, 0], visible[:, -1], tokens)
        _, v = self.marks_and_cells(images)
        weight = self.difference.project.weight
        x = F.normalize(cells.float(), dim=-1)
        p = F.normalize(self.cell_head(v[hidden], weight).float(), dim=-1)
        cosines = p @ x[hidden].T  # cos(p_i, x_j) at row i, column j
        true = cosines.diagonal()[:, None]
        if self.switches.mvcl_negatives == "originals":
            logits, targets = torch.cat([true, p @ x[~hidden].T], 1), torch.zeros(len(p), dtype=torch.int64)
        else:
            outputs = F.normalize(self.cell_head(v[~hidden], weight).float(), dim=-1)
            logits, targets = torch.cat([cosines, p @ outputs.T], 1), torch.arange(len(p))
        more_similar = (cosines > true).float().sum(1)
        loss = F.cross_entropy(logits / self.tau1, targets.to(logits.device))
        return {"mvcl": loss, "mvcl_rank": more_similar.mean() / max(1, len(p) - 1)}

    def fda(self, before: Tensor, after: Tensor, tokens: Tensor, changed: Tensor) -> dict[str, Tensor]:
        """Return the loss and two accuracies of the task FDA: to find a pair's caption among six negatives.

        `tokens`, (7*B, L), has each pair's caption, then its negatives. The accuracies are over pairs whose
        `changed`, (B,), is not 0, and over the others; NaN over no pairs.
        """
        images, words = self.joint(before, after, tokens)
        marks, _ = self.marks_and_cells(images)
        first, second = marks.float().unbind(1)
        q = F.cosine_similarity((first + second) / 2, words[:, 0].float(), dim=-1)
        q = q.unflatten(0, (len(before), -1))  # (B, 7)
        correct = (q.argmax(1) == 0).float()
        return {
            "fda": F.cross_entropy(q / self.tau2, torch.zeros_like(changed)),
            "fda_accuracy_change": correct[changed != 0].mean(),
            "fda_accuracy_no_change": correct[changed == 0].mean(),
        }


def masked_words(tokens: Tensor, share: float, mask: int) -> tuple[Tensor, Tensor]:
    """Mask each word with probability `share`; return the captions, (B, L), and a mask of the chosen words.

    80% of them become [MASK], the token `mask`; 10% a random token, 10% stay. <END> always becomes [MASK]. If
    no word of a caption is chosen, its first word becomes [MASK].
    """
    choice = torch.rand(tokens.shape, device=tokens.device)
    action = torch.rand(tokens.shape, device=tokens.device)
    random_tokens = torch.randint(mask + 2, tokens.shape, device=tokens.device)
    is_word = (tokens != NULL) & (tokens != START) & (tokens != END)
    chosen = is_word & (choice < share)
    first = is_word & (is_word.cumsum(1) == 1) & ~chosen.any(1, keepdim=True)
    end = (tokens == END) & (choice < share)
    hidden = (chosen & (action < MASKED)) | first | end
    replaced = chosen & (action >= MASKED) & (action < MASKED + RANDOM)
    read = torch.where(replaced, random_tokens, tokens).masked_fill(hidden, mask)
    return read, chosen | first | end


def masked_cells(shape: torch.Size, share: float, device: torch.device) -> Tensor:
    """Return a mask, (pairs, images, cells), that hides cells of one random image per pair, at least one."""
    pairs, images, cells = shape
    random = torch.rand(pairs, cells, device=device)
    image = torch.randint(images, (pairs, 1, 1), device=device)
    hidden = (random < share) | (random == random.min(1, keepdim=True).values)
    return hidden[:, None] & (torch.arange(images, device=device)[:, None] == image)
