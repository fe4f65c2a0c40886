"""Workspaces of a study's runs. A workspace is a folder in which DVC executes one run.

A workspace has a copy of the code, links to the prepared data in the repository's DVC cache, and a
params.yaml that lists only its run. The folder's name is the run's key, a hash of the code, data
and settings that determine the run. So a later command finds the workspace of a killed training,
and continues the training if code, data and settings are unchanged. The code of a workspace is
copied from another folder, the base. In the base, DVC first checks that a dataset's prepared data
are up to date.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from configparser import ConfigParser
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT
from typing import Any

from pipeline.config.params import read_tree
from pipeline.io import named_files
from pipeline.io.errors import InputError, writing
from pipeline.io.inputs import read_yaml
from pipeline.io.outputs import remove, replacing, write_text, yaml_of
from pipeline.io.scratch_folders import output_lock
from pipeline.scoring.spice import DEFAULT as SPICE
from pipeline.study.jobs import environment
from pipeline.study.study_file import Tree
from pipeline.study.study_runs import Run, how_to_prepare, preparing_stages, pretraining_stages

FOLDER = Path(".scratch/study")
BASE, RUNS = "base", "runs"
PARAMS, LOCK, CONFIG = "params.yaml", "dvc.lock", ".dvc/config"
CODE = ("models", "pipeline", "stages", "commands", "datasets.yaml", "dvc.yaml", ".dvcignore")
# folders that DVC looks for
README_FILES = ("data/imported/README.md", "data/pretraining/records/README.md")
SETTINGS = "settings"  # the stage on which every other stage depends


@dataclass(frozen=True)
class Base:
    """Folder from which the workspaces of a dataset's runs are copied.

    root: the repository
    folder: this folder, .scratch/study/base in the repository; it has a copy of the code
    prepared: names of the stages that prepare the data
    """

    root: Path
    folder: Path
    prepared: tuple[str, ...]

    def workspace_of(self, run: Run) -> Path:
        """Return a run's workspace. A new workspace is made without the data; DVC checks them out later."""
        (folder,) = workspaces([run], self.root)
        if not (folder / CONFIG).exists():
            with writing(folder):
                remove(folder)
                _copy(self.folder, folder, run.dataset)
                shutil.copyfile(self.folder / LOCK, folder / LOCK)
                # a link, not an environment variable: metrics.json must name the same folder as `dvc repro`
                _link(self.root.resolve() / SPICE, folder / SPICE)
                link_named(self.root, folder, run.params, run.dataset)
                link_watched(self.root, folder, run.params, run.dataset)
                write_text(folder / PARAMS, yaml_of(run.params))
                write_text(folder / CONFIG, (self.folder / CONFIG).read_text(encoding="utf-8"))  # comes last
        return folder


@contextmanager
def opened(root: Path, dataset: str, inputs: Sequence[str]) -> Iterator[Base]:
    """Yield the Base of a dataset, from which its runs' workspaces are copied, while no other study runs."""
    with output_lock(root.resolve() / FOLDER):
        tree = read_tree(root / PARAMS) | {"datasets": [dataset]}
        stages = tree.get("stages", {})
        tree["stages"] = stages | {"extract": [*{*inputs, *stages.get("extract", [])}]}
        pretraining_datasets = tree.get("pretraining", {}).get("datasets", [])
        data_stages = (*preparing_stages(dataset, inputs), *pretraining_stages(pretraining_datasets))
        base = Base(root, root.resolve() / FOLDER / BASE, (SETTINGS, *data_stages))
        _fill(base, dataset, tree)
        repro = _dvc(base.folder, "repro", "--quiet", "--single-item", SETTINGS)
        if repro.returncode:
            raise InputError(f"the stage {SETTINGS} failed; correct this error: {repro.stdout.strip()}")
        for verb in ("checkout", "status"):
            if _dvc(base.folder, verb, "--quiet", *data_stages).returncode:
                remedy = how_to_prepare(dataset, inputs, pretraining_datasets)
                raise InputError(f"the data of {dataset} are not up to date or not in DVC's cache; {remedy}")
        yield base


