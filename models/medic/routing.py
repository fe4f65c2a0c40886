"""MEDIC's routing: two routers judge the paired features of both images, and experts answer.

The equations are in docs/methods.md, "MEDIC". B: pairs; b: pairs of this process; n: some of the pairs; N:
cells of an image; D: width; K: kinds of change. The kinds of change have the numbers 0 to K-1, and "no
change" has the number K.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from models.common.captioner import Aligned
from models.common.distributed_batch import total
from models.common.trainable import KINDS
from models.medic.experts import ExpertMemories, Mlps, Router, unit
from models.medic.switches import MedicSizes, MedicSwitches

NO_CHANGE = KINDS[-1]
UNKNOWN = -1  # number of an unknown kind


def experts_of(kinds: Sequence[str], switches: MedicSwitches) -> tuple[str, ...]:
    """Return the kinds with an expert in the order of KINDS, or raise ValueError if two are not named."""
    names = KINDS if switches.experts == "six" else tuple(kinds)
    if len({*names} - {NO_CHANGE}) < 2 or len({*names}) < len(names) or not {*names} <= {*KINDS}:
        raise ValueError(f"kinds must be two or more kinds of change of {', '.join(KINDS)}, not {kinds!r}")
    return tuple(kind for kind in KINDS if kind in names)


@dataclass
class Routed(Aligned):
    """Difference of the two images of a pair, with the routers' answers and the experts' mixture."""

    paired: Tensor  # F = [f_bef ; f_aft], (B, N, 2D)
    change_logits: Tensor  # z, (B, 2); index 1: change
    kind_logits: Tensor  # s, (B, K); in training 0 for pairs that do not need them
    opened: Tensor  # (B,), int64: 1: the experts of change answer; 0: that of no change; -1: none
    mixture: Tensor  # m, (B, N, 2D)
    labels: Tensor  # (B,), int64: number of the pair's kind; UNKNOWN in decoding
    similarity: (
        Tensor  # (B,), of the expert's outputs for F and for the exchanged F; 0 where it is not needed
    )
    prototype: Tensor  # (B, 2D), mean over cells of m, or of the output of the expert of the pair's kind

    @property
    def kinds(self) -> int:
        return self.kind_logits.shape[1]

    @property
    def verdict(self) -> Tensor:
        return verdict_of(self.change_logits)

    @property
    def rightly_opened(self) -> Tensor:
        """True for the pairs whose experts are those of the label, (B,): the sets U and S."""
        return self.opened == (self.labels < self.kinds).long()

    def probabilities(self) -> Tensor:
        """Return p_1 q_k (0 where the experts of change do not answer), and p_0: (B, K+1)."""
        p, q = self.change_logits.softmax(-1), self.kind_logits.softmax(-1)
        return torch.cat([torch.where((self.opened == 1)[:, None], p[:, 1:] * q, 0), p[:, :1]], 1)

    def routed_kinds(self) -> tuple[Tensor, Tensor]:
        """Return the kind that the routers find for each pair, and its probability, (B,) each."""
        p, q = self.change_logits.softmax(-1), self.kind_logits.softmax(-1)
        probability, kind = q.max(-1)
        found = torch.where(self.verdict, kind, self.kinds)
        return found, torch.where(self.verdict, p[:, 1] * probability, p[:, 0])


@dataclass
class RoutedViews(Routed):
    """Routed pairs with queries and keys of both images for SCORER's matching, (B, h, N, d) each."""

    before_queries: Tensor
    after_keys: Tensor


def verdict_of(change_logits: Tensor) -> Tensor:
    return change_logits[:, 1] > change_logits[:, 0]


@dataclass(frozen=True)
class RouterOutput:
    """Fields of Routed that the routing computes."""

    change_logits: Tensor
    kind_logits: Tensor
    opened: Tensor
    mixture: Tensor
    labels: Tensor
    similarity: Tensor
    prototype: Tensor


