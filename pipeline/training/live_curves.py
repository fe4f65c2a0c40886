"""Learning curves that grow while a training runs, by dvclive and, where that is asked, for TensorBoard.

They are written and never read here: no byte of a result depends on them. A run that goes on after a kill
writes its history again, so that no row is there twice; rates are those of the process that runs.

dvclive removes whatever has the names of its files. So the folder's record names each file before it is
written, and a folder with any other file is refused.
"""

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.config.params import Log
from pipeline.io.errors import InputError
from pipeline.io.folder_records import entries
from pipeline.io.inputs import read_json, read_text
from pipeline.io.outputs import Contents, remove
from pipeline.training.resuming import History

SUMMARY = "metrics.json"  # dvclive's file of the last values
EVENTS = "tensorboard"  # the folder of TensorBoard's files, among dvclive's
LOSS, VALIDATION, RATE = "loss", "validation", "rate"
PLACE = Path("results/live")  # where dvc.yaml has them
CURVE = re.compile(rf"plots/metrics/(?:{LOSS}|{VALIDATION}|{RATE})/([^/]+)\.tsv")
EVENT = re.compile(rf"{EVENTS}/events\.out\.tfevents\.[^/]+")


def _of_earlier_version(folder: Path) -> bool:
    """Whether a folder below results/live has curves only, as versions of before the records left them."""
    return PLACE.resolve() in folder.resolve().parents and all(
        _is_curve(folder / name, name) for name in entries(folder)
    )


def _is_curve(file: Path, name: str) -> bool:
    if file.is_symlink() or not file.is_file():
        return False
    try:
        if name == SUMMARY:
            found = read_json(file, "")
            return isinstance(found, dict) and found.keys() <= {LOSS, VALIDATION, RATE, "step"}
        if curve := CURVE.fullmatch(name):
            # a kill may leave a file without a line
            return read_text(file, "").partition("\n")[0] in ("", f"step\t{curve[1]}")
    except InputError:
        return False
    return EVENT.fullmatch(name) is not None


CONTENTS = Contents("live curves", _of_earlier_version)


class LiveCurves:
    """Curves in `folder`; nothing without one. `images`: of an iteration.

    Raises InputError where the folder holds a file that is no curve of an earlier run.
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

    def end(self) -> None:
        """Record the curves as they are: another run does not remove one that is changed by hand."""
        for writer in self.writers:
            writer.close()
        if self.folder is not None:
            CONTENTS.seal(self.folder)

    def _note(self, names: set[str]) -> None:
        if self.folder is not None and not names <= self.names:
            self.names |= names
            CONTENTS.note(self.folder, self.names)

    def _write(self, iteration: int, kind: str, row: Mapping[str, float]) -> None:
        # a name with `/` would be a folder: `true` and `true/change` are two curves
        found = {
            f"{kind}/{name.replace('/', '-')}": value for name, value in row.items() if name != "iteration"
        }
        self._note({f"plots/metrics/{name}.tsv" for name in found})
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

    def close(self) -> None:
        """Each row is in its file already."""


class _TensorBoard:
    """TensorBoard's own files."""

    def __init__(self, folder: Path):
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder))

    def write(self, iteration: int, row: Mapping[str, float]) -> None:
        for name, value in row.items():
            self.writer.add_scalar(name, value, iteration)
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()
