"""Where the maxima of the similarities stand, and gradients along them alone: the matching in plain torch.

For any device and type, one image of the queries at a time: memory for (A, h, N, M) similarities.
B x A images, h heads, d = D/h, N (M) tokens an image.
"""

import torch
from torch import Tensor


def locate(queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """TM (SCORER Eq. 2), and where each token's best partner stands; the lowest index of a tie.

    (B, h, N, d), (A, h, M, d) -> (B, A, h) in float32 at least; (B, A, h, N) and (B, A, h, M), int16.
    A similarity that is NaN makes its matching NaN.
    """
    found = [_locate(q @ keys.transpose(-2, -1)) for q in queries]  # of (A, h, N, M)
    matches, row_at, column_at = (torch.stack(each) for each in zip(*found, strict=True))
    return matches, row_at, column_at


def _locate(e: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    (row, row_at), (column, column_at) = first_greatest(e, -1), first_greatest(e, -2)
    exact = torch.promote_types(e.dtype, torch.float32)
    return (row.to(exact).mean(-1) + column.to(exact).mean(-1)) / 2, row_at, column_at


def first_greatest(e: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The maxima along `dim` and the lowest index, int16, of each; `max` promises no index on a GPU."""
    best = e.amax(dim, keepdim=True)  # NaN where one is NaN
    size = e.shape[dim]
    places = torch.arange(size, dtype=torch.int16, device=e.device).view(-1, *[1] * (-dim - 1))
    places = torch.where((e == best) | e.isnan(), places, size)
    return best.squeeze(dim), places.amin(dim)


def spread(
    grad: Tensor, queries: Tensor, keys: Tensor, row_at: Tensor, column_at: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of the queries (B, h, N, d) and keys (A, h, M, d), given (B, A, h) of the matching.

    In float32 at least, whatever the operands' type. Nothing is added atomically: the same on every run.
    """
    exact = torch.promote_types(queries.dtype, torch.float32)
    q, k, grad = queries.to(exact), keys.to(exact), grad.to(exact)
    N, M = q.shape[2], k.shape[2]
    grad_q, grad_k = torch.zeros_like(q), torch.zeros_like(k)
    for b in range(len(q)):
        g = grad[b, :, :, None, None]  # (A, h, 1, 1)
        along = g.new_zeros(*g.shape[:2], N, M)  # the gradient of e, (A, h, N, M)
        along.scatter_(-1, row_at[b].long()[..., None], (g / (2 * N)).expand(-1, -1, N, 1))
        taken = torch.zeros_like(along)
        taken.scatter_(-2, column_at[b].long()[..., None, :], (g / (2 * M)).expand(-1, -1, 1, M))
        along += taken
        grad_q[b] = (along @ k).sum(0)
        grad_k += along.transpose(-2, -1) @ q[b]
    return grad_q.to(queries.dtype), grad_k.to(keys.dtype)
