"""Where cells run: a copy of the code with a params.yaml of its own, which shares the repository's DVC cache.

The working tree is not touched, and what either has trained the other one finds in DVC's run cache: a stage
has the same command, inputs and outputs in both. The copy is made when a study starts, so that code which
is edited while it runs does not come between its cells. A stage that was killed goes on from its own scratch
folder in the workspace.

DVC's own queue (`dvc exp run --queue`) makes a new folder for every run, where no scratch folder is; tried, a
run whose DVC was killed counts as failed and begins anew. It also needs git, and rewrites the working tree.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from configparser import ConfigParser
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pipeline.errors import InputError, writing
from pipeline.inputs import read_yaml
from pipeline.outputs import remove, replacing, write_text, yaml_of
from pipeline.params import read_tree
from pipeline.scoring.spice_files import DEFAULT, VARIABLE
from pipeline.studying.study_cells import Cell, prepared, prepared_beside, to_prepare

FOLDER = Path(".scratch/study")
DVC = (sys.executable, "-m", "dvc")
CODE = ("models", "pipeline", "stages", "datasets.yaml", "dvc.yaml", "dvc.lock", ".dvcignore")
KEPT = ("data/negatives/README.md", "data/pretraining/records/README.md")  # folders that DVC looks for
CODE_STAGE = "code"
OWN = "plan"


@dataclass(frozen=True)
class Workspace:
    """A folder where `dvc repro` makes cells of one dataset."""

    folder: Path
    lock: IO[str]  # held as long as a process of the study runs
    environment: dict[str, str]

    def run(self, cell: Cell) -> None:
        """Train, decode and score a cell; what is in the run cache is taken from it.

        Raises InputError where a stage fails, which has then said why.
        """
        write_text(self.folder / "params.yaml", yaml_of(cell.params))
        base = f"{cell.dataset}-{cell.model}"
        own = [f"{OWN}@{cell.dataset}", f"recipe@{base}"]
        own += [f"negatives@{cell.dataset}"] * cell.recipe.asks_negatives
        before = ["first"] * bool(cell.recipe.adapt) + ["retrieve"] * cell.recipe.entry.retrieves
        targets = [f"{stage}@{base}-{cell.seed}" for stage in ("start", *before, "train", "decode", "score")]
        # the data were checked out: what is upstream of them is not looked at for every cell
        if code := self.dvc("repro", "--single-item", *own, *targets):
            raise InputError(
                f"the cell {cell.name} failed (`dvc repro` left with {code}; what it said stands above); "
                "mend it and start the study again: it goes on where it was"
            )

    def dvc(self, *arguments: str) -> int:
        """The exit code of a DVC command; it and all that it started are ended where we are."""
        process = subprocess.Popen(
            [*DVC, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            pass_fds=(self.lock.fileno(),),
            process_group=0,
        )
        try:
            return process.wait()
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
            raise


@contextmanager
def opened(root: Path, dataset: str, inputs: Sequence[str]) -> Iterator[Workspace]:
    """The workspace of the repository at `root`, with its code, and the prepared data of a dataset.

    `inputs`: what its cells read. Raises InputError where another study is at work, and where the data are
    not those that the code and params.yaml would make.
    """
    folder = root.resolve() / FOLDER
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        held = (folder.parent / "study.lock").open("w")
    with held as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                "another study runs in this repository, or a stage of one that was killed; wait for its end"
            ) from None
        workspace = Workspace(folder, lock, _environment(root))
        with writing(folder):
            _fill(root, folder, dataset)
        if workspace.dvc("repro", "--quiet", "--single-item", CODE_STAGE):  # every stage depends on it
            raise InputError("the stage code failed (what it said stands above); mend it")
        _check_out(workspace, dataset, inputs)
        yield workspace


def _environment(root: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {VARIABLE: str(root.resolve() / DEFAULT)} | os.environ | {"PATH": path}


def _fill(root: Path, folder: Path, dataset: str) -> None:
    """Put the code as it is now into the workspace; stages' scratch folders there stay."""
    for name in CODE:
        remove(folder / name)
        if (root / name).is_dir():
            shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(root / name, folder / name)
    remove(folder / "data/pretraining")  # what params.yaml names of it is checked out
    for name in KEPT:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, folder / name)
    tree = read_tree(root / "params.yaml") | {"datasets": [dataset]}
    write_text(folder / "params.yaml", yaml_of(tree))
    (folder / "data/cards").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(root / f"data/cards/{dataset}.yaml", folder / f"data/cards/{dataset}.yaml")
    for own in tree["dataset"][dataset].get("own", {}).values():
        _link(root, folder, own.get("start"))
    _write_config(root.resolve(), folder / ".dvc/config")


def _link(root: Path, folder: Path, start: str | None) -> None:
    """Weights that cells start from, and that no stage makes; where they lack, the stage start says so.

    Raises InputError where the name leads out of the repository, and so out of the workspace.
    """
    if start is not None and not Path(start).is_absolute():
        if not Path(os.path.normpath(folder / start)).is_relative_to(folder):
            raise InputError(f"start: {start} leads out of the repository; name it from / on")
        remove(folder / start)
        (folder / start).parent.mkdir(parents=True, exist_ok=True)
        (folder / start).symlink_to(root.resolve() / start)


def _write_config(root: Path, path: Path) -> None:
    """The repository's own settings of DVC, without git and with the repository's cache."""
    found = subprocess.run([*DVC, "cache", "dir"], cwd=root, capture_output=True, text=True, check=False)
    if found.returncode:
        raise InputError(f"`dvc cache dir` failed ({found.stderr.strip()}); run it to see what is wrong")
    config = ConfigParser(interpolation=None)
    config.read([root / ".dvc/config", root / ".dvc/config.local"], encoding="utf-8")
    config.read_dict({"core": {"no_scm": "true"}, "cache": {"dir": str(root / found.stdout.strip())}})
    path.parent.mkdir(exist_ok=True)
    with replacing(path) as beside, beside.open("w", encoding="utf-8") as file:
        config.write(file)


def _check_out(workspace: Workspace, dataset: str, inputs: Sequence[str]) -> None:
    """Link the prepared data from the cache; they must be what the code would make."""
    beside = (
        read_yaml(workspace.folder / "params.yaml", "start again").get("pretraining", {}).get("datasets", [])
    )
    stages = [*prepared(dataset, inputs), *prepared_beside(beside)]
    # a cell has settings of its own, which its run resolves; those of the data stand in `extract` and `vocab`
    same = [stage for stage in stages if not stage.startswith(f"{OWN}@")]
    for arguments in (("checkout", "--quiet", *stages), ("status", "--quiet", *same)):
        if workspace.dvc(*arguments):
            raise InputError(
                f"the prepared data of {dataset} are not up to date or not in DVC's cache; "
                + to_prepare(dataset, inputs, beside)
            )
