"""Save the state of a run at each validation, and resume the run from it after a kill.

The previous state file is kept next to the current file. A third file contains the SHA-256 of both. A damaged
state file is not used.
"""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pipeline.io.content_hashes import sha256
from pipeline.io.errors import writing
from pipeline.io.outputs import replacing, write_text
from pipeline.io.scratch_folders import begin


@dataclass
class History:
    """History of a run so far: losses, validation scores and best weights.

    A row of losses or scores is a point of the learning curves. If several processes train, the first process
    keeps all fields; the other processes keep only the losses and the iteration.
    """

    iteration: int = 0  # number of finished iterations
    losses: list[dict[str, float]] = field(default_factory=list)
    validation: list[dict[str, float]] = field(default_factory=list)
    best_iteration: int = 0
    best_score: float = -math.inf
    best: dict[str, Tensor] = field(default_factory=dict)  # the weights of the best iteration


def save(state: Path, history: History, model: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    """Write the state from which a run resumes. Raises InputError if it cannot be written.

    The checksums of the new state file and of earlier state files are written before the state file. So after
    a kill at any moment, there is a state file with a recorded checksum.
    """
    record = {
        "history": vars(history),
        "model": model.state_dict(),
        "optimiser": optimiser.state_dict(),
    }
    with writing(state):
        begin(state.parent)
    with replacing(state) as beside:
        with beside.open("wb") as file:  # given a path, torch.save would hide why a write failed
            torch.save(record, file)
        write_text(_sums(state), "\n".join([sha256(beside), *_known(state)[:2]]) + "\n")
        if state.exists():
            state.replace(_before(state))


def resume(
    state: Path, model: nn.Module, optimiser: torch.optim.Optimizer, device: torch.device
) -> tuple[History, str]:
    """Restore a run from the newest state file that is not damaged; return its history and a message.

    The model and the optimiser are restored in place. If there is no such file, model and optimiser are
    unchanged, and the history is empty. The message is empty unless a file is damaged.
    """
    known, damaged = _known(state), []
    for path in filter(Path.exists, (state, _before(state))):
        if sha256(path) not in known:
            damaged.append(path)
            continue
        record: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
        model.load_state_dict(record["model"])
        optimiser.load_state_dict(record["optimiser"])
        history = History(**record["history"])
        return history, _damage_message(damaged, f"continues from iteration {history.iteration}")
    return History(), _damage_message(damaged, "starts from the beginning")


def _damage_message(damaged: list[Path], how: str) -> str:
    names = " and ".join(map(str, damaged))
    return f"{names} {'are' if len(damaged) > 1 else 'is'} damaged; training {how}" if damaged else ""


def _before(state: Path) -> Path:
    return state.with_name(f"before.{state.name}")


def _sums(state: Path) -> Path:
    return state.with_name(f"{state.name}.sha256")


def _known(state: Path) -> list[str]:
    """Return the recorded checksums of the last state files, the newest first."""
    path = _sums(state)
    return path.read_bytes().decode("ascii", "replace").split() if path.exists() else []
