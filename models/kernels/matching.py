"""Token-wise matching of all "before" images with all "after" images of a batch (SCORER Eq. 2-3).

This is the most expensive operation of training: a batch has (B, A, h, N, M) similarities, of which only the
maxima of rows and columns are needed.
TM: token-wise matching of two images; MTM: TM of several heads.
B, A: images; N, M: their tokens; b: images of this process; h: heads; D: width; d = D/h.
"""

import importlib.util
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from models.common.distributed_batch import join_processes, process_slice
from models.common.switches import Mtm
from models.kernels import matching_plain

LARGEST_SCALE = 100.0  # bound of exp(s) for a learned temperature
MOST_TOKENS = 2**15 - 1  # tokens of an image: indices are int16
POOLS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "mean_pool": Tensor.mean,
    "max_pool": Tensor.amax,  # equal tokens share the gradient
}
TYPES_ON_CPU = (torch.bfloat16, torch.float32)
TRITON = importlib.util.find_spec("triton") is not None  # part of torch on Linux


def token_matching(queries: Tensor, keys: Tensor) -> Tensor:
    """Return TM of h heads, exact and the same on every run: (B, h, N, d), (A, h, M, d) -> (B, A, h).

    TM(Q, K) = 1/2 [ 1/N sum_i max_j q_i.k_j + 1/M sum_j max_i q_i.k_j ]    (SCORER Eq. 2)
    It is in float32 or wider. On a tie the token with the lowest index gets the gradient. Raises ValueError
    if an image has more tokens than int16 can index.
    """
    if max(queries.shape[2], keys.shape[2]) > MOST_TOKENS:
        raise ValueError(f"an image has more tokens than the matching allows, {MOST_TOKENS}")
    return _TokenMatching.apply(queries, keys)


class _TokenMatching(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor) -> Tensor:
        matches, *located = implementation(queries, keys).locate(queries, keys)
        ctx.save_for_backward(queries, keys, *located)
        return matches  # (B, A, h)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        queries, keys, *located = ctx.saved_tensors
        return implementation(queries, keys).spread(grad, queries, keys, *located)


def implementation(queries: Tensor, keys: Tensor) -> ModuleType:
    """Return the module whose `locate` (forward) and `spread` (backward) match `queries` and `keys`.

    `locate` returns the matching and, in some modules, tensors that must be the last arguments of `spread`.
    Triton's kernels need compute capability 8.0.
    """
    if queries.device.type == "cpu" and queries.dtype in TYPES_ON_CPU:
        from models.kernels import matching_cpu  # here, because importing Numba takes half a second

        return matching_cpu
    if queries.is_cuda and TRITON and torch.cuda.get_device_capability(queries.device) >= (8, 0):
        from models.kernels import matching_gpu  # here, because importing Triton takes a second

        fits = max(queries.shape[2], keys.shape[2]) <= matching_gpu.MOST_TOKENS
        return matching_gpu if fits and queries.dtype in matching_gpu.TYPES else matching_plain
    return matching_plain


def matching(queries: Tensor, keys: Tensor, mtm: Mtm = "per_head") -> Tensor:
    """Score this process's b images against the B of all processes (SCORER Eq. 3): (b, B), float32 or wider.

    `queries`, (b, h, N, d), and `keys`, (b, h, M, d), are this process's parts. The values of `mtm`:
    per_head: the matching of each head is computed, then the mean over the heads
    summed, single_head: similarities are summed over the heads before the maxima (Fig. 3)
    mean_pool, max_pool: the dot product of each image's pooled vector of D channels (Fig. 3)
    """
    if mtm not in POOLS:
        return token_matching(headed(queries, mtm), join_processes(headed(keys, mtm))).mean(-1)
    q, k = pooled(queries, mtm), join_processes(pooled(keys, mtm))  # processes exchange only vectors
    with torch.autocast(q.device.type, enabled=False):
        return q @ k.T


def partner_matching(queries: Tensor, keys: Tensor, mtm: Mtm) -> Tensor:
    """Return the cosine similarity of each pair's two images: (b, h, N, d), (b, h, M, d) -> (b,)."""
    if mtm in POOLS:
        return (normalize(pooled(queries, mtm), dim=-1) * normalize(pooled(keys, mtm), dim=-1)).sum(-1)
    # pairs become heads, because each head is matched only with itself: (1, bh, N, d)
    q, k = (normalize(headed(x, mtm), dim=-1).flatten(0, 1)[None] for x in (queries, keys))
    return token_matching(q, k).view(len(queries), -1).mean(-1)


def headed(x: Tensor, mtm: Mtm) -> Tensor:
    return x if mtm == "per_head" else x.transpose(1, 2).flatten(2)[:, None]


def pooled(x: Tensor, mtm: Mtm) -> Tensor:
    return POOLS[mtm](x.to(torch.promote_types(x.dtype, torch.float32)), 2).flatten(1)


def contrast(similarity: Tensor, temperature: float | Tensor) -> Tensor:
    """Return this process's share of -(1/B) sum_k log p_kk, given its rows, (b, B), of S (SCORER Eq. 4)."""
    b, B = similarity.shape
    partner = torch.arange(B, device=similarity.device)[process_slice(b)]
    return nn.functional.cross_entropy(similarity / temperature, partner, reduction="sum") / B


class Contrast(nn.Module):
    """Contrastive loss, averaged over both directions (SCORER Eq. 4 and 11).

    A call takes two matrices of similarities, one for each direction. Each is (b, B): similarities of
    the b items of this process with all B items. Similarities are divided by `temperature`. If
    `learned` is True, they are multiplied by exp(s) instead. s is a learned number, 1 at the beginning.

    Raises ValueError if `temperature` is not positive.
    """

    def __init__(self, temperature: float, learned: bool):
        super().__init__()
        if not temperature > 0:
            raise ValueError(f"temperature must be positive, not {temperature}")
        self.fixed = temperature
        self.s = nn.Parameter(torch.tensor(1.0)) if learned else None
        self.items = 0  # B of the last call; the loss at chance is log(B)

    @property
    def temperature(self) -> float | Tensor:
        return self.fixed if self.s is None else torch.exp(-self.s)

    def constrain(self) -> None:
        """Limit a learned scale exp(s) of the similarities to at most LARGEST_SCALE."""
        if self.s is not None:
            with torch.no_grad():
                self.s.clamp_(max=math.log(LARGEST_SCALE))

    def forward(self, one_way: Tensor, other_way: Tensor) -> Tensor:
        self.items = one_way.shape[1]
        return (contrast(one_way, self.temperature) + contrast(other_way, self.temperature)) / 2
