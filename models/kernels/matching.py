"""Token-wise matching of every before image with every after image of a batch (SCORER Eq. 2-3).

B images against A images, h heads, d = D/h, N (M) tokens an image. This is the hot spot: the
similarities of a batch are (B, A, h, N, M) numbers, and only their row and column maxima matter.
"""

import importlib.util
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from models.common.distributed_batch import everyone, own
from models.common.switches import Mtm
from models.kernels import matching_cpu, matching_plain

LARGEST_SCALE = 100.0  # of a learned temperature: exp(s)
MOST_TOKENS = 2**15 - 1  # an image: indices are int16
POOLS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "mean_pool": Tensor.mean,
    "max_pool": Tensor.amax,  # equal tokens share the gradient
}
TRITON = importlib.util.find_spec("triton") is not None  # it comes with torch on Linux


def token_matching(queries: Tensor, keys: Tensor) -> Tensor:
    """TM of each head for every pair of images: (B, h, N, d), (A, h, M, d) -> (B, A, h).

    TM(Q, K) = 1/2 [ 1/N sum_i max_j q_i.k_j + 1/M sum_j max_i q_i.k_j ]    (SCORER Eq. 2)

    Exact, in float32 at least, without ever keeping the similarities: (B, A, h, N + M) indices of the
    maxima (int16) stay for the backward pass, which reaches the maxima only. A tie sends its gradient to
    the token of the lowest index, on every device; the sums are in one order, the same on every run.

    Raises ValueError where an image has more tokens than int16 counts.
    """
    if max(queries.shape[2], keys.shape[2]) > MOST_TOKENS:
        raise ValueError(f"the matching takes {MOST_TOKENS} tokens an image at most")
    return _TokenMatching.apply(queries, keys)


class _TokenMatching(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor) -> Tensor:
        matches, row_at, column_at = implementation(queries).locate(queries, keys)
        ctx.save_for_backward(queries, keys, row_at, column_at)
        return matches  # (B, A, h)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        queries, keys, row_at, column_at = ctx.saved_tensors
        return implementation(queries).spread(grad, queries, keys, row_at, column_at)


def implementation(queries: Tensor) -> ModuleType:
    """Which of the argmax modules computes: `locate` forwards, `spread` backwards, equal in all of them.

    On a processor the compiled loops for bfloat16 and float32; on a GPU from compute capability 8.0 on
    the Triton kernels where Triton is installed, for those and float16; plain torch for all else.
    """
    if queries.device.type == "cpu" and queries.dtype in matching_cpu.WHOLE_NUMBERS:
        return matching_cpu
    if queries.is_cuda and TRITON and torch.cuda.get_device_capability(queries.device) >= (8, 0):
        from models.kernels import matching_gpu  # not at the top: Triton takes a second to import

        return matching_gpu if queries.dtype in matching_gpu.TYPES else matching_plain
    return matching_plain


def matching(queries: Tensor, keys: Tensor, mtm: Mtm = "per_head") -> Tensor:
    """MTM as one number a pair of images (SCORER Eq. 3): (b, h, N, d), (b, h, M, d) -> (b, B).

    This process's queries against everyone's keys (models/common/distributed_batch.py); float32 at least.

    `per_head`: TM in each head, then the mean over heads. `summed`: e_ij is summed over the heads,
    and only then max'ed. `single_head` (Fig. 3) is the same: the projections are shared with the
    attention, and one head of them is the product of all their D channels; the attention keeps its heads.
    `mean_pool`, `max_pool` (Fig. 3): the dot product, D wide, of one vector an image, the mean or the
    maximum by channel of its projected tokens. No 1/sqrt(d) in any: Eq. 2 has none.
    """
    if mtm not in POOLS:
        return token_matching(headed(queries, mtm), everyone(headed(keys, mtm))).mean(-1)
    q, k = pooled(queries, mtm), everyone(pooled(keys, mtm))  # only vectors travel
    with torch.autocast(q.device.type, enabled=False):
        return q @ k.T


def partner_matching(queries: Tensor, keys: Tensor, mtm: Mtm = "per_head") -> Tensor:
    """The diagonal of `matching` alone, of unit vectors: (b, h, N, d), (b, h, M, d) -> b, in [-1, 1].

    An image with its partner, by cosines in place of dot products; of zero vectors 0.
    """
    if mtm in POOLS:
        return (normalize(pooled(queries, mtm), dim=-1) * normalize(pooled(keys, mtm), dim=-1)).sum(-1)
    # pairs as heads, which are matched each with its own: (1, bh, N, d)
    q, k = (normalize(headed(x, mtm), dim=-1).flatten(0, 1)[None] for x in (queries, keys))
    return token_matching(q, k).view(len(queries), -1).mean(-1)


def headed(x: Tensor, mtm: Mtm) -> Tensor:
    """(B, h, N, d) as it is, or as one head, (B, 1, N, D): one dot product over all heads."""
    return x if mtm == "per_head" else x.transpose(1, 2).flatten(2)[:, None]


def pooled(x: Tensor, mtm: Mtm) -> Tensor:
    """One vector an image: (B, h, N, d) -> (B, D), float32 at least."""
    return POOLS[mtm](x.to(torch.promote_types(x.dtype, torch.float32)), 2).flatten(1)


def contrast(similarity: Tensor, temperature: float | Tensor) -> Tensor:
    """-(1/B) sum_k log softmax_r(S_kr / tau)_k: row k's own partner is column k (SCORER Eq. 4).

    Rows are this process's pairs, (b, B): its share of the sum (models/common/distributed_batch.py).
    """
    b, B = similarity.shape
    partner = torch.arange(B, device=similarity.device)[own(b)]
    return nn.functional.cross_entropy(similarity / temperature, partner, reduction="sum") / B


class Contrast(nn.Module):
    """1/2 (L of the one direction + L of the other), each (b, B) (SCORER Eq. 4 and 11).

    With a learned temperature the similarities are multiplied by exp(s), s = 1 at first.
    """

    def __init__(self, temperature: float, learned: bool = False):
        super().__init__()
        if not temperature > 0:
            raise ValueError(f"temperature must be positive, not {temperature}")
        self.fixed = temperature
        self.s = nn.Parameter(torch.tensor(1.0)) if learned else None

    @property
    def temperature(self) -> float | Tensor:
        """tau, which similarities are divided by."""
        return self.fixed if self.s is None else torch.exp(-self.s)

    def constrain(self) -> None:
        """exp(s) <= 100."""
        if self.s is not None:
            with torch.no_grad():
                self.s.clamp_(max=math.log(LARGEST_SCALE))

    def forward(self, one_way: Tensor, other_way: Tensor) -> Tensor:
        return (contrast(one_way, self.temperature) + contrast(other_way, self.temperature)) / 2
