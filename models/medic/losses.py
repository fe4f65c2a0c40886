"""MEDIC's loss terms. Each process returns its share (distributed_batch.py).

The equations are in docs/methods.md, "MEDIC". b: pairs of this process; K: kinds of change; the number K is
"no change".
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from models.common.captioner import Regulariser
from models.common.decoder_protocol import Words
from models.common.distributed_batch import processes, total
from models.medic.experts import unit
from models.medic.routing import NO_CHANGE, Routed
from models.medic.switches import MedicSwitches

ASYMMETRIC = ("add", "drop")  # kinds whose reverse is another kind
INTER, INTRA = 0.2, 0.7  # margins of L_dis


class ChangeClassification(Regulariser):
    """Loss L_cls: cross-entropy of the change router, the mean over all pairs."""

    def forward(self, pair: Routed, words: Words) -> Tensor:
        changed = (pair.labels < pair.kinds).long()
        summed = F.cross_entropy(pair.change_logits, changed, reduction="sum")
        return summed / (len(changed) * processes())


class KindClassification(Regulariser):
    """Loss L_type: cross-entropy of the kind router, the mean over changed pairs.

    With the switch `type_pairs: routed`, only the pairs with the right verdict count. A single router
    (`routers: one`) learns from all pairs: its cross-entropy is the sum of those of z and of s.
    """

    def __init__(self, switches: MedicSwitches):
        super().__init__()
        self.single, self.routed = switches.routers == "one", switches.type_pairs == "routed"

    def forward(self, pair: Routed, words: Words) -> Tensor:
        changed = pair.labels < pair.kinds
        counted = changed & pair.rightly_opened if self.routed else changed
        count = total(counted.sum())
        if not count and not self.single:
            return pair.kind_logits.new_zeros(())
        summed = F.cross_entropy(pair.kind_logits[counted], pair.labels[counted], reduction="sum")
        if not self.single:
            return summed / count
        summed = summed + F.cross_entropy(pair.change_logits, changed.long(), reduction="sum")
        return summed / (len(changed) * processes())


class MedicConsistency(Regulariser):
    """Loss L_con: an expert's outputs for F and for the exchanged F are alike, or opposite (add, drop).

    `experts`: the kinds that have an expert.
    """

    def __init__(self, switches: MedicSwitches, experts: tuple[str, ...]):
        super().__init__()
        self.routed, self.by_kind = (
            switches.consistency_pairs == "routed",
            switches.consistency_groups == "kinds",
        )
        numbers = {kind: number for number, kind in enumerate(k for k in experts if k != NO_CHANGE)}
        self.asymmetric = tuple(numbers[kind] for kind in ASYMMETRIC if kind in numbers)

    def forward(self, pair: Routed, words: Words) -> Tensor:
        terms = [self._group(pair, *group) for group in self._groups(pair)]
        return torch.stack(terms).sum()

    def _groups(self, pair: Routed) -> list[tuple[Tensor, bool]]:
        """Return the groups of pairs over which means are taken: (mask of the pairs, asymmetric)."""
        included = pair.rightly_opened if self.routed else torch.ones_like(pair.rightly_opened)
        if self.by_kind:
            kinds = range(pair.kinds + 1)
            return [(included & (pair.labels == kind), kind in self.asymmetric) for kind in kinds]
        asymmetric = torch.zeros_like(included)
        for kind in self.asymmetric:
            asymmetric = asymmetric | (pair.labels == kind)
        return [(included & ~asymmetric, False), (included & asymmetric, True)]

    def _group(self, pair: Routed, members: Tensor, asymmetric: bool) -> Tensor:
        """Return 1 - c, or 1 + c for asymmetric kinds; c is the mean similarity of `members`. Empty: 0."""
        count = total(members.sum())
        similarity = (members * pair.similarity).sum() / count.clamp(min=1)
        present = (count > 0) / processes()
        return present + similarity if asymmetric else present - similarity


class MedicDisentangling(Regulariser):
    """Loss L_dis = L_inter + L_intra: prototypes of different kinds differ.

    L_inter compares kinds of change with "no change", L_intra kinds of change with each other.
    """

    def __init__(self, switches: MedicSwitches):
        super().__init__()
        self.of_mixture = switches.prototypes == "mixture"

    def forward(self, pair: Routed, words: Words) -> Tensor:
        inter, intra = self.parts(pair)
        return (inter + intra) / processes()  # each process computes the loss of the whole batch

    def parts(self, pair: Routed) -> tuple[Tensor, Tensor]:
        """Return L_inter and L_intra of the batch of all processes."""
        K, dtype = pair.kinds, torch.promote_types(pair.prototype.dtype, torch.float32)
        with torch.autocast(pair.prototype.device.type, enabled=False):
            members = F.one_hot(pair.labels, K + 1).to(dtype)  # (b, K+1)
            if self.of_mixture:
                members[:, :K] *= pair.rightly_opened[:, None]
                members[:, K] = pair.opened != 1  # where the verdict is wrong, m is 0
            counts = total(members.sum(0))
            means = total(members.T @ pair.prototype.to(dtype)) / counts.clamp(min=1)[:, None]
            g = unit(means)  # (K+1, 2D); 0 for a missing kind
            cosines = g @ g.T
            above = [F.relu(cosines[:K, K] - INTER), F.relu(cosines[:K, :K].triu(1) - INTRA)]
        present = (counts[:K] > 0).sum() if self.of_mixture else torch.tensor(K)
        divisors = present, present * (present - 1) / 2
        inter, intra = (x.square().sum() / n.clamp(min=1) for x, n in zip(above, divisors, strict=True))
        return inter, intra