class Routing(nn.Module):
    """MEDIC's routers and experts. `experts`: the kinds that have an expert (experts_of)."""

    compiles = False  # which pairs are computed depends on the verdicts

    def __init__(self, sizes: MedicSizes, switches: MedicSwitches, experts: Sequence[str]):
        super().__init__()
        features, R, grid = 2 * sizes.width, sizes.router, sizes.grid
        self.switches, self.has_unchanged = switches, NO_CHANGE in experts
        self.K = len(experts) - self.has_unchanged
        self.single = switches.routers == "one"
        if self.has_unchanged and not self.single:
            self.change_router = Router(features, R, 2, grid)
        self.kind_router = Router(features, R, self.K + (self.has_unchanged and self.single), grid)

        def group(number: int) -> ExpertMemories | Mlps:
            if switches.memory == "slots":
                return ExpertMemories(number, features, sizes.slots)
            return Mlps(number, features)

        self.change = group(self.K)
        if self.has_unchanged:
            self.no_change = group(1)

    def forward(self, paired: Tensor, labels: Tensor | None, learns: bool) -> RouterOutput:
        """Route pairs by their paired features F, (B, N, 2D).

        labels: (B,), numbers of the pairs' kinds; in decoding, they open the gate together with the verdict;
            None: the verdict alone opens the gate
        learns: True in training, which needs the labels; `labels` then open the gate only if the switch
            `gate` says so. A router or an expert then computes only the pairs for which a loss needs it.
        """
        known = labels if labels is not None else paired.new_full((len(paired),), UNKNOWN, dtype=torch.int64)
        changed = known < self.K
        if self.single:
            z, s = self._single(paired)
            opened = changed.long() if learns else torch.ones_like(known)
        else:
            z, s = self._changes(paired), None
            opened = verdict_of(z).long()
            if labels is not None and (self.switches.gate == "label" or not learns):
                opened = torch.where(opened == changed, opened, -1)
        if s is None:
            judged = opened == 1
            if not learns:
                judged = torch.ones_like(judged)
            elif self.switches.type_pairs == "all":
                judged = judged | changed
            s = placed(judged, self.kind_router, paired)
            if s is None:
                s = z.new_zeros(len(z), self.K)
        m = self._mixture(paired, z, s, opened)
        if learns:
            similarity, prototype = self._compared(paired, m, known, opened)
        else:
            similarity, prototype = m.new_zeros(len(m)), m.new_zeros(len(m), 0)
        return RouterOutput(z, s, opened, m, known, similarity, prototype)

    def _changes(self, paired: Tensor) -> Tensor:
        """Return the logits of "no change" and "change", (B, 2)."""
        if self.has_unchanged:
            logits: Tensor = self.change_router(paired)
            return logits
        return paired.new_tensor([-math.inf, 0.0]).expand(len(paired), 2)

    def _single(self, paired: Tensor) -> tuple[Tensor, Tensor]:
        """Return the single router's logits of a change, (B, 2), and of the kinds of change, (B, K).

        With these logits, p_1 q_k and p_0 are the router's softmax over all its classes.
        """
        logits = self.kind_router(paired)
        s = logits[:, : self.K]
        if not self.has_unchanged:
            return self._changes(paired), s
        return torch.stack([logits[:, self.K], s.logsumexp(-1)], 1), s

    def _mixture(self, paired: Tensor, z: Tensor, s: Tensor, opened: Tensor) -> Tensor:
        """Return the mixture m of the experts' answers, (B, N, 2D), which is 0 where none answers."""
        p, q = z.detach().softmax(-1), s.detach().softmax(-1)  # captions do not train the routers
        change, unchanged = opened == 1, opened == 0
        weights = {True: (p[:, 1:] * q, p[:, :1]), False: (q, torch.ones_like(p[:, :1]))}
        of_change, of_none = weights[self.switches.confidence or self.single]
        if self.single:
            change = unchanged = torch.ones_like(change)
        parts = [placed(change, self.change.mixed, paired, of_change)]
        if self.has_unchanged:
            parts.append(placed(unchanged, self.no_change.mixed, paired, of_none))
        found = [part for part in parts if part is not None]
        return sum(found[1:], found[0]) if found else torch.zeros_like(paired)

    def _compared(self, paired: Tensor, m: Tensor, labels: Tensor, opened: Tensor) -> tuple[Tensor, Tensor]:
        """Return the fields `similarity` and `prototype` of Routed, of the experts of the pairs' kinds."""
        changed = labels < self.K
        right = opened == changed.long()
        included = right if self.switches.consistency_pairs == "routed" else torch.ones_like(right)
        of_experts = self.switches.prototypes == "experts"
        similarity, prototype = m.new_zeros(len(m)), torch.zeros_like(m[:, 0]) if of_experts else m.mean(1)
        groups: list[tuple[ExpertMemories | Mlps, Tensor, Tensor]] = []
        groups.append((self.change, changed, torch.where(changed, labels, 0)))
        if self.has_unchanged:
            groups.append((self.no_change, ~changed, torch.zeros_like(labels)))
        for experts, members, chosen in groups:
            compute = partial(exchange_similarity, experts)
            alike = placed(members & included, compute, paired, chosen)
            similarity = similarity if alike is None else similarity + alike
            pooled = placed(members, experts.pooled, paired, chosen) if of_experts else None
            prototype = prototype if pooled is None else prototype + pooled
        return similarity, prototype


def placed(chosen: Tensor, compute: Callable[..., Tensor], *inputs: Tensor) -> Tensor | None:
    """Compute only the `chosen`, (b,), rows of `inputs`, (b, ...); return them at their places, 0 elsewhere.

    Returns None if no pair of any process is chosen. If only other processes have such pairs, `compute` gets
    no rows: its parameters then have a gradient of 0 in this process, too.
    """
    rows = chosen.nonzero()[:, 0]
    if not total(chosen.sum()):
        return None
    if len(rows) == len(chosen):
        return compute(*inputs)
    values = compute(*(x[rows] for x in inputs))
    return values.new_zeros(len(chosen), *values.shape[1:]).index_copy(0, rows, values)


def exchange_similarity(experts: ExpertMemories | Mlps, x: Tensor, chosen: Tensor) -> Tensor:
    """Return the cosine of an expert's outputs for F, (n, N, 2D), and for exchanged images: (n,)."""
    first, second = x.chunk(2, -1)
    forwards, backwards = (experts.each(y, chosen) for y in (x, torch.cat([second, first], -1)))
    with torch.autocast(x.device.type, enabled=False):  # in float32 at least, because 1 - c is small
        wide = torch.promote_types(forwards.dtype, torch.float32)
        return (unit(forwards.to(wide)) * unit(backwards.to(wide))).sum(-1).mean(1)
