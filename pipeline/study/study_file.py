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

from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

import models
from models.common import switches
from pipeline.config import resolving
from pipeline.config.dataset_params import PHASES, Name, Positive, Strict
from pipeline.config.params import Params, flat, merged
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_yaml
from pipeline.io.records import all_faults, checked
from pipeline.reporting.paper_results import Subset
from pipeline.study.slurm import FILE as CLUSTER
from pipeline.study.slurm import Line

FOLDER = Path("studies")


class StudyRow(Strict):
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
    rows: tuple[StudyRow, ...] = Field(strict=False, min_length=1)

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
DATASET_PARTS = ("loss", "train", "sizes", "models")
PARTS = ("loss", "train", "reinforce", "decode")


def overlay(tree: Tree, row: StudyRow, dataset: str, location: str) -> Tree:
    """Return the content of params.yaml with only this dataset and the row's model, and the row's changes.

    A key that is unknown, that studies may not set, or that has no effect is an InputError, which begins with
    `location`.
    """
    changed = tree | {"datasets": [dataset], "models": [row.model], "stages": {}}
    if dataset in (rendered := tree.get("tabletop", {})).get("viewpoint", {}):
        changed["tabletop"] = rendered | {"datasets": [dataset]}
    try:
        of_row = changes(tree, row, dataset)
    except (ValueError, InputError) as error:
        raise InputError(f"{location}: {error}") from None
    for key, value in of_row.items():
        *parents, name = key.split(".")
        branch = changed
        for part in parents:
            branch[part] = {**branch.get(part, {})}  # a copy: `tree` stays as it is
            branch = branch[part]
        branch[name] = value
    everything = checked(Params, changed, location, "correct the row")
    for key in of_row:
        if key.startswith("dataset.") and (origin := _origin(everything, key, row.model, dataset)) != key:
            raise InputError(f"{location}: {key} has no effect, as {origin} overrides it; set that instead")
    return changed


def _origin(everything: Params, key: str, model: str, dataset: str) -> str:
    """Return the full key of the highest layer that gives the value of `key` to a model on a dataset."""
    name = _in_layers(key, model)
    layer = resolving.origin(resolving.layers(everything, dataset, model), name)
    return key if layer is None else layer.key(name)


def _in_layers(key: str, model: str) -> str:
    """Return the key that a full key of params.yaml has in the layers of settings: section and name."""
    if key.startswith(f"model.{model}."):
        return f"settings.{key.removeprefix(f'model.{model}.')}"
    parts = key.split(".")
    if parts[0] == "dataset":
        parts = parts[4:] if parts[2] == "models" else parts[2:]
    return ".".join(parts)


def changes(tree: Tree, row: StudyRow, dataset: str) -> Tree:
    """Return what a row changes, by `set` (values) or `times` (factors): full key -> new value.

    A key is left out if its new value is already in effect. Raises ValueError that lists all wrong keys.
    """
    changed = {filled(key, row, dataset): value for key, value in row.set.items()}
    factors = {filled(key, row, dataset): factor for key, factor in row.times.items()}
    current = _current(tree, row.model, dataset, changed.get(f"model.{row.model}.variant"))
    mistakes = [m for key in (*changed, *factors) if (m := _mistake(tree, key, row.model, dataset, current))]
    for key, factor in factors.items():
        value = _value(tree, key, row.model, current)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            mistakes.append(f"{key} is {value!r}, which cannot be multiplied")
            continue
        changed[key] = float(f"{value * factor:.12g}")  # 1e-5 x 0.1 is 1e-6, not 1.0000000000000002e-06
    if mistakes:
        raise ValueError("; ".join(mistakes))
    return {
        key: value
        for key, value in changed.items()
        if not _same(value, _value(tree, key, row.model, current))
    }


def _current(tree: Tree, model: str, dataset: str, variant: Any) -> Tree:
    """Return the settings of a model on a dataset, by their keys in the layers; {} for an unknown model.

    Defaults of phases and the switches of the model's variant are included. `variant`: replaces the current
    variant; None: it does not.
    """
    if model not in tree["model"] or (entry := models.MODELS.get(model)) is None:
        return {}  # Params and the recipe report an unknown model
    values = merged(*(each.values for each in resolving.layers(Params.model_validate(tree), dataset, model)))
    variant = variant or values["settings"]["variant"]
    of_variant = switches.resolve(f"model.{model}", variant, {}, entry.released, entry.switches)
    defaults = {
        phase: {
            name: field.default for name, field in settings.model_fields.items() if not field.is_required()
        }
        for phase, settings in PHASES.items()
        if phase in values
    }
    return flat(merged({"settings": {"switches": asdict(of_variant)}} | defaults, values))


def _value(tree: Tree, key: str, model: str, current: Tree) -> Any:
    """Return the value of a full key in effect: that of `tree` (params.yaml), or of the layers below it."""
    value: Any = tree
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return current.get(_in_layers(key, model)) if value is None else value


def _same(value: Any, other: Any) -> bool:
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)  # 1 is not `true`


def filled(key: str, row: StudyRow, dataset: str) -> str:
    return key.replace("{dataset}", dataset).replace("{model}", row.model)


def _mistake(tree: Tree, key: str, model: str, dataset: str, current: Tree) -> str:
    """Return why a row of a study file may not set `key` for this model and dataset, or "" if it may.

    `current`: settings of the model on the dataset, by their keys in the layers
    """
    prefixes = [f"{part}." for part in PARTS] + [f"dataset.{dataset}.{part}." for part in DATASET_PARTS]
    prefixes.append(f"model.{model}.")
    if not key.startswith(tuple(prefixes)):
        allowed = ", ".join(f"{prefix}*" for prefix in prefixes)
        return f"a study of {model} on {dataset} does not vary {key}; it may set {allowed}"
    *parents, name = key.split(".")
    branch: Any = tree
    for part in parents:
        branch = branch.get(part) if isinstance(branch, dict) else None
    # params.yaml has only the keys of `models` and the switches that differ from other layers
    if (isinstance(branch, dict) and name in branch) or parents[-1:] == ["switches"]:
        return ""
    in_layers = _in_layers(key, model)
    if ".models." in key and in_layers in current:
        return ""
    section = in_layers.rpartition(".")[0]
    keys = branch or [each.rpartition(".")[2] for each in current if each.rpartition(".")[0] == section]
    return f"params.yaml has no key {key}" + (f" (there are {', '.join(keys)})" if keys else "")
