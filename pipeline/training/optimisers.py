"""Optimisers and learning rate schedules of training phases.

Each group of tensors has a learning rate and a weight decay. A schedule gives the factor of the learning rate
at each iteration.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from models.common.trainable import Group

WARM_UP = 100  # iterations of warm-up of the schedule `cosine`
STEP_EPOCHS = 15  # epochs between steps of `step` and `step_early`, as in the released programs
STEP_FACTOR = 0.1
WARM = 0.1  # share of the iterations that is warm-up, in `warmup_cosine` and `warmup_linear`
NOAM_FIRST = 1e-4  # factor of `noam` at iteration 0
POLY = 0.9  # exponent of `poly`
FALLS = {"halves": 0.5, "tenths": 0.1}  # schedule -> factor at each milestone


def factor(settings: Mapping[str, Any], iteration: int, epoch: int) -> float:
    """Return the factor of the learning rate at an iteration; iterations are counted from 0.

    `epoch` is the number of iterations of an epoch. The setting `schedule` is one of:

    constant: 1 (SCORER, section 4.3)
    step: multiplied by 0.1 after every 15 epochs (SCORER's released program)
    step_early: multiplied by 0.1 one epoch earlier than in `step`, after 14, 29, ... epochs (released
        programs of DUDA and VARD, which count an epoch when it begins)
    cosine: linear warm-up over 100 iterations (or a tenth of the run, if that is shorter), then half a
        cosine, which reaches 0 after the last iteration (Loshchilov and Hutter, 2017)
    warmup_cosine, warmup_linear: x/0.1 while x < 0.1, then (1 + cos pi x)/2 or (1-x)/0.9, where x =
        iteration / iterations (CLIP4IDC's released program)
    noam: min(s/w, sqrt(w/s)) after s iterations, with w = `warm_up` (IDC-PCL)
    halves: multiplied by 0.5 at each of the iterations `milestones` (IDC-PCL)
    tenths: multiplied by 0.1 at each of the iterations `milestones` (CARD's released program)
    poly: (1 - t/n)^0.9 for iteration t, counted from 1, of n; 0 from the last iteration on (MEDIC's program)
    """
    schedule: str = settings["schedule"]
    iterations: int = settings["iterations"]
    if schedule == "constant":
        return 1.0
    if schedule == "step":
        return STEP_FACTOR ** (iteration // (STEP_EPOCHS * epoch))
    if schedule == "step_early":
        return STEP_FACTOR ** ((iteration // epoch + 1) // STEP_EPOCHS)
    if schedule in ("warmup_cosine", "warmup_linear"):
        x = iteration / iterations
        after = (1 + math.cos(math.pi * x)) / 2 if schedule == "warmup_cosine" else (1 - x) / (1 - WARM)
        return x / WARM if x < WARM else after
    if schedule == "noam":
        warm_up: int = settings["warm_up"]
        return min(iteration / warm_up, math.sqrt(warm_up / iteration)) if iteration else NOAM_FIRST
    if schedule == "poly":
        remaining: float = max(0.0, 1 - (iteration + 1) / iterations) ** POLY
        return remaining
    if schedule in FALLS:
        return FALLS[schedule] ** sum(iteration >= milestone for milestone in settings["milestones"])
    warm = min(WARM_UP, iterations // 10)
    if iteration < warm:
        return (iteration + 1) / warm
    return (1 + math.cos(math.pi * (iteration - warm) / (iterations - warm))) / 2


BETA1 = 0.9
EPSILON = 1e-6  # added to the denominator by BertAdam


def build(model: nn.Module, groups: tuple[Group, ...], settings: dict[str, Any]) -> torch.optim.Optimizer:
    """Return the optimiser settings["optimiser"] (default: Adam), for all tensors that require gradients.

    Without `groups` (see `grouped`), all have settings["learning_rate"] and settings["weight_decay"]
    (default: 0).
    """
    learning_rate, kind = settings["learning_rate"], settings.get("optimiser", "adam")
    decay: float = settings.get("weight_decay", 0.0)
    parameters: list[Any] = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if groups:
        parameters = grouped(model, groups, learning_rate, decay)
    betas = (BETA1, settings.get("beta2", 0.999))
    if kind == "bert_adam":
        return BertAdam(parameters, learning_rate, betas, decay)
    if kind == "adamw":
        return torch.optim.AdamW(parameters, learning_rate, betas, weight_decay=decay, fused=True)
    return torch.optim.Adam(parameters, learning_rate, betas, weight_decay=decay, fused=True)


def grouped(model: nn.Module, groups: tuple[Group, ...], rate: float, decay: float) -> list[dict[str, Any]]:
    """Return torch's parameter groups; a tensor belongs to the first Group whose pattern matches its name.

    `rate`: learning rate, multiplied by Group.rate. `decay`: weight decay, if Group.decays is true.
    """
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

    def __init__(self, params: Iterable[Any], lr: float, betas: tuple[float, float], decay: float = 0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": decay})

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
