"""Contents of params.yaml as immutable, typed objects. Unknown keys and wrong types raise an error."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, ValidationError, model_validator

from pipeline.config.dataset_params import (
    Batch,
    Cache,
    Compile,
    Count,
    Dataset,
    Distinct,
    Name,
    Negatives,
    Positive,
    Precision,
    Pretraining,
    Processes,
    References,
    Resize,
    Schedule,
    Seed,
    Select,
    Size,
    Strict,
    Stride,
    Variation,
    Weight,
)
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_yaml
from pipeline.io.records import first_fault

PUBLISHED, REMEDY = "datasets.yaml", "restore it with git"  # in the folder of params.yaml
Input = Literal["grid", "pixels"]
Log = Literal["dvclive", "tensorboard", "none"]
Viewpoint = Literal["moderate", "clevr_change", "extreme"] | Annotated[float, Field(gt=0, le=180)]
Look = Literal["studio", "clevr", "blender"]
LOOKS: tuple[Look, ...] = get_args(Look)
KINDS_OF_CHANGE = 5  # scene n has the kind n % 5


class Scenes(Strict):
    """Settings that all rendered datasets share. The section `tabletop` of params.yaml explains each one."""

    scenes: Annotated[int, Field(ge=10, le=1_000_000)]
    seed: Seed
    min_objects: Annotated[int, Field(ge=1, le=10)]
    max_objects: Annotated[int, Field(ge=1, le=10)]
    relations: Annotated[float, Field(ge=0, le=1)] = 0.5
    width: Annotated[int, Field(ge=32, le=4096)]
    height: Annotated[int, Field(ge=32, le=4096)]
    look: Look | Annotated[tuple[Look, ...], Field(min_length=1, max_length=1000, strict=False)] = "studio"
    variation: Variation | None = None
    twins: bool = False
    # a folder of this machine: it is not part of any record of a dataset
    assets: str | None = Field(default=None, exclude=True)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min_objects > self.max_objects:
            raise ValueError("min_objects exceeds max_objects")
        return self

    @property
    def looks(self) -> tuple[Look, ...]:
        return (self.look,) if isinstance(self.look, str) else self.look

    def look_of(self, scene: int) -> Look:
        """Return a scene's look; five consecutive scenes, one of each kind of change, have the same."""
        return self.looks[scene // KINDS_OF_CHANGE % len(self.looks)]


class Tabletop(Scenes):
    """Settings of one rendered dataset."""

    viewpoint: Viewpoint  # a number is the greatest turn of the camera in degrees


class Rendered(Scenes):
    """Settings of all rendered datasets, which differ only in `viewpoint`."""

    datasets: Annotated[tuple[Name, ...], Distinct] = Field(strict=False)  # names of the datasets to render
    viewpoint: dict[Name, Viewpoint]

    def of(self, dataset: str) -> Tabletop:
        """Return the settings of a rendered dataset. Raises InputError for other datasets."""
        if dataset not in self.viewpoint:
            names = ", ".join(self.viewpoint)
            raise InputError(f"{dataset!r} is not rendered; 'tabletop.viewpoint' in params.yaml has {names}")
        shared = {name: getattr(self, name) for name in Scenes.model_fields}
        return Tabletop(**shared, viewpoint=self.viewpoint[dataset])


class Stages(Strict):
    """Section `stages`: inputs to extract (feature grids, pixels), and models to pre-train (resolving.py)."""

    extract: Annotated[tuple[Input, ...], Distinct] = Field(default=("grid",), strict=False)
    pretrain: Annotated[tuple[Name, ...], Distinct] = Field(default=(), strict=False)


class Features(Strict):
    backbone: str | None
    weights: str | None
    stride: Stride | None
    finer: bool | None
    resize: Resize
    size: Size
    precision: Precision | None


class Text(Strict):
    tokeniser: Literal["words", "clip_bpe"] = "words"
    lower_case: bool


class Train(Strict):
    iterations: Count | None
    batch: Batch | None
    references: References | None
    learning_rate: Positive | None
    schedule: Schedule | None
    validate_every: Count | None
    precision: Precision | None
    compile: Compile | None
    cache: Cache | None
    processes: Processes | None
    select: Select | None = None
    fine_tune: Annotated[str, Field(min_length=1)] | None = None  # folder of trained weights to start from
    log: Log | None = None  # not in recipes, as it affects no result

    @property
    def decides(self) -> dict[str, Any]:
        """Settings that are not null, except `log`. They override the dataset's training settings."""
        return {key: value for key, value in self.model_dump(exclude={"log"}).items() if value is not None}


COMPARING = ("agrees", "CIDEr-D")  # rewards that compare a caption with references


class Reinforce(Strict):
    """Settings of the reward phase after training (pipeline/training/reinforce.py)."""

    reward: Literal["truth", "agrees", "CIDEr-D", "random", "constant"] | None = None  # null: no such phase
    samples: Annotated[int, Field(ge=1, le=64)] = 5
    baseline: Literal["mean", "greedy"] = "mean"
    iterations: Count = 2000
    learning_rate: Positive = 3e-4
    validate_every: Count = 500
    cross_entropy: Weight = 0.1
    references: Annotated[int, Field(ge=1, le=64)] = 1  # references per pair for the cross-entropy
    partial_credit: Annotated[float, Field(ge=0, lt=1)] = 0.0
    false_alarm: Annotated[float, Field(ge=0, le=1)] = 1.0
    both_ways: bool | None = None  # also reward captions of (after, before); null: if no reference is needed

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.both_ways and self.reward in COMPARING:
            raise ValueError(f"both_ways: {self.reward} needs references of (after, before); set truth")
        if self.baseline == "mean" and self.samples == 1:
            raise ValueError("baseline: mean compares the samples of a pair; set samples to 2 or more")
        return self

    @property
    def decides(self) -> dict[str, Any]:
        """Settings of the reward phase for a recipe, as {"reinforce": settings}; {} without this phase."""
        both_ways = self.reward not in COMPARING if self.both_ways is None else self.both_ways
        return {} if self.reward is None else {"reinforce": self.model_dump() | {"both_ways": both_ways}}


class Decode(Strict):
    batch: Batch
    beam: Annotated[int, Field(ge=1, le=64)]  # the same range as --beam
    length_penalty: Weight
    both_ways: bool = False  # also caption (after, before)
    labelled_gate: bool = False  # the pairs' true kinds also open MEDIC's gate


class Score(Strict):
    meteor_timeout: Annotated[float, Field(gt=0, le=1_000_000)]
    tokeniser: Literal["ptb", "none"] = "ptb"


class Report(Strict):
    gallery: Annotated[int, Field(ge=1, le=10_000)]
    constant_candidates: Annotated[int, Field(ge=1, le=1_000_000)]


class Check(Strict):
    tolerance: dict[str, Annotated[float, Field(ge=0)]] = Field(min_length=1)


class Params(Strict):
    """All settings of params.yaml. A null in `loss`, `train`, `features` or `model` overrides nothing."""

    datasets: Annotated[tuple[Name, ...], Distinct] = Field(strict=False, min_length=1)
    models: Annotated[tuple[Name, ...], Distinct] = Field(strict=False, min_length=1)
    seeds: Annotated[tuple[Seed, ...], Distinct] = Field(strict=False, min_length=1, max_length=1000)
    stages: Stages = Stages()
    tabletop: Rendered
    features: Features
    negatives: Negatives = Negatives()
    pretraining: Pretraining = Pretraining()
    text: Text
    loss: dict[str, Weight | None]
    train: Train
    reinforce: Reinforce = Reinforce()
    decode: Decode
    score: Score
    report: Report
    check: Check
    model: dict[Name, dict[str, Any]]  # settings of single models; checked by models.check
    dataset: dict[Name, Dataset]

    @model_validator(mode="after")
    def _known_names(self) -> "Params":
        for key, names, section, entries in (
            ("datasets", self.datasets, "dataset", self.dataset),
            ("models", self.models, "model", self.model),
            ("tabletop.datasets", self.tabletop.datasets, "tabletop.viewpoint", self.tabletop.viewpoint),
        ):
            if unknown := sorted(set(names) - set(entries)):
                raise ValueError(
                    f"{key} names {unknown[0]!r}, which is not in {section!r} (it has {', '.join(entries)})"
                )
        rendered = set(self.datasets) & set(self.tabletop.viewpoint)
        if missing := sorted(rendered - set(self.tabletop.datasets)):
            raise ValueError(f"datasets names {missing[0]!r}, which is rendered: add it to tabletop.datasets")
        return self

    def of(self, dataset: str) -> Dataset:
        """Return the settings of a dataset. Raises InputError if params.yaml has no entry for it."""
        if dataset not in self.dataset:
            names = ", ".join(self.dataset)
            raise InputError(f"unknown dataset {dataset!r}; params.yaml has {names} under 'dataset'")
        return self.dataset[dataset]

    def features_of(self, dataset: str) -> Features:
        """Return `features`; a null precision is replaced with the dataset's precision."""
        precision = self.features.precision or self.of(dataset).features.precision
        return self.features.model_copy(update={"precision": precision})


def load(path: str | Path = "params.yaml") -> Params:
    """Read and check params.yaml. Raises InputError naming the first key that is wrong."""
    tree = read_tree(path)
    try:
        return Params.model_validate(tree)
    except ValidationError as error:
        advice = {"extra_forbidden": "; remove it or correct its spelling", "missing": "; add it"}
        remedy = advice.get(error.errors()[0]["type"], "")
        raise InputError(f"{_file_of(error, path)}: {first_fault(error)}{remedy}") from None


def read_tree(path: str | Path) -> Any:
    """Return the content of params.yaml, with the settings of each dataset merged from their layers.

    The layers are, from the lowest: the dataset that the key `like` names (without its section `prepare`),
    datasets.yaml in the same folder, and params.yaml.
    """
    tree = read_yaml(path, "run the stages from the repository's root")
    entries = tree.get("dataset") if isinstance(tree, dict) else None
    if not isinstance(entries, dict):
        return tree
    entries = _with_published(entries, Path(path).with_name(PUBLISHED))
    return tree | {"dataset": {name: _with_like(entries, name, path) for name in entries}}


def _file_of(error: ValidationError, path: str | Path) -> str | Path:
    """Return the file that contains the wrong key: `path` (params.yaml), or datasets.yaml next to it."""
    key, name, section = (*error.errors()[0]["loc"], None, None, None)[:3]
    published = Path(path).with_name(PUBLISHED)
    if key != "dataset" or not published.exists() or name not in read_yaml(published, REMEDY):
        return path
    own = read_yaml(path, REMEDY)["dataset"].get(name, {})
    return path if not isinstance(own, dict) or section in own else published


def _with_published(entries: dict[Any, Any], path: Path) -> dict[Any, Any]:
    """Merge datasets.yaml (`path`) into the `entries` of params.yaml, which take precedence."""
    published = read_yaml(path, REMEDY) if path.exists() else {}
    if not isinstance(published, dict) or not all(isinstance(entry, dict) for entry in published.values()):
        raise InputError(f"{path} must map the name of each dataset to its settings; {REMEDY}")
    own = {
        name: merged(published[name], entry) if isinstance(entry, dict) and name in published else entry
        for name, entry in entries.items()
    }
    return own | {name: entry for name, entry in published.items() if name not in own}


def _with_like(entries: dict[Any, Any], name: Any, path: str | Path) -> Any:
    """Return a dataset's entry, with missing keys (except `prepare`) from the dataset its `like` names."""
    entry = entries[name]
    if not isinstance(entry, dict) or "like" not in entry:
        return entry
    like = entries.get(entry["like"]) if isinstance(entry["like"], str) else None
    if not isinstance(like, dict) or "like" in like:
        names = ", ".join(str(k) for k, v in entries.items() if isinstance(v, dict) and "like" not in v)
        raise InputError(f"{path}: dataset.{name}.like must name one of {names}, not {entry['like']!r}")
    shared = {key: value for key, value in like.items() if key != "prepare"}
    return merged(shared, {key: value for key, value in entry.items() if key != "like"})


def merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Merge nested mappings, from the lowest layer to the highest, into a new mapping."""
    result: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            below = result.get(key)
            nested = isinstance(value, Mapping)
            result[key] = merged(below if isinstance(below, Mapping) else {}, value) if nested else value
    return result


def without_nulls(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested mappings without their nulls: a key whose value is null names nothing."""
    return {
        key: without_nulls(value) if isinstance(value, Mapping) else value
        for key, value in values.items()
        if value is not None
    }


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return dotted key -> value for all values in nested mappings. An empty mapping counts as a value."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= (
            flat(value, f"{prefix}{key}.")
            if isinstance(value, Mapping) and value
            else {prefix + str(key): value}
        )
    return found
