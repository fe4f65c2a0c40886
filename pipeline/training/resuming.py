"""Where a run is: its history, and the file that it goes on from after a kill, written at each validation."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pipeline.outputs import replacing, telling


@dataclass
class History:
    """What a run has seen so far; rows are what the learning curves draw.

    Of several processes the first one keeps it; the others know their iteration.
    """

    iteration: int = 0  # iterations done
    losses: list[dict[str, float]] = field(default_factory=list)
    validation: list[dict[str, float]] = field(default_factory=list)
    best_iteration: int = 0
    best_score: float = -math.inf
    best: dict[str, Tensor] = field(default_factory=dict)  # the chosen weights


def save(state: Path, history: History, model: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    """Write all that a run goes on from. Raises InputError where it cannot be written."""
    record = {
        "history": vars(history),
        "model": model.state_dict(),
        "optimiser": optimiser.state_dict(),
    }
    with replacing(state) as beside, telling(beside) as file:
        torch.save(record, file)


def resume(state: Path, model: nn.Module, optimiser: torch.optim.Optimizer, device: torch.device) -> History:
    """Bring a run to where `save` left it; a new history where there is no such file."""
    if not state.exists():
        return History()
    record: dict[str, Any] = torch.load(state, map_location=device, weights_only=True)
    model.load_state_dict(record["model"])
    optimiser.load_state_dict(record["optimiser"])
    return History(**record["history"])
