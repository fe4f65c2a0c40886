"""Token-wise matching in plain torch, for any device and type.

Token-wise matching (TM) finds, for each token, the most similar token of a second image. `locate`
computes the maxima of the similarities, and `spread` computes the gradients through the maxima.
Both loop over the images of the queries. Each step of the loop needs memory for (A, h, N, M)
similarities.
B: images of the queries; A: images of the keys; N: tokens of a query image; M: tokens of a key
image; h: heads; d: width of a head.
"""

import torch
from torch import Tensor


def locate(queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the matching (Eq. 2), (B, A, h), and the best keys, (B, A, h, N), and queries, (B, A, h, M)."""
    results = [_locate(q @ keys.transpose(-2, -1)) for q in queries]  # of (A, h, N, M)
    matches, row_at, column_at = (torch.stack(tensors) for tensors in zip(*results, strict=True))
    return matches, row_at, column_at


def _locate(e: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    (row, row_at), (column, column_at) = first_greatest(e, -1), first_greatest(e, -2)
    exact = torch.promote_types(e.dtype, torch.float32)
    return (row.to(exact).mean(-1) + column.to(exact).mean(-1)) / 2, row_at, column_at


def first_greatest(e: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return the maxima along a negative `dim` and their indices, int16; a tie gives the lowest one."""
    best = e.amax(dim, keepdim=True)  # NaN if there is a NaN
    size = e.shape[dim]
    places = torch.arange(size, dtype=torch.int16, device=e.device).view(-1, *[1] * (-dim - 1))
    places = torch.where((e == best) | e.isnan(), places, size)
    return best.squeeze(dim), places.amin(dim)


def spread(
    grad: Tensor, queries: Tensor, keys: Tensor, row_at: Tensor, column_at: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the gradients of queries, (B, h, N, d), and keys, (A, h, M, d), of the token-wise matching.

    `grad` is (B, A, h); `locate` returned `row_at`, (B, A, h, N), and `column_at`, (B, A, h, M).
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
