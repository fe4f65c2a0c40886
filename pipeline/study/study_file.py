"""A study's file, studies/<name>.yaml: the rows of a paper's table, and the published values to print.

    title: …                       # the settings that vary
    source: SCORER, Table 6        # the table or figure in the paper
    datasets: [clevr_change]       # datasets of the source; --dataset may name others
    subsets: [total]               # subsets of the test pairs
    rows:
      - {label: RR, model: rr, set: {loss.lambda_cv: 0.1}, times: {…}, published: RR}

`set` sets keys of params.yaml, and `times` multiplies their values. In both, `{dataset}` and `{model}` are
replaced with the row's dataset and model. `published` names a method in data/published. DVC's own overrides
(`dvc exp run -S`) cannot multiply; they change params.yaml itself, and accept any value.
"""

from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

import models
from models.common import switches
from pipeline.config.dataset_params import Name, Positive, Strict
from pipeline.config.params import Params
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_yaml
from pipeline.io.records import all_faults, checked
from pipeline.reporting.paper_results import Subset
from pipeline.study.slurm import FILE as CLUSTER
from pipeline.study.slurm import Line

FOLDER = Path("studies")


class Row(Strict):
    """Row of a study's table: a model, with changes to params.yaml.

    `set` maps keys of params.yaml to new values. `times` maps keys to factors of their current values.
    `published` names the method in data/published whose scores are shown in this row; None: no scores.
    """

    label: Line
    model: Name
    set: dict[str, Any] = Field(default_factory=dict)
    times: dict[str, Positive] = Field(default_factory=dict)
    published: str | None = None


class Study(Strict):
    """Contents of a study's file: a table or a figure of a paper."""

    title: Line
    source: Line
    datasets: tuple[Name, ...] = Field(strict=False, min_length=1)
    subsets: tuple[Subset, ...] = Field(strict=False, min_length=1, default=("total",))
    rows: tuple[Row, ...] = Field(strict=False, min_length=1)

    @model_validator(mode="after")
    def _labels_differ(self) -> "Study":
        labels = [row.label for row in self.rows]
        if duplicates := [label for label in labels if labels.count(label) > 1]:
            raise ValueError(f"two rows have the label {duplicates[0]!r}")
        return self


def names(folder: Path = FOLDER) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.yaml") if path.name != CLUSTER.name)


def read(name: str, folder: Path = FOLDER) -> Study:
    """Return the study of this name. An InputError names the file and all wrong keys."""
    if name not in names(folder):
        raise InputError(f"unknown study {name!r}; {folder}/ has {', '.join(names(folder)) or 'none'}")
    path = folder / f"{name}.yaml"
    try:
        return Study.model_validate(read_yaml(path, "restore it with git"))
    except ValidationError as error:
        raise all_faults(error, str(path), "correct it") from None


Tree = dict[str, Any]
# what a row may vary: training and decoding, but not the data, which all rows share
DATASET_PARTS = ("loss", "train", "sizes", "own")
PARTS = ("loss", "train", "reinforce", "decode")


def overlay(tree: Tree, row: Row, dataset: str, location: str) -> Tree:
    """Return the content of params.yaml with only this dataset and the row's model, and the row's changes.

    A key that is unknown, that studies may not set, or that has no effect is an InputError, which begins with
    `location`.
    """
    changed = deepcopy(tree) | {"datasets": [dataset], "models": [row.model], "stages": {}}
    if dataset in (rendered := changed.get("tabletop", {})).get("viewpoint", {}):
        rendered["datasets"] = [dataset]
    try:
        for key, value in changes(tree, row, dataset).items():
            branch, name = _branch(changed, key)
            branch[name] = value
    except ValueError as error:
        raise InputError(f"{location}: {error}") from None
    checked(Params, changed, location, "correct the row")
    return changed


def changes(tree: Tree, row: Row, dataset: str) -> Tree:
    """Return what a row changes, by `set` (values) or `times` (factors): full key -> new value.

    A key is left out if its new value is already in effect. Raises ValueError that lists all wrong keys.
    """
    changed = {filled(key, row, dataset): value for key, value in row.set.items()}
    for key, factor in row.times.items():
        key = filled(key, row, dataset)
        branch, name = _branch(tree, key)
        value = branch.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(f"{key} is {value!r}, which cannot be multiplied")
        changed[key] = float(f"{value * factor:.12g}")  # 1e-5 x 0.1 is 1e-6, not 1.0000000000000002e-06
    if mistakes := [mistake for key in changed if (mistake := _mistake(tree, key, row.model, dataset))]:
        raise ValueError("; ".join(mistakes))
    variant_switches = _variant_switches(tree, row, dataset, changed)
    return {key: value for key, value in changed.items() if not _has(tree, key, value, variant_switches)}


def _variant_switches(tree: Tree, row: Row, dataset: str, changed: Tree) -> Tree:
    """Return the default switches of the row's model: its variant's, then the dataset's own settings.

    A switch that `model.NAME.switches` in params.yaml sets has no default. `changed` may select another
    variant. The result is {} if the model is unknown.
    """
    if row.model not in tree["model"] or (entry := models.MODELS.get(row.model)) is None:
        return {}  # Params and the recipe report an unknown model
    dataset_settings = tree["dataset"][dataset].get("own", {}).get(entry.own, {})
    key = f"model.{row.model}.variant"
    branch, name = _branch(tree, key)
    variant = changed.get(key, branch[name])
    of_variant = switches.resolve(f"model.{row.model}", variant, {}, entry.released, entry.switches)
    return asdict(of_variant) | dataset_settings.get("settings", {}).get("switches", {})


def _has(tree: Tree, key: str, value: Any, variant_switches: Tree) -> bool:
    branch, name = _branch(tree, key)
    if name not in branch:
        branch = variant_switches
    same_kind = isinstance(value, bool) == isinstance(branch.get(name), bool)  # 1 is not `true`
    return name in branch and same_kind and bool(branch[name] == value)


def filled(key: str, row: Row, dataset: str) -> str:
    return key.replace("{dataset}", dataset).replace("{model}", row.model)


def _branch(tree: Tree, key: str) -> tuple[Tree, str]:
    """Return the dictionary in `tree` that contains the dotted key, and the last part of the key."""
    *parents, name = key.split(".")
    branch: Any = tree
    for part in parents:
        branch = branch.get(part) if isinstance(branch, dict) else None
    is_switch = parents[-1:] == ["switches"]  # params.yaml has only switches that differ from the variant
    if not isinstance(branch, dict) or (name not in branch and not is_switch):
        existing_keys = f" (there are {', '.join(branch)})" if isinstance(branch, dict) else ""
        raise ValueError(f"params.yaml has no key {key}{existing_keys}")
    return branch, name


def _mistake(tree: Tree, key: str, model: str, dataset: str) -> str:
    """Return why a row of a study file may not set `key` for this model and dataset, or "" if it may."""
    prefixes = [f"{part}." for part in PARTS] + [f"dataset.{dataset}.{part}." for part in DATASET_PARTS]
    prefixes.append(f"model.{model}.")
    if not key.startswith(tuple(prefixes)):
        allowed = ", ".join(f"{prefix}*" for prefix in prefixes)
        return f"a study of {model} on {dataset} does not vary {key}; it may set {allowed}"
    global_key = key.split(".")[2:]  # the same key for all datasets
    if key.startswith("dataset.") and tree.get(global_key[0], {}).get(global_key[1]) is not None:
        return f"{key} has no effect, as params.yaml sets {'.'.join(global_key)}; set that to null"
    try:
        _branch(tree, key)
    except ValueError as error:
        return str(error)
    return ""
