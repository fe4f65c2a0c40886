"""Do one run of a study (dataset, model, seed and settings) as a job: `dvc repro` in the run's workspace."""

import json
import shlex
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from pathlib import Path

from pipeline.io.outputs import remove
from pipeline.study.jobs import Task
from pipeline.study.study_runs import Run
from pipeline.study.workspace import LOCK, SETTINGS, Base, workspaces

PRETRAIN = "pretrain"  # the stage of pre-training


@dataclass(frozen=True)
class RunTask:
    """A run of a study, as a task of the job queue.

    `on_finished` is called with the path of the run's workspace after the job has finished.
    """

    run: Run
    base: Base
    commits: bool  # True if weights, captions and scores go into DVC's cache
    on_finished: Callable[[Path], None]

    @property
    def name(self) -> str:
        return self.run.name

    @property
    def folder(self) -> Path:
        return workspaces([self.run], self.base.root)[0]

    def begin(self, running: Collection[Task]) -> str | None:
        """Return the run's command, or None if it must wait for another run's identical pre-training."""
        key = _pretraining_key(self.run)
        for task in running if key else ():
            if isinstance(task, RunTask) and _pretraining_key(task.run) == key and task.is_pretraining():
                return None
        self.base.workspace_of(self.run)
        return command(self.run, self.base.prepared, self.commits)

    def is_pretraining(self) -> bool:
        """Return True until the workspace's dvc.lock has the stage of the run's pre-training."""
        lock = self.folder / LOCK
        text = lock.read_text(encoding="utf-8") if lock.is_file() else ""
        return f"\n  {_stage_name(PRETRAIN, self.run)}:" not in text

    def finish(self) -> None:
        self.on_finished(self.folder)
        remove(self.folder)


def command(run: Run, prepared: Collection[str], commits: bool) -> str:
    """Return the shell command of a run, which first checks out what the stages `prepared` wrote.

    If `commits`, the run's outputs go into DVC's cache. The output of pre-training always does: runs share
    it.
    """
    pretraining = [PRETRAIN] * bool(run.recipe.pretraining)
    shared_stages = [SETTINGS, *(_stage_name(stage, run) for stage in ("recipe", *pretraining))]
    run_stages = [_stage_name(stage, run) for stage in ("train", "decode", "score")]
    repro = ["dvc", "repro", "--single-item"]
    command_lines = [
        ["dvc", "checkout", "--quiet", *prepared],
        [*repro, *shared_stages],
        [*repro, *([] if commits else ["--no-commit"]), *run_stages],
    ]
    # DVC's hashes of the data and its locks of files are in the workspace, so they are valid on each node
    setup = 'rm -rf .dvc/tmp/rwlock; export DVC_SITE_CACHE_DIR="$PWD/.dvc/site"'
    return " && ".join([setup, *(shlex.join(["python", "-m", *arguments]) for arguments in command_lines)])


def _stage_name(stage: str, run: Run) -> str:
    return f"{stage}@{run.dataset}-{run.model}-{run.seed}"


def _pretraining_key(run: Run) -> str | None:
    if run.recipe.pretraining is None:
        return None
    fields = [asdict(run.recipe.pretraining), run.seed, run.params.get("negatives")]
    return json.dumps(fields, sort_keys=True, default=str)
