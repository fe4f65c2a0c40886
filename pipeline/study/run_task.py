"""Do one run of a study (dataset, model, seed and settings) as a job: `dvc repro` in the run's workspace."""

import json
import shlex
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.io.dvc_lock import NAME as LOCK
from pipeline.io.outputs import remove
from pipeline.io.provenance import sha256
from pipeline.study.job import Job
from pipeline.study.queue import Task
from pipeline.study.study_cells import Cell
from pipeline.study.workspace import SETTINGS, Base, workspaces

LIVE = "results/live/{dataset}/{model}/{seed}/metrics.json"  # dvclive's summary of the training's curves
PHASE = "pretrain"  # the stage of pre-training


@dataclass(frozen=True)
class RunTask:
    """A run of a study, as a task of the job queue.

    At the end, `finished` is called with the run's workspace.
    """

    cell: Cell
    base: Base
    commits: bool  # True if weights, captions and scores go into DVC's cache
    finished: Callable[[Path], None]

    @property
    def name(self) -> str:
        return self.cell.name

    @property
    def folder(self) -> Path:
        return workspaces([self.cell], self.base.root)[0]

    def begin(self, others: Collection[Task]) -> Job | None:
        """Return the job, or None while another run does the same pre-training.

        After the wait, this run takes the other run's pre-training from DVC's run cache.
        """
        same = _phase_key(self.cell)
        sharing = [other for other in others if isinstance(other, RunTask) and _phase_key(other.cell) == same]
        if same and any(other.at_phase() for other in sharing):
            return None
        folder = str(self.base.made(self.cell))
        return Job(folder, folder, command(self.cell, self.base.prepared, self.commits))

    def at_phase(self) -> bool:
        """Return True if the run's pre-training is not finished."""
        return f"\n  {_of(PHASE, self.cell)}:" not in _text(self.folder / LOCK)

    def finish(self) -> None:
        self.finished(self.folder)
        remove(self.folder)

    def reached(self) -> str:
        """Return a hash of the finished stages and of the saved training states."""
        states = sorted(self.folder.glob("data/**/.*.scratch/state.pt"))
        return sha256(_text(self.folder / LOCK), *(str(state.stat().st_mtime_ns) for state in states))

    def shown(self) -> tuple[str, str, str]:
        """Return three texts: the training's iteration, validation scores, and remaining time."""
        if not (curves := self._curves()):
            return "", "", ""
        done, all_of_it = curves.get("step", 0), self.cell.recipe.train["iterations"]
        scores = [f"{name} {float(value):.3f}" for name, value in curves.get("validation", {}).items()]
        rate = curves.get("rate", {}).get("iterations_per_second")
        left = f"{(all_of_it - done) / rate:.0f} s" if rate else ""
        return f"{done}/{all_of_it}", ", ".join(scores), left

    def _curves(self) -> dict[str, Any]:
        """Return the last values of the live curves; empty if there are none yet."""
        name = LIVE.format(dataset=self.cell.dataset, model=self.cell.model, seed=self.cell.seed)
        try:
            found: dict[str, Any] = json.loads(_text(self.folder / name))
        except ValueError:  # the file may be half written
            return {}
        return found


def command(cell: Cell, prepared: Collection[str], commits: bool) -> str:
    """Return the shell command of a run.

    Pre-training is always stored in DVC's cache, because runs share it.
    """
    phase = [PHASE] * bool(cell.recipe.adapt)
    before = [SETTINGS, *(_of(stage, cell) for stage in ("recipe", *phase))]
    own = ("train", "decode", "score")
    repro = ["dvc", "repro", "--single-item"]
    lines = [
        ["commands.check_lock"],
        ["dvc", "checkout", "--quiet", *prepared],
        [*repro, *before],
        [*repro, *([] if commits else ["--no-commit"]), *(_of(stage, cell) for stage in own)],
    ]
    # DVC's hashes of the data and its locks of files are in the workspace, so they are valid on each node
    cache = 'rm -rf .dvc/tmp/rwlock; export DVC_SITE_CACHE_DIR="$PWD/.dvc/site"'
    return " && ".join([cache, *(shlex.join(["python", "-m", *line]) for line in lines)])


def _of(stage: str, cell: Cell) -> str:
    return f"{stage}@{cell.dataset}-{cell.model}-{cell.seed}"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _phase_key(cell: Cell) -> str | None:
    """Return the settings that determine a run's pre-training, as text; None without pre-training."""
    if not cell.recipe.adapt:
        return None
    shown = [asdict(cell.recipe.first_phase()), cell.seed, cell.params.get("negatives")]
    return json.dumps(shown, sort_keys=True, default=str)
