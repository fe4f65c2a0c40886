"""What the cells of a study stand on: a copy of the code, the prepared data, and the repository's DVC cache.

The working tree is not touched, and what either has trained the other one finds in DVC's run cache: a stage
has the same command, inputs and outputs in both. DVC is asked here alone, by the one front of a study: for
what the run cache has of a cell before its job starts, and to take what the job made.

A copy is of one state of code and data, and is not changed while jobs run on it; an edit makes another. A
cell's own folder (cell_task.py) outlives both, for its key says which code and data it needs: so a killed
training goes on where it was after an edit of what it does not run.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from configparser import ConfigParser
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pipeline.config.params import read_tree
from pipeline.io import dvc_lock, named_files
from pipeline.io.errors import InputError, writing
from pipeline.io.inputs import read_yaml
from pipeline.io.outputs import remove, replacing, write_text, yaml_of
from pipeline.io.provenance import sha256
from pipeline.study import cell_commands
from pipeline.study.study_cells import Cell, prepared, prepared_beside, to_prepare

FOLDER = Path(".scratch/study")
COPIES, CELLS = "copies", "cells"
DVC = (sys.executable, "-m", "dvc")
CACHED = (sys.executable, "-m", "commands.cached")
CODE = ("models", "pipeline", "stages", "commands", "datasets.yaml", "dvc.yaml", "dvc.lock", ".dvcignore")
LINKED = ("models", "pipeline", "stages", "commands", "datasets.yaml")  # what a job needs of it
DATA = ("pairs", "images", "vocab", "features", "pretraining")  # and of the data
KEPT = (  # folders that DVC looks for
    *(f"data/{folder}/README.md" for folder in ("imported", "negatives", "pretraining/records")),
    *(f"{folder}/README.md" for folder in (named_files.OF_DATASETS, named_files.OF_PRETRAINING)),
)
CODE_STAGE = "code"
PATIENCE = 60.0  # seconds, in which what DVC does for a front that was killed comes to its end


@dataclass(frozen=True)
class Workspace:
    """A copy, and what the front asks DVC there."""

    root: Path
    folder: Path
    lock: IO[str]  # held as long as a process of DVC runs
    environment: dict[str, str]

    @property
    def cells(self) -> Path:
        """Where the cells' own folders lie."""
        return self.root.resolve() / FOLDER / CELLS

    def prepare(self, cell: Cell) -> None:
        """Resolve a cell's settings here, and check out what DVC's run cache has of its stages.

        Raises InputError where a stage fails, with what it said last.
        """
        write_text(self.folder / "params.yaml", yaml_of(cell.params))
        for step in cell_commands.steps(self.folder, cell):
            for out in step.outs:
                remove(self.folder / out)
        self._asked((*DVC, "repro", "--single-item", *cell_commands.own_targets(cell)), cell)
        self._asked((*CACHED, *cell_commands.targets(cell)), cell)

    def commit(self, cell: Cell, made: Path) -> None:
        """Have DVC take what a cell's job made in the folder `made`, as if `dvc repro` had made it."""
        write_text(self.folder / "params.yaml", yaml_of(cell.params))
        outs = [out for step in cell_commands.steps(self.folder, cell) for out in step.outs]
        for path in (*cell_commands.recipes(cell), *cell_commands.negatives(cell), *outs):
            take(made / path, self.folder / path)
        self._asked((*DVC, "commit", "--force", *cell_commands.targets(cell)), cell)

    def _asked(self, command: Sequence[str], cell: Cell) -> None:
        code, said = self.run(command)
        if code:
            last = (said.strip().splitlines() or [f"it left with {code}"])[-1].removeprefix("error: ")
            raise InputError(f"{cell.name}: `{command[2]} {command[3]}` failed: {last}")

    def run(self, command: Sequence[str]) -> tuple[int, str]:
        """A command's exit code and what it said; it and all that it started are ended where we are."""
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            pass_fds=(self.lock.fileno(),),
            process_group=0,
        ) as process:
            try:
                said, _ = process.communicate()
            except BaseException:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait()
                raise
        return process.returncode, said


@contextmanager
def opened(root: Path, dataset: str, inputs: Sequence[str]) -> Iterator[Workspace]:
    """The workspace of the repository at `root`, with its code, and the prepared data of a dataset.

    `inputs`: what its cells read. Raises InputError where another study is at work, and where the data are
    not those that the code and params.yaml would make.
    """
    with _locked(root) as lock:
        folder = root.resolve() / FOLDER / COPIES / _state(root, dataset)
        workspace = Workspace(root, folder, lock, environment())
        for said in (dvc_lock.check(root), _filled(root, folder, dataset)):
            if said:
                print(said, file=sys.stderr)
        code, said = workspace.run((*DVC, "repro", "--quiet", "--single-item", CODE_STAGE))
        if code:  # every stage depends on it
            raise InputError(f"the stage code failed; mend it: {said.strip()}")
        _check_out(workspace, dataset, inputs)
        yield workspace


