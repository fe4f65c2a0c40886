"""Learning curves that grow while a training runs, by dvclive and, where that is asked, for TensorBoard.

They are written and never read here: no byte of a result depends on them. A run that goes on after a kill
writes its history anew, so that no row stands there twice; rates are those of the process that runs.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.outputs import remove
from pipeline.params import Log
from pipeline.training.resuming import History

EVENTS = "tensorboard"  # the folder of TensorBoard's files, among dvclive's
LOSS, VALIDATION, RATE = "loss", "validation", "rate"


class LiveCurves:
    """Curves in `folder`; nothing without one. `images`: of an iteration."""

    def __init__(self, folder: Path | None, log: Log = "dvclive", images: int = 0):
        self.images, self.writers = images, list[Any]()
        self.last: tuple[int, float] | None = None
        if folder is not None and log != "none":
            self.writers.append(_Dvclive(folder))
            remove(folder / EVENTS)
            if log == "tensorboard":
                self.writers.append(_TensorBoard(folder / EVENTS))

    def begin(self, history: History) -> None:
        """Write what a run has seen before it goes on."""
        rows = [(row["iteration"], LOSS, row) for row in history.losses]
        rows += [(row["iteration"], VALIDATION, row) for row in history.validation]
        for iteration, kind, row in sorted(rows, key=lambda each: each[:2]):
            self._write(int(iteration), kind, row)
        self.last = (history.iteration, time.monotonic())

    def losses(self, row: Mapping[str, float]) -> None:
        """The mean losses of the last iterations, and how fast these were."""
        iteration = int(row["iteration"])
        self._write(iteration, LOSS, row)
        if self.last is not None and iteration > self.last[0]:
            speed = (iteration - self.last[0]) / max(time.monotonic() - self.last[1], 1e-9)
            self._write(
                iteration, RATE, {"iterations_per_second": speed, "images_per_second": speed * self.images}
            )
        self.last = (iteration, time.monotonic())

    def validation(self, row: Mapping[str, float]) -> None:
        """What a validation found; the time that it took counts for no rate."""
        self._write(int(row["iteration"]), VALIDATION, row)
        self.last = (int(row["iteration"]), time.monotonic())

    def _write(self, iteration: int, kind: str, row: Mapping[str, float]) -> None:
        # a name with `/` would be a folder: `true` and `true/change` are two curves
        found = {
            f"{kind}/{name.replace('/', '-')}": value for name, value in row.items() if name != "iteration"
        }
        for writer in self.writers:
            writer.write(iteration, found)


class _Dvclive:
    """A growing TSV file for each curve, below plots/metrics, and the last values of all in metrics.json."""

    def __init__(self, folder: Path):
        from dvclive.live import Live

        self.live = Live(str(folder), dvcyaml=False, save_dvc_exp=False)

    def write(self, iteration: int, row: Mapping[str, float]) -> None:
        self.live.step = iteration
        for name, value in row.items():
            self.live.log_metric(name, value)
        self.live.make_summary()


class _TensorBoard:
    """TensorBoard's own files."""

    def __init__(self, folder: Path):
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder))

    def write(self, iteration: int, row: Mapping[str, float]) -> None:
        for name, value in row.items():
            self.writer.add_scalar(name, value, iteration)
        self.writer.flush()
