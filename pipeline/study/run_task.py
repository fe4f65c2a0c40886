"""Do one run of a study (dataset, model, seed and settings) as a job: `dvc repro` in the run's workspace."""

import json
import shlex
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from pathlib import Path

from pipeline.io.dvc_lock import NAME as LOCK
from pipeline.io.outputs import remove
from pipeline.study.jobs import Task
from pipeline.study.study_runs import Run
from pipeline.study.workspace import SETTINGS, Base, workspaces

PHASE = "pretrain"  # the stage of pre-training


@dataclass(frozen=True)
class RunTask:
    """A run of a study, as a task of the job queue. `finished` is called with the run's workspace."""

    run: Run
    base: Base
    commits: bool  # True if weights, captions and scores go into DVC's cache
    finished: Callable[[Path], None]

    @property
    def name(self) -> str:
        return self.run.name

    @property
    def folder(self) -> Path:
        return workspaces([self.run], self.base.root)[0]

    def begin(self, running: Collection[Task]) -> str | None:
        """Return the command, or None while another run does the same pre-training."""
        same = _phase_key(self.run)
        for other in running if same else ():
            if isinstance(other, RunTask) and _phase_key(other.run) == same and other.at_phase():
                return None
        self.base.made(self.run)
        return command(self.run, self.base.prepared, self.commits)

    def at_phase(self) -> bool:
        """Return True if the run's pre-training is not finished."""
        lock = self.folder / LOCK
        return not lock.is_file() or f"\n  {_of(PHASE, self.run)}:" not in lock.read_text(encoding="utf-8")

    def finish(self) -> None:
        self.finished(self.folder)
        remove(self.folder)


def command(run: Run, prepared: Collection[str], commits: bool) -> str:
    """Return the shell command of a run. Pre-training always goes into DVC's cache, because runs share it."""
    phase = [PHASE] * bool(run.recipe.adapt)
    before = [SETTINGS, *(_of(stage, run) for stage in ("recipe", *phase))]
    own = [_of(stage, run) for stage in ("train", "decode", "score")]
    repro = ["dvc", "repro", "--single-item"]
    lines = [
        ["commands.check_lock"],
        ["dvc", "checkout", "--quiet", *prepared],
        [*repro, *before],
        [*repro, *([] if commits else ["--no-commit"]), *own],
    ]
    # DVC's hashes of the data and its locks of files are in the workspace, so they are valid on each node
    cache = 'rm -rf .dvc/tmp/rwlock; export DVC_SITE_CACHE_DIR="$PWD/.dvc/site"'
    return " && ".join([cache, *(shlex.join(["python", "-m", *line]) for line in lines)])


def _of(stage: str, run: Run) -> str:
    return f"{stage}@{run.dataset}-{run.model}-{run.seed}"


def _phase_key(run: Run) -> str | None:
    if not run.recipe.adapt:
        return None
    shown = [asdict(run.recipe.first_phase()), run.seed, run.params.get("negatives")]
    return json.dumps(shown, sort_keys=True, default=str)