@contextmanager
def _locked(root: Path) -> Iterator[IO[str]]:
    path = root.resolve() / FOLDER.parent / "study.lock"
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        held = path.open("w")
    with held as lock:
        until = time.monotonic() + PATIENCE
        while not _taken(lock):
            if time.monotonic() > until:
                raise InputError("another study runs in this repository; wait for its end")
            time.sleep(0.2)
        yield lock


def _taken(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def environment() -> dict[str, str]:
    """In which the stages run."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return os.environ | {"PATH": path}


def take(made: Path, path: Path) -> None:
    """Put a file or folder in another place of the same disk, without a copy where links are possible."""
    remove(path)
    if made.is_dir():
        path.mkdir(parents=True)
        for each in made.iterdir():
            take(each, path / each.name)
    elif made.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.hardlink_to(made.resolve())
        except OSError:
            shutil.copyfile(made, path)


def _state(root: Path, dataset: str) -> str:
    """Which code and data a copy is of."""
    files = [root / name for name in CODE]
    for name in CODE[:4]:
        files += sorted(path for path in (root / name).rglob("*") if "__pycache__" not in path.parts)
    parts = [f"{path.relative_to(root)}".encode() + path.read_bytes() for path in files if path.is_file()]
    card = (root / f"data/cards/{dataset}.yaml").read_bytes()
    return sha256(dataset, card, (root / "params.yaml").read_bytes(), *parts)[:16]


def _forget(root: Path, folder: Path) -> None:
    """Remove the copies that no cell's folder stands on."""
    at = root.resolve() / FOLDER
    used = {link.resolve().parent for link in at.glob(f"{CELLS}/*/stages")} | {folder}
    for copy in (at / COPIES).glob("*"):
        if copy not in used:
            remove(copy)


def _filled(root: Path, folder: Path, dataset: str) -> str | None:
    """Fill the workspace; what was wrong with its dvc.lock."""
    with writing(folder):
        _forget(root, folder)
        _fill(root, folder, dataset)
    return dvc_lock.check(folder, root / dvc_lock.NAME)


def _fill(root: Path, folder: Path, dataset: str) -> None:
    """Put the code as it is now into the workspace, where it is not there."""
    if not (folder / ".dvc/config").exists():
        remove(folder)
        folder.mkdir(parents=True)
        for name in (*CODE, *KEPT, f"data/cards/{dataset}.yaml"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            if (root / name).is_dir():
                shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copyfile(root / name, folder / name)
        _write_config(root.resolve(), folder / ".dvc/config")
    tree = read_tree(root / "params.yaml") | {"datasets": [dataset]}
    write_text(folder / "params.yaml", yaml_of(tree))
    link_starts(root, folder, tree, dataset)


def link_starts(root: Path, folder: Path, tree: dict, dataset: str) -> None:  # type: ignore[type-arg]
    """Link the files that the settings name, and that no stage makes; who reads one says if it is missing.

    Raises InputError where a name leads out of the repository, and so out of the folder.
    """
    for section, files in named_files.of_dataset(tree, dataset).items():
        for file in (name for name in files if not Path(name).is_absolute()):
            if not Path(os.path.normpath(folder / file)).is_relative_to(folder):
                key = "start" if section == "own" else section
                raise InputError(f"{key}: {file} leads out of the repository; name it from / on")
            if section == "own" or (root / file).is_file():
                link(root.resolve() / file, folder / file)


def link(there: Path, path: Path) -> None:
    """Make `path` a link, in place of what is there."""
    remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(there)


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
    same = [stage for stage in stages if not stage.startswith(f"{cell_commands.OWN}@")]
    for arguments in (("checkout", "--quiet", *stages), ("status", "--quiet", *same)):
        if workspace.run((*DVC, *arguments))[0]:
            raise InputError(
                f"the prepared data of {dataset} are not up to date or not in DVC's cache; "
                + to_prepare(dataset, inputs, beside)
            )


def held_cells(cells: Iterable[Cell], root: Path) -> list[Path]:
    """The folders of these cells, whether or not they are there."""
    return [root.resolve() / FOLDER / CELLS / cell.key for cell in cells]
