"""One cell as a job: its folder, what it shares with others, and how what it made is taken.

A cell's folder is named by its key. It has links to the code and the prepared data of a workspace, a
params.yaml and recipes of its own, and what its stages made so far, with what they go on from after a kill.
"""

import json
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.io.outputs import remove, write_text, yaml_of
from pipeline.scoring.spice_files import DEFAULT, VARIABLE
from pipeline.study.cell_commands import live, negatives, recipes, steps
from pipeline.study.job import Job, Step
from pipeline.study.queue import Task
from pipeline.study.study_cells import Cell
from pipeline.study.workspace import DATA, LINKED, Workspace, link, link_starts, take

ENVIRONMENT = ("PATH", VARIABLE, "OMP_NUM_THREADS")  # of the front, which jobs have too
SUMMARY = "metrics.json"  # dvclive's, in the folder of the live curves


@dataclass(frozen=True)
class CellTask:
    """A cell to be run. `finished` takes its folder when it is."""

    cell: Cell
    workspace: Workspace
    commits: bool  # whether DVC's cache takes what it made
    finished: Callable[[Path], None]

    @property
    def name(self) -> str:
        return self.cell.name

    @property
    def folder(self) -> Path:
        return self.workspace.cells / self.cell.key

    def begin(self, others: Collection[Task]) -> Job | None:
        """The job; None where another cell's is at the phase before captioning that this one shares."""
        shared = self._shared(others)
        if shared is not None and not all((shared.folder / out).exists() for out in shared.first_outs()):
            return None
        with_steps = steps(self.workspace.folder, self.cell)
        self.workspace.prepare(self.cell)
        self._lay_out(with_steps)
        if shared is not None:
            for out in self.first_outs():
                if not (self.folder / out).exists():
                    take(shared.folder / out, self.folder / out)
        found = self.workspace.environment
        environment = {key: found[key] for key in ENVIRONMENT if key in found}
        return Job(str(self.folder), str(self.folder), tuple(with_steps), environment)

    def finish(self) -> None:
        """DVC first, the scores last: after a kill in between it is done once more."""
        if self.commits:
            self.workspace.commit(self.cell, self.folder)
        self.finished(self.folder)
        remove(self.folder)

    def reached(self) -> str:
        """The stages that are over, and the iteration that training can go on from."""
        over = [step.name for step in steps(self.workspace.folder, self.cell) if _there(self.folder, step)]
        states = sorted(self.folder.glob("data/**/.*.scratch/state.pt.sha256"))
        return f"{over} {[state.read_text(encoding='ascii', errors='replace') for state in states]}"

    def shown(self) -> tuple[str, str, str]:
        """The iteration of all, the validation's scores, and the time that is left of training."""
        if not (curves := self.curves()):
            return "", "", ""
        done, all_of_it = curves.get("step", 0), self.cell.recipe.train["iterations"]
        scores = [f"{name} {float(value):.3f}" for name, value in curves.get("validation", {}).items()]
        rate = curves.get("rate", {}).get("iterations_per_second")
        left = f"{(all_of_it - done) / rate:.0f} s" if rate else ""
        return f"{done}/{all_of_it}", ", ".join(scores), left

    def curves(self) -> dict[str, Any]:
        """The last values of its live curves; empty before there are any."""
        path = self.folder / live(self.cell) / SUMMARY
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):  # it may be half written
            return {}
        return found

    def first_outs(self) -> tuple[str, ...]:
        """What the phase before captioning leaves."""
        own = steps(self.workspace.folder, self.cell)
        return next((step.outs for step in own if step.name == "first"), ())

    def _shared(self, others: Collection[Task]) -> "CellTask | None":
        """The first of the others with the same phase before captioning."""
        if not self.cell.recipe.adapt:
            return None
        same = _first_key(self.cell)
        return next(
            (other for other in others if isinstance(other, CellTask) and _first_key(other.cell) == same),
            None,
        )

    def _lay_out(self, with_steps: list[Step]) -> None:
        """Links to the workspace, the cell's own settings, and what the run cache had of it."""
        folder, there = self.folder, self.workspace.folder
        for name in (*LINKED, *(f"data/{part}" for part in DATA if (there / "data" / part).exists())):
            link(there / name, folder / name)
        # by no variable: metrics.json names the place, and shall be the one of `dvc repro`
        link(self.workspace.root.resolve() / DEFAULT, folder / DEFAULT)
        write_text(folder / "params.yaml", yaml_of(self.cell.params))
        for path in (*recipes(self.cell), *negatives(self.cell)):
            take(there / path, folder / path)
        link_starts(self.workspace.root, folder, self.cell.params, self.cell.dataset)
        for step in with_steps:
            for out in step.outs:
                if not _there(folder, step) and (there / out).exists():
                    take(there / out, folder / out)


def _there(folder: Path, step: Step) -> bool:
    return all((folder / out).exists() for out in step.outs)


def _first_key(cell: Cell) -> str:
    """What decides the phase before captioning, of cells of one study."""
    shown = asdict(cell.recipe.first_phase()) if cell.recipe.adapt else cell.key
    return json.dumps([shown, cell.seed, cell.params.get("negatives")], sort_keys=True, default=str)
