"""Where a run is: its history, and the file that it goes on from after a kill, written at each validation.

The file before is kept beside it, and both files' SHA-256 in a third: a file that is damaged is not taken up.
"""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pipeline.io.content_hashes import sha256
from pipeline.io.errors import writing
from pipeline.io.outputs import replacing, telling, write_text
from pipeline.io.scratch_folders import begin


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
    """Write all that a run goes on from. Raises InputError where it cannot be written.

    The sums are written first, of what was there too: a kill at any moment leaves a file that they know.
    """
    record = {
        "history": vars(history),
        "model": model.state_dict(),
        "optimiser": optimiser.state_dict(),
    }
    with writing(state):
        begin(state.parent)
    with replacing(state) as beside:
        with telling(beside) as file:
            torch.save(record, file)
        write_text(_sums(state), "\n".join([sha256(beside), *_known(state)[:2]]) + "\n")
        if state.exists():
            state.replace(_before(state))


def resume(
    state: Path, model: nn.Module, optimiser: torch.optim.Optimizer, device: torch.device
) -> tuple[History, str]:
    """Bring a run to where `save` left it; a new history where there is no such file.

    Beside it a line, empty but where a file is damaged: the file before that is taken up, or none.
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
        return history, _said(damaged, f"goes on from iteration {history.iteration}")
    return History(), _said(damaged, "begins anew")


def _said(damaged: list[Path], how: str) -> str:
    names = " and ".join(map(str, damaged))
    return f"{names} {'are' if len(damaged) > 1 else 'is'} damaged; training {how}" if damaged else ""


def _before(state: Path) -> Path:
    return state.with_name(f"before.{state.name}")


def _sums(state: Path) -> Path:
    return state.with_name(f"{state.name}.sha256")


def _known(state: Path) -> list[str]:
    """The sums of the last files, the newest first."""
    path = _sums(state)
    return path.read_bytes().decode("ascii", "replace").split() if path.exists() else []
