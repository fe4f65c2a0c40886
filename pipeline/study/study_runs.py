"""List the runs of a study, and find out which runs are finished.

A run's key is a hash of everything by which DVC decides whether the run's training, decoding and scoring are
up to date. So rows and studies share equal runs, and a run with other code, data or settings has another key.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from operator import getitem
from pathlib import Path

from pipeline.config import resolving
from pipeline.config.params import Params, read_tree
from pipeline.config.recipe_file import Recipe
from pipeline.datasets import cub_nabirds
from pipeline.io import source_code
from pipeline.io.errors import InputError, listed
from pipeline.io.inputs import read_yaml
from pipeline.io.outputs import Contents, replacing, write_json
from pipeline.io.provenance import sha256
from pipeline.study.study_file import FOLDER, Study, StudyRow, Tree, changes, overlay

FINISHED = Path("results/studies/runs")
STAGES = ("train", "decode", "score")
FEATURES = "data/features/${item.dataset}"  # the stage recipe records its hash
RESULT_FILES = ("metrics.json", "pairs.jsonl")  # files of a finished run
RETRIEVAL = "retrieval/retrieval.json"  # further file of a model that learns to retrieve
RECORD = "run.json"
CONTENTS = Contents("study run")


@dataclass(frozen=True)
class Run:
    """A run: a row of a study with one seed."""

    name: str
    dataset: str
    model: str
    seed: int
    params: Tree  # params.yaml of the run
    recipe: Recipe
    key: str

    @property
    def folder(self) -> Path:
        return FINISHED / self.key

    @property
    def scores_folder(self) -> Path:
        return Path("results/runs", self.dataset, self.model, str(self.seed))

    def source(self, name: str) -> Path:
        """Return the path, relative to the run's workspace, of a file in `kept_files`."""
        if name == RETRIEVAL:
            curves = Path("results/curves", self.dataset, self.model, "pretrain", str(self.seed))
            return curves / Path(name).name
        return self.scores_folder / name


@dataclass(frozen=True)
class Planned:
    """One row of a study's table, with its training runs: one run per seed."""

    row: StudyRow
    changes: Tree  # full key in params.yaml -> value
    runs: tuple[Run, ...]


def plan(root: Path, name: str, study: Study, dataset: str, seeds: Sequence[int]) -> list[Planned]:
    """Return the runs of every row of the study `name`, for the repository's code and prepared data."""
    tree = read_tree(root / "params.yaml")
    Params.model_validate(tree).of(dataset)
    resolved = _all_resolved(tree, study, dataset, name)
    dependencies = _dependencies(root, dataset, sorted({recipe.input for _, recipe in resolved}))
    return [
        _planned(root, tree, row, changed, recipe, seeds, dependencies)
        for row, (changed, recipe) in zip(study.rows, resolved, strict=True)
    ]


def _all_resolved(tree: Tree, study: Study, dataset: str, name: str) -> list[tuple[Tree, Recipe]]:
    resolved, mistakes = [], []
    for row in study.rows:
        try:
            resolved.append(_resolved(tree, row, dataset, name))
        except InputError as error:
            mistakes.append(str(error))
    if len(mistakes) > 1:
        raise listed(mistakes, f"{FOLDER / name}.yaml", "correct these rows")
    if mistakes:
        raise InputError(mistakes[0])
    return resolved


def _resolved(tree: Tree, row: StudyRow, dataset: str, name: str) -> tuple[Tree, Recipe]:
    location = f"{FOLDER / name}.yaml, row {row.label!r}"
    changed = overlay(tree, row, dataset, location)
    try:
        everything = Params.model_validate(changed)
        recipe = resolving.resolve(everything, dataset, row.model)
        resolving.check_built(everything, recipe)
    except InputError as error:
        raise InputError(f"{location}: {error}") from None
    return changed | {"stages": resolving.stage_lists([recipe])}, recipe


def _planned(
    root: Path,
    tree: Tree,
    row: StudyRow,
    changed: Tree,
    recipe: Recipe,
    seeds: Sequence[int],
    dependencies: Tree,
) -> Planned:
    dataset = recipe.dataset
    used_settings = {key: reduce(getitem, key.split("."), changed) for key in dependencies["params"]}
    if recipe.asks_negatives:
        used_settings["negatives"] = changed["negatives"]
    if recipe.pretrained_on:
        used_settings["pretraining"] = _pretraining_data(root, tree, recipe.pretrained_on)
    runs = []
    for seed in seeds:
        key = sha256(json.dumps([asdict(recipe), seed, used_settings, dependencies], sort_keys=True))[:16]
        params = changed | {"seeds": [seed]}
        runs.append(Run(f"{row.label}, seed {seed}", dataset, row.model, seed, params, recipe, key))
    return Planned(row, changes(tree, row, dataset), tuple(runs))


def inputs_of(planned: Iterable[Planned]) -> list[str]:
    return sorted({run.recipe.input for row in planned for run in row.runs})


