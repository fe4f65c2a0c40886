"""Optimisers of training phases; each group of tensors has a learning rate and a weight decay."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from models.common.trainable import Group

BETA1 = 0.9
EPSILON = 1e-6  # added to the denominator by BertAdam


def build(model: nn.Module, groups: tuple[Group, ...], settings: dict[str, Any]) -> torch.optim.Optimizer:
    """Return the optimiser that the settings name (default: Adam), for all tensors that require gradients."""
    learning_rate, kind = settings["learning_rate"], settings.get("optimiser", "adam")
    parameters: list[Any] = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if groups:
        parameters = grouped(model, groups, learning_rate, settings["weight_decay"])
    betas = (BETA1, settings.get("beta2", 0.999))
    if kind == "bert_adam":
        return BertAdam(parameters, learning_rate, betas)
    if kind == "adamw":
        return torch.optim.AdamW(parameters, learning_rate, betas, fused=True)
    return torch.optim.Adam(parameters, learning_rate, betas, fused=True)


def grouped(model: nn.Module, groups: tuple[Group, ...], rate: float, decay: float) -> list[dict[str, Any]]:
    """Return torch's parameter groups; a tensor belongs to the first Group whose pattern matches its name."""
    members: dict[Group, list[Tensor]] = {group: [] for group in groups}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            members[next(group for group in groups if re.search(group.names, name))].append(parameter)
    return [
        {
            "params": tensors,
            "lr": rate * group.rate,
            "rate": group.rate,
            "weight_decay": decay if group.decays else 0.0,
        }
        for group, tensors in members.items()
        if tensors
    ]


class BertAdam(torch.optim.Optimizer):
    """Adam without bias correction, with decoupled weight decay (CLIP4IDC's released program).

    A step replaces a tensor w by w - lr (m / (sqrt(v) + 1e-6) + decay w), where m and v are the running means
    of its gradient and of the gradient's square. A tensor without a gradient stays unchanged.
    """

    def __init__(self, params: Iterable[Any], lr: float, betas: tuple[float, float]):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Take one step; `closure` is ignored."""
        for group in self.param_groups:
            first, second = group["betas"]
            for w in group["params"]:
                if w.grad is None:
                    continue
                state = self.state[w]
                if not state:
                    state["m"], state["v"] = torch.zeros_like(w), torch.zeros_like(w)
                m, v = state["m"].lerp_(w.grad, 1 - first), state["v"]
                v.mul_(second).addcmul_(w.grad, w.grad, value=1 - second)
                update = m / (v.sqrt() + EPSILON) + group["weight_decay"] * w
                w.sub_(update, alpha=group["lr"])
