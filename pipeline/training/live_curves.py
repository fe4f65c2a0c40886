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
    """Writer of a run's learning curves into `folder`, for DVCLive and, if `log` asks for it, TensorBoard.

    If the folder is None or `log` is "none", nothing is written. `images` is the number of images per
    iteration, for the training speed. Raises InputError if the folder contains a file that is not a
    curve of an earlier run.
    """

    def __init__(self, folder: Path | None, log: Log = "dvclive", images: int = 0):
        self.folder, self.images = None if log == "none" else folder, images
        self.live: Any = None  # dvclive's writer: a TSV file for each curve, and SUMMARY
        self.board: Any = None  # TensorBoard's writer
        self.last_iteration, self.last_time = 0, 0.0  # of the previous call; the time in seconds
        self.files: set[str] = set()  # names of the files in the folder's record
        if self.folder is None:
            return
        from dvclive.live import Live

        CONTENTS.check(self.folder)
        remove(self.folder)
        self._record({SUMMARY})
        self.live = Live(str(self.folder), dvcyaml=False, save_dvc_exp=False)
        if log == "tensorboard":
            from torch.utils.tensorboard import SummaryWriter

            events = self.folder / EVENTS
            self.board = SummaryWriter(str(events))
            self._record({f"{EVENTS}/{path.name}" for path in events.iterdir()})

    def begin(self, history: History) -> None:
        """Write the losses and scores that `history` contains; called before a resumed run continues."""
        for kind, rows in ((LOSS, history.losses), (VALIDATION, history.validation)):
            for row in rows:
                self._write(kind, row)
        self.last_iteration, self.last_time = history.iteration, time.monotonic()

    def losses(self, row: Mapping[str, float]) -> None:
        """Write the mean losses in `row`, and the training speed since `begin`, `losses` or `validation`."""
        self._write(LOSS, row)
        seconds = max(time.monotonic() - self.last_time, 1e-9)
        speed = (row["iteration"] - self.last_iteration) / seconds
        rates = {"iterations_per_second": speed, "images_per_second": speed * self.images}
        self._write(RATE, {"iteration": row["iteration"]} | rates)
        self.last_iteration, self.last_time = int(row["iteration"]), time.monotonic()

    def validation(self, row: Mapping[str, float]) -> None:
        """Write the scores in `row`; the time of the validation does not lower the training speed."""
        self._write(VALIDATION, row)
        self.last_iteration, self.last_time = int(row["iteration"]), time.monotonic()

    def end(self) -> None:
        """Close the files, and list all files of the folder in the folder's record."""
        if self.board is not None:
            self.board.close()
        if self.folder is not None:
            CONTENTS.seal(self.folder)

    def _record(self, names: set[str]) -> None:
        """Add file names to the folder's record (.made.json). This is done before the files are written."""
        if self.folder is not None and not names <= self.files:
            self.files |= names
            CONTENTS.note(self.folder, self.files)

    def _write(self, kind: str, row: Mapping[str, float]) -> None:
        """Append each value of `row` to its curve `kind`/`name`; kind: LOSS, VALIDATION or RATE."""
        if self.live is None:
            return
        # `/` is replaced, because dvclive would make a folder `true` for the curve `true/changed`
        values = {
            f"{kind}/{name.replace('/', '-')}": value for name, value in row.items() if name != "iteration"
        }
        self._record({f"plots/metrics/{name}.tsv" for name in values})
        self.live.step = int(row["iteration"])
        for name, value in values.items():
            self.live.log_metric(name, value)
            if self.board is not None:
                self.board.add_scalar(name, value, self.live.step)
        self.live.make_summary()
        if self.board is not None:
            self.board.flush()