def _dependencies(root: Path, dataset: str, inputs: Sequence[str]) -> Tree:
    """Return the dependencies that all runs on a dataset share.

    They are the commands, the names of parameters and the source files of the stages in STAGES, and the
    hashes of the prepared data.
    """
    stages = read_yaml(root / "dvc.yaml", "restore it with git")["stages"]
    run_stages = [stages[name] for name in STAGES]
    deps = sorted({FEATURES} | {dep for stage in run_stages for dep in stage["deps"]})
    return {
        "commands": [stage["cmd"] for stage in run_stages],
        "params": sorted({key for stage in run_stages for key in stage.get("params", [])}),
        "code": {
            path: digest for name in STAGES for path, digest in source_code.of_stage(name, root).items()
        },
        "data": _data(root, dataset, inputs, [dep.replace("${item.dataset}", dataset) for dep in deps]),
    }


def _data(root: Path, dataset: str, inputs: Sequence[str], deps: Sequence[str]) -> dict[str, str]:
    """Return path -> MD5 from dvc.lock, for the prepared data at or below the paths `deps`."""
    remedy = how_to_prepare(dataset, inputs)
    outputs = _outputs(root, dataset, preparing_stages(dataset, inputs), remedy)
    digests = {
        path: md5 for path, md5 in outputs.items() if any(f"{path}/".startswith(f"{dep}/") for dep in deps)
    }
    for path in (f"data/cards/{dataset}.yaml", *digests):
        if not (root / path).exists():
            raise InputError(f"{dataset} is not prepared ({path} is missing); {remedy}")
    return digests


def _pretraining_data(root: Path, tree: Tree, datasets: Sequence[str]) -> dict[str, str]:
    digests: dict[str, str] = {}
    for dataset in datasets:
        remedy = cub_nabirds.remedy(dataset)
        if dataset not in tree["pretraining"]["datasets"]:
            raise InputError(f"{dataset} is not prepared; {remedy}")
        digests |= _outputs(root, dataset, pretraining_stages([dataset]), remedy)
    return digests


def _outputs(root: Path, dataset: str, stages: Sequence[str], remedy: str) -> dict[str, str]:
    """Return path -> MD5 from dvc.lock, for the outputs of the stages that prepare a dataset."""
    lock = read_yaml(root / "dvc.lock", remedy) or {}
    outputs: dict[str, str] = {}
    for stage in stages:
        if stage not in lock.get("stages", {}):
            raise InputError(f"{dataset} is not prepared ({stage} has not run); {remedy}")
        outputs |= {out["path"]: out["md5"] for out in lock["stages"][stage]["outs"]}
    return outputs


def how_to_prepare(dataset: str, inputs: Sequence[str], pretraining_datasets: Sequence[str] = ()) -> str:
    """Return a sentence that says how to prepare `dataset` for runs with these inputs."""
    stages = [*preparing_stages(dataset, inputs)[1:], *pretraining_stages(pretraining_datasets)]
    return (
        f"name {dataset} in `datasets` of params.yaml, and {' and '.join(inputs)} in stages.extract, and run "
        f"`dvc repro {' '.join(stages)}`, then start the study again"
    )


def preparing_stages(dataset: str, inputs: Sequence[str]) -> list[str]:
    """Return the stages that prepare a dataset, such as "extract@tabletop-grid", one for each input."""
    stages = [f"prepare@{dataset}", f"vocab@{dataset}"]
    return stages + [f"extract@{dataset}-{name}" for name in inputs]


def pretraining_stages(datasets: Sequence[str]) -> list[str]:
    return [f"{stage}_pretraining@{name}" for name in datasets for stage in ("prepare", "extract")]


def finished(root: Path, run: Run) -> bool:
    return all((root / run.folder / name).is_file() for name in kept_files(run))


def kept_files(run: Run) -> list[str]:
    return [*RESULT_FILES, RETRIEVAL] if run.recipe.entry.retrieves else [*RESULT_FILES]


def distinct_runs(planned: Sequence[Planned]) -> list[tuple[Planned, Run]]:
    """Return each run once, with the first row that needs it; runs with the first seed come first."""
    by_key: dict[str, tuple[Planned, Run]] = {}
    for index in range(max((len(row.runs) for row in planned), default=0)):
        for row in planned:
            by_key.setdefault(row.runs[index].key, (row, row.runs[index]))
    return list(by_key.values())


def keep_scores(root: Path, run: Run, workspace: Path) -> None:
    """Copy the scores in `workspace` to the run's folder: all files, or none if an error occurs."""
    with replacing(root / run.folder, CONTENTS) as temporary_folder:
        temporary_folder.mkdir()
        for name in kept_files(run):
            (temporary_folder / name).parent.mkdir(exist_ok=True)
            (temporary_folder / name).write_bytes((workspace / run.source(name)).read_bytes())
        description = {"dataset": run.dataset, "model": run.model, "seed": run.seed, "key": run.key}
        write_json(temporary_folder / RECORD, description | {"params": run.params})
