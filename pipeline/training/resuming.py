"""Save the state of a run at each validation, and resume the run from it after a kill."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor, nn

from pipeline.io.errors import InputError, writing
from pipeline.io.outputs import replacing
from pipeline.io.scratch_folders import begin


@dataclass
class History:
    """History of a run so far. If several processes train, only the first keeps scores and best weights."""

    iteration: int = 0  # number of finished iterations
    losses: list[dict[str, float]] = field(default_factory=list)
    validation: list[dict[str, float]] = field(default_factory=list)
    best_iteration: int = 0
    best_score: float = -math.inf
    best: dict[str, Tensor] = field(default_factory=dict)  # the weights of the best iteration


def save(state: Path, history: History, model: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    """Write a training state, the old or the new one completely even if the process is killed."""
    record = {
        "history": vars(history),
        "model": model.state_dict(),
        "optimiser": optimiser.state_dict(),
    }
    with writing(state):
        begin(state.parent)
    with replacing(state) as partial, partial.open("wb") as file:
        torch.save(record, file)  # given a path, torch.save would hide why a write failed


def resume(state: Path, model: nn.Module, optimiser: torch.optim.Optimizer, device: torch.device) -> History:
    """Restore model and optimiser, in place, from the state file if it exists; return the run's history."""
    if not state.exists():
        return History()
    try:
        record: dict[str, Any] = torch.load(state, map_location=device, weights_only=True)
    except (RuntimeError, EOFError, UnpicklingError):
        raise InputError(f"{state} is damaged; remove it to train from the beginning") from None
    model.load_state_dict(record["model"])
    optimiser.load_state_dict(record["optimiser"])
    return History(**record["history"])
