"""Experts and routers of MEDIC: key-value memories, and classifiers of the kind of change.

B: pairs; n: some of the pairs; N = H*W: cells of an image; F: channels of a cell's paired feature, 2D; K:
experts of a group; M: slots of a memory; R: hidden channels of a router or of an expert that is an MLP.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

TEMPERATURE = 0.1  # of the addressing of slots


def unit(x: Tensor) -> Tensor:
    return F.normalize(x, dim=-1, eps=1e-12)


class Router(nn.Sequential):
    """Classifier of the paired features: two 3x3 convolutions, and the mean over the cells.

    `features` is F; `classes` is the number of logits.
    """

    def __init__(self, features: int, hidden: int, classes: int, grid: tuple[int, int]):
        super().__init__(
            nn.Conv2d(features, hidden, 3, padding=1), nn.ReLU(), nn.Conv2d(hidden, classes, 3, padding=1)
        )
        self.grid = grid

    def forward(self, paired: Tensor) -> Tensor:
        """Return the logits, (n, classes), of paired features, (n, N, F)."""
        first, activation, second = self
        maps: Tensor = second(activation(first(paired.transpose(1, 2).unflatten(2, self.grid))))
        # in float32 at least: verdicts of 16 bits would often be ties
        return maps.to(torch.promote_types(maps.dtype, torch.float32)).mean((2, 3))


class ExpertMemories(nn.Module):
    """K key-value memories of M slots: E_k(x) = softmax(unit(x) unit(K_k)^T / 0.1) V_k for each cell x."""

    def __init__(self, experts: int, features: int, slots: int):
        super().__init__()
        self.keys = nn.Parameter(torch.empty(experts, slots, features))
        self.values = nn.Parameter(torch.empty(experts, slots, features))
        bound = math.sqrt(6 / (slots + features))  # Xavier's uniform for each memory
        for table in (self.keys, self.values):
            nn.init.uniform_(table, -bound, bound)

    def mixed(self, x: Tensor, weights: Tensor) -> Tensor:
        """Return sum_k w_k E_k(x), (n, N, F), for cells x, (n, N, F), and weights of experts, (n, K)."""
        K, M, _ = self.keys.shape
        logits = unit(x) @ unit(self.keys).flatten(0, 1).T / TEMPERATURE  # (n, N, K M)
        slots = logits.unflatten(-1, (K, M)).softmax(-1) * weights[:, None, :, None]
        return slots.flatten(2).to(x.dtype) @ self.values.flatten(0, 1)

    def each(self, x: Tensor, chosen: Tensor) -> Tensor:
        return self.addresses(x, chosen) @ self.values[chosen]

    def pooled(self, x: Tensor, chosen: Tensor) -> Tensor:
        return (self.addresses(x, chosen).mean(1, keepdim=True) @ self.values[chosen])[:, 0]

    def addresses(self, x: Tensor, chosen: Tensor) -> Tensor:
        """Return the weights of the slots, (n, N, M), for cells x and experts `chosen`."""
        logits = unit(x) @ unit(self.keys)[chosen].transpose(1, 2) / TEMPERATURE
        return logits.softmax(-1).to(x.dtype)


class Mlps(nn.Module):
    """K maps E_k(x) = W_2 ReLU(W_1 x + b_1) + b_2 of each cell, with as many hidden channels as x has."""

    def __init__(self, experts: int, features: int):
        super().__init__()
        bound = math.sqrt(3 / features)  # Xavier's uniform for each map
        self.first, self.second = (
            nn.Parameter(torch.empty(experts, features, features).uniform_(-bound, bound)) for _ in range(2)
        )
        self.first_bias, self.second_bias = (
            nn.Parameter(torch.zeros(experts, 1, features)) for _ in range(2)
        )

    def mixed(self, x: Tensor, weights: Tensor) -> Tensor:
        """See ExpertMemories.mixed."""
        hidden = torch.relu(torch.einsum("nif,kgf->nkig", x, self.first) + self.first_bias)
        return torch.einsum("nkig,khg,nk->nih", hidden, self.second, weights) + (
            weights @ self.second_bias[:, 0]
        ).unsqueeze(1)

    def each(self, x: Tensor, chosen: Tensor) -> Tensor:
        """See ExpertMemories.each."""
        hidden = torch.relu(x @ self.first[chosen].transpose(1, 2) + self.first_bias[chosen])
        return hidden @ self.second[chosen].transpose(1, 2) + self.second_bias[chosen]

    def pooled(self, x: Tensor, chosen: Tensor) -> Tensor:
        """See ExpertMemories.pooled."""
        return self.each(x, chosen).mean(1)
