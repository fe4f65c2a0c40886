"""Write learning curves during training, with dvclive and optionally also for TensorBoard.

The curves are only for viewing: no result depends on them. A run that resumes writes its whole history again.

dvclive deletes any file that has the name of one of its own files. So a folder with files of the user is
refused, and each file is listed in the folder's record (folder_records.py) before it is written.
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
        self.folder, self.images = None if log == "none" else folder, images
        self.live: Any = None  # dvclive's writer: a TSV file for each curve, and SUMMARY
        self.board: Any = None  # TensorBoard's writer
        self.last: tuple[int, float] | None = None
        self.names: set[str] = set()
        if self.folder is not None:
            CONTENTS.check(self.folder)
            remove(self.folder)
            self._open(self.folder, board=log == "tensorboard")

    def _open(self, folder: Path, board: bool) -> None:
        from dvclive.live import Live

        self._note({SUMMARY})
        self.live = Live(str(folder), dvcyaml=False, save_dvc_exp=False)
        if board:
            from torch.utils.tensorboard import SummaryWriter

            self.board = SummaryWriter(str(folder / EVENTS))
            self._note({f"{EVENTS}/{path.name}" for path in (folder / EVENTS).iterdir()})

    def begin(self, history: History) -> None:
        """Write the losses and scores that `history` contains; called before a resumed run continues."""
        rows = [(row["iteration"], LOSS, row) for row in history.losses]
        rows += [(row["iteration"], VALIDATION, row) for row in history.validation]
        for iteration, kind, row in sorted(rows, key=lambda each: each[:2]):
            self._write(int(iteration), kind, row)
        self.last = (history.iteration, time.monotonic())

    def losses(self, row: Mapping[str, float]) -> None:
        """Write the mean losses that `row` contains, and the training speed since the previous call.

        The previous call is the last call of `begin`, `losses` or `validation`.
        """
        iteration = int(row["iteration"])
        self._write(iteration, LOSS, row)
        if self.last is not None and iteration > self.last[0]:
            speed = (iteration - self.last[0]) / max(time.monotonic() - self.last[1], 1e-9)
            rates = {"iterations_per_second": speed, "images_per_second": speed * self.images}
            self._write(iteration, RATE, rates)
        self.last = (iteration, time.monotonic())

    def validation(self, row: Mapping[str, float]) -> None:
        """Write the validation scores that `row` contains.

        The time of the validation does not count for the training speed.
        """
        self._write(int(row["iteration"]), VALIDATION, row)
        self.last = (int(row["iteration"]), time.monotonic())

    def end(self) -> None:
        """Close the files, and list all files of the folder in the folder's record."""
        if self.board is not None:
            self.board.close()
        if self.folder is not None:
            CONTENTS.seal(self.folder)

    def _note(self, names: set[str]) -> None:
        if self.folder is not None and not names <= self.names:
            self.names |= names
            CONTENTS.note(self.folder, self.names)

    def _write(self, iteration: int, kind: str, row: Mapping[str, float]) -> None:
        if self.live is None:
            return
        # `/` is replaced, because dvclive would make a folder `true` for the curve `true/change`
        found = {
            f"{kind}/{name.replace('/', '-')}": value for name, value in row.items() if name != "iteration"
        }
        self._note({f"plots/metrics/{name}.tsv" for name in found})
        self.live.step = iteration
        for name, value in found.items():
            self.live.log_metric(name, value)
            if self.board is not None:
                self.board.add_scalar(name, value, iteration)
        self.live.make_summary()
        if self.board is not None:
            self.board.flush()