def workspaces(runs: Iterable[Run], root: Path) -> list[Path]:
    return [root.resolve() / FOLDER / RUNS / run.key for run in runs]


def link_named(root: Path, folder: Path, tree: Tree, dataset: str) -> None:
    """Make links in `folder` to files and weights in the repository that settings name by relative paths."""
    weights = tree.get("train", {}).get("fine_tune")
    if weights is not None and not Path(weights).is_absolute():
        _link_within(root, folder, named_files.FINE_TUNE, weights)
    for section, files in named_files.of_dataset(tree, dataset).items():
        for file in (name for name in files if not Path(name).is_absolute()):
            if section == "models" or (root / file).is_file():
                _link_within(root, folder, "start" if section == "models" else section, file)


def link_watched(root: Path, folder: Path, tree: Tree, dataset: str) -> None:
    """Make links in `folder` to the user's files in the repository that the stage `settings` hashes.

    They are the folder of a dataset, its .npy files, and the files of datasets for pre-training. Files with
    absolute paths get no link. Raises InputError if a relative path leads out of the repository.
    """
    found, pretraining = named_files.folders_of_dataset(tree, dataset), tree.get("pretraining", {})
    for name in (pretraining_datasets := pretraining.get("datasets", [])):
        found[f"pretraining.root.{name}"] = pretraining["root"][name]
    weights = named_files.weights_of_pretraining(tree) if pretraining_datasets else []
    for key, name in (*found.items(), *(("pretraining.weights", name) for name in weights)):
        if not Path(name).is_absolute() and (root / name).exists():
            _link_within(root, folder, key, name)


def _dvc(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dvc", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment(), stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, errors="replace"
    )


def _fill(base: Base, dataset: str, tree: Tree) -> None:
    root, folder = base.root, base.folder
    prepared_stages = {name: stage for name, stage in locked_stages(root).items() if name in base.prepared}
    with writing(folder):
        remove(folder)
        _copy(root, folder, dataset)
        write_text(folder / LOCK, yaml_of({"schema": "2.0", "stages": prepared_stages}))
        write_text(folder / PARAMS, yaml_of(tree))
        link_named(root, folder, tree, dataset)
        link_watched(root, folder, tree, dataset)
        _write_config(root.resolve(), folder / CONFIG)


def locked_stages(root: Path) -> dict[str, Any]:
    """Return the stages of dvc.lock, which DVC writes in place: a kill may leave only its beginning."""
    remedy = "remove it: `dvc repro` then uses the results in DVC's cache"
    lock = read_yaml(root / LOCK, remedy)
    if not isinstance(lock, dict) or not isinstance(stages := lock.get("stages"), dict):
        raise InputError(f"{root / LOCK} is cut off or damaged; {remedy}")
    return stages


def _copy(source: Path, folder: Path, dataset: str) -> None:
    for name in (*CODE, *README_FILES, f"data/cards/{dataset}.yaml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (source / name).is_dir():
            shutil.copytree(source / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source / name, folder / name)


def _link_within(root: Path, folder: Path, key: str, name: str) -> None:
    if not Path(os.path.normpath(folder / name)).is_relative_to(folder):
        raise InputError(f"{key}: {name} leads out of the repository; name it from / on")
    _link(root.resolve() / name, folder / name)


def _link(target: Path, path: Path) -> None:
    remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def _write_config(root: Path, path: Path) -> None:
    cache_dir = _dvc(root, "cache", "dir")
    if cache_dir.returncode:
        raise InputError(f"`dvc cache dir` failed ({cache_dir.stdout.strip()}); run it to see what is wrong")
    config = ConfigParser(interpolation=None)
    config.read([root / CONFIG, root / f"{CONFIG}.local"], encoding="utf-8")
    config.read_dict({"core": {"no_scm": "true"}, "cache": {"dir": str(root / cache_dir.stdout.strip())}})
    with replacing(path) as temporary_path, temporary_path.open("w", encoding="utf-8") as file:
        config.write(file)
