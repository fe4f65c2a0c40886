"""A study's file, studies/<name>.yaml: the rows of a paper's table, and the published values to print.

    title: …                       # the settings that vary
    source: SCORER, Table 6        # the table or figure in the paper
    datasets: [clevr_change]       # datasets of the source; --dataset may name others
    subsets: [total]               # subsets of the test pairs
    rows:
      - {label: RR, model: rr, set: {loss.lambda_cv: 0.1}, times: {…}, published: RR}

`set` sets keys of params.yaml, and `times` multiplies their values. In both, `{dataset}` and `{model}` are
replaced with the row's dataset and model. `published` names a method in data/published.
"""

from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from pipeline.config.dataset_params import Name, Positive, Strict
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_yaml
from pipeline.io.records import all_faults
from pipeline.reporting.paper_results import Subset
from pipeline.study.slurm import FILE as CLUSTER
from pipeline.study.slurm import Line

FOLDER = Path("studies")


class Row(Strict):
    """Row of a study's table: a model, with changes to params.yaml."""

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
    """Return the names of the studies in the folder. The file of cluster settings is not a study."""
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
