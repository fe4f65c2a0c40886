"""Write learning curves during training, with dvclive and optionally also for TensorBoard.

The curves are only for viewing: no stage or command uses them, so no result depends on them. When a run
resumes after a kill, its whole history is written again, so that no row appears twice. The speed of training
is measured only in the current process.

dvclive deletes any file that has the name of one of its own files. To protect other files, each file is
listed in the folder's record (folder_records.py) before it is written. A folder with any other file is
refused.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.config.params import Log
from pipeline.io.outputs import Contents, remove
from pipeline.training.resuming import History

SUMMARY = "metrics.json"  # dvclive's file of the latest values
EVENTS = "tensorboard"  # sub-folder for TensorBoard's files
LOSS, VALIDATION, RATE = "loss", "validation", "rate"


CONTENTS = Contents("live curves")


class LiveCurves:
    """Writer of a run's learning curves into `folder`. If the folder is None, nothing is written.

    `images` is the number of images per iteration. Raises InputError if the folder contains a file that is
    not a curve of an earlier run.
    """

    def __init__(self, folder: Path | None, log: Log = "dvclive", images: int = 0):
        self.images, self.writers = images, list[Any]()
        self.last: tuple[int, float] | None = None
        self.folder = None if log == "none" else folder
        self.names: set[str] = set()
        if self.folder is not None:
            CONTENTS.check(self.folder)
            remove(self.folder)
            self._note({SUMMARY})
            self.writers.append(_Dvclive(self.folder))
            if log == "tensorboard":
                self.writers.append(_TensorBoard(self.folder / EVENTS))
                self._note({f"{EVENTS}/{path.name}" for path in (self.folder / EVENTS).iterdir()})

    def begin(self, history: History) -> None:
        """Write the rows of a resumed run's history, before training continues."""
        rows = [(row["iteration"], LOSS, row) for row in history.losses]
        rows += [(row["iteration"], VALIDATION, row) for row in history.validation]
        for iteration, kind, row in sorted(rows, key=lambda each: each[:2]):
            self._write(int(iteration), kind, row)
        self.last = (history.iteration, time.monotonic())

    def losses(self, row: Mapping[str, float]) -> None:
        """Write a row of mean losses, and the speed of training since the last row."""
        iteration = int(row["iteration"])
        self._write(iteration, LOSS, row)
        if self.last is not None and iteration > self.last[0]:
            speed = (iteration - self.last[0]) / max(time.monotonic() - self.last[1], 1e-9)
            self._write(
                iteration, RATE, {"iterations_per_second": speed, "images_per_second": speed * self.images}
            )
        self.last = (iteration, time.monotonic())

    def validation(self, row: Mapping[str, float]) -> None:
        """Write the scores of a validation. The speed of training does not include the validation's time."""
        self._write(int(row["iteration"]), VALIDATION, row)
        self.last = (int(row["iteration"]), time.monotonic())

    def end(self) -> None:
        """Close the files, and record their contents.

        So a later run detects a file that was edited by hand, and does not delete it.
        """
        for writer in self.writers:
            writer.close()
        if self.folder is not None:
            CONTENTS.seal(self.folder)

    def _note(self, names: set[str]) -> None:
        if self.folder is not None and not names <= self.names:
            self.names |= names
            CONTENTS.note(self.folder, self.names)

    def _write(self, iteration: int, kind: str, row: Mapping[str, float]) -> None:
        # `/` is replaced, because dvclive would make a folder `true` for the curve `true/change`
        found = {
            f"{kind}/{name.replace('/', '-')}": value for name, value in row.items() if name != "iteration"
        }
        self._note({f"plots/metrics/{name}.tsv" for name in found})
        for writer in self.writers:
            writer.write(iteration, found)


class _Dvclive:
    """Writer of dvclive's files: a TSV file for each curve, and the latest values in metrics.json."""

    def __init__(self, folder: Path):
        from dvclive.live import Live

        self.live = Live(str(folder), dvcyaml=False, save_dvc_exp=False)

    def write(self, iteration: int, row: Mapping[str, float]) -> None:
        self.live.step = iteration
        for name, value in row.items():
            self.live.log_metric(name, value)
        self.live.make_summary()

    def close(self) -> None:
        """Do nothing, because each row has already been written."""


class _TensorBoard:
    """Writer of TensorBoard's event files."""

    def __init__(self, folder: Path):
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder))

    def write(self, iteration: int, row: Mapping[str, float]) -> None:
        for name, value in row.items():
            self.writer.add_scalar(name, value, iteration)
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()
