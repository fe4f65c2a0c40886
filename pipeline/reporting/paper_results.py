"""Read published scores (data/published/<dataset>.yaml), and find how their conditions differ from ours.

Scores are copied from papers as printed. A row of the file has the scores of one method. If they come from
the paper that proposes the method, the row also has the conditions that this paper states for its runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from pipeline.config.dataset_params import Count, Dataset, Name, Positive, Strict
from pipeline.config.params import Params, merged
from pipeline.config.store_contents import pixel_spec, spec
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_yaml
from pipeline.io.records import checked
from pipeline.scoring.metric_names import PRINTED

FOLDER = Path("data/published")
NETWORKS = {"resnet101": "ResNet-101"}  # name in papers
PIXELS_NETWORK = "CLIP, trained on pixels"  # models/clip4idc/encoders.py
Subset = Literal["total", "change", "no_change", "color", "texture", "add", "drop", "move"]
Figure = Literal["R@1", "R@5", "R@10", "R@20", "R@50", "MdR", "MnR"]
Percent = Annotated[float, Field(ge=0, le=1000)]  # CIDEr-D x 100 is at most 1000


def _fraction(percent: float) -> float:
    return round(percent / 100, 6)


def _retrieval_scores(scores: dict[Figure, float]) -> dict[Figure, float]:
    return {name: _fraction(value) if name.startswith("R@") else value for name, value in scores.items()}


Score = Annotated[Percent, AfterValidator(_fraction)]
"""A percentage in the file, converted to a fraction."""
RetrievalScores = Annotated[dict[Figure, Percent], Field(min_length=1), AfterValidator(_retrieval_scores)]
"""R@k are percentages in the file, converted to fractions; MdR and MnR are ranks."""


class PaperFeatures(Strict):
    """Image features as a paper describes them; null: not stated."""

    network: str | None = None
    stride: int | None = None  # side of a cell in pixels
    size: int | None = None  # side of an image in pixels
    resize: str | None = None


class PaperConditions(Strict):
    """Conditions that a paper states for its own runs; null: not stated.

    `settings_of` is not a condition of the paper. It names the family of models whose settings are compared
    (`dataset.<name>.models`). If it is null, the dataset's settings are compared.
    """

    settings_of: Literal["clip", "idc_pcl", "medic"] | None = None  # a family of models
    features: PaperFeatures = PaperFeatures()
    weights: str | None = None  # weights of the network that computes the features
    iterations: Count | None = None
    batch: Count | None = None
    learning_rate: Positive | None = None
    protocol: str | None = None  # choice of reference captions, if a dataset has several
    tokeniser: Literal["ptb", "none"] | None = None  # tokenizer of the scores, if unusual
    test_pairs: dict[Subset, Count] = Field(default_factory=dict)


@dataclass(frozen=True)
class PaperRow:
    """A row of a published table."""

    method: str
    source: str  # the paper that prints it
    subset: Subset
    values: dict[str, float | None]  # metric -> fraction; None: not reported
    dataset: str
    model: str | None  # our name of the method
    conditions: PaperConditions | None  # None: not stated
    note: str | None
    ablation: bool = False  # shown in its study's table, not in the report


def rows(dataset: str, folder: Path = FOLDER) -> list[PaperRow]:
    """Return the published rows of a dataset; [] without a file. Raises InputError for an invalid file."""
    if not folder.is_dir():
        raise InputError(f"{folder} is missing; run from the repository's root, or `git checkout {folder}`")
    file = _read(folder / f"{dataset}.yaml")
    return [
        PaperRow(
            row.method,
            file.sources[row.source],
            subset,
            row.scores,
            dataset,
            row.model,
            None if row.conditions is None else file.conditions[row.conditions],
            row.note,
            row.ablation,
        )
        for subset, subset_rows in file.rows.items()
        for row in subset_rows
    ]


def differing_conditions(row: PaperRow, params: Params, test_pairs: int | None = None) -> list[str]:
    """Return phrases for the conditions in which our runs differ from a published row.

    Example: "iterations: 10000, ours 1800". A last phrase lists what the source does not state. `test_pairs`:
        our number in `row.subset`; None: not compared.
    """
    conditions = row.conditions or PaperConditions()
    settings = conditions.model_dump(exclude={"settings_of", "features", "test_pairs"})
    stated = (
        conditions.features.model_dump() | settings | {"test pairs": conditions.test_pairs.get(row.subset)}
    )
    stated["learning rate"] = stated.pop("learning_rate")
    our_conditions = _our_conditions(row.dataset, conditions.settings_of, params)
    our_conditions |= {} if test_pairs is None else {"test pairs": test_pairs}
    if our_conditions["protocol"] is None and stated["protocol"] is None:
        our_conditions.pop("protocol")  # the dataset has only one
    if stated["tokeniser"] is None:
        our_conditions.pop("tokeniser")  # papers name it only if it is unusual
    differing = [
        f"{name}: {stated[name]}, ours {'not stated' if value is None else value}"
        for name, value in our_conditions.items()
        if stated[name] is not None and stated[name] != value
    ]
    unstated = [name for name in our_conditions if stated[name] is None]
    return [*differing, f"not stated: {', '.join(unstated)}"] if unstated else differing


def _our_conditions(dataset: str, settings_of: str | None, params: Params) -> dict[str, Any]:
    dataset_settings = params.of(dataset)
    train = dataset_settings.train.model_dump() | params.train.decides
    images = _grid(params, dataset_settings)
    if settings_of in dataset_settings.models:
        # imported late: the models import torch
        from models import MODELS
        from pipeline.config.resolving import layers

        model = next(name for name, entry in MODELS.items() if entry.family == settings_of)
        # the overrides of a single model are not those of the family
        found = merged(*(layer.values for layer in layers(params, dataset, model)[:-1]))
        train = found["train"]
        if settings_of == "clip" and found["settings"]["switches"].get("patches") != "features":
            images = _pixels(params, dataset_settings, found.get("start"))
    return images | {
        "iterations": train["iterations"],
        "batch": train["batch"],
        "learning rate": train["learning_rate"],
        "tokeniser": params.score.tokeniser,
        "protocol": getattr(dataset_settings.prepare, "protocol", None),  # only some datasets have protocols
    }


def _grid(params: Params, dataset: Dataset) -> dict[str, Any]:
    features = spec(params.features, dataset)
    network = NETWORKS.get(features.backbone, features.backbone)
    fields = ("stride", "size", "resize", "weights")
    return {"network": network, **{name: getattr(features, name) for name in fields}}


def _pixels(params: Params, dataset: Dataset, start: str | None) -> dict[str, Any]:
    pixels = pixel_spec(params.features, dataset)
    size = pixels.height if pixels.height == pixels.width else f"{pixels.height} x {pixels.width}"
    weights = "random" if start is None else "clip"
    return {"network": PIXELS_NETWORK, "size": size, "resize": pixels.resize, "weights": weights}


def retrieval(dataset: str, folder: Path = FOLDER) -> list["PublishedRetrieval"]:
    return list(_read(folder / f"{dataset}.yaml").retrieval)


class _Method(Strict):
    method: str
    source: Name
    model: Name | None = None
    ablation: bool = False
    conditions: Name | None = None


class PublishedRetrieval(_Method):
    """A row of a published retrieval table."""

    text_to_pair: RetrievalScores
    pair_to_text: RetrievalScores


class _Row(_Method):
    note: str | None = None
    bleu_4: Score | None = Field(alias="BLEU-4", default=None)
    meteor: Score | None = Field(alias="METEOR", default=None)
    rouge_l: Score | None = Field(alias="ROUGE-L", default=None)
    cider_d: Score | None = Field(alias="CIDEr-D", default=None)
    spice: Score | None = Field(alias="SPICE", default=None)

    @property
    def scores(self) -> dict[str, float | None]:
        fields = self.model_dump(by_alias=True)
        return {metric: fields[metric] for metric in PRINTED}

    @model_validator(mode="after")
    def _check_scores(self) -> "_Row":
        if all(value is None for value in self.scores.values()):
            raise ValueError("reports no score; give one, or remove the row")
        return self


class _File(Strict):
    sources: dict[Name, str]
    conditions: dict[Name, PaperConditions]
    rows: dict[Subset, list[_Row]]
    retrieval: tuple[PublishedRetrieval, ...] = Field(strict=False, default=())

    @model_validator(mode="after")
    def _check_names(self) -> "_File":
        parts: dict[str, Sequence[_Method]] = {
            f"rows.{subset}": method_rows for subset, method_rows in self.rows.items()
        }
        for part, method_rows in (parts | {"retrieval": self.retrieval}).items():
            for row in method_rows:
                if row.source not in self.sources:
                    raise ValueError(f"{part}: {row.method} names the unknown source {row.source}")
                if row.conditions not in (None, *self.conditions):
                    raise ValueError(f"{part}: {row.method} names the unknown conditions {row.conditions}")
            methods = [(row.method, row.source) for row in method_rows]
            if duplicates := [method for method in methods if methods.count(method) > 1]:
                raise ValueError(f"{part}: {duplicates[0][0]} of {duplicates[0][1]} appears twice")
        return self


def _read(path: Path) -> _File:
    if not path.exists():
        return _File(sources={}, conditions={}, rows={})
    return checked(_File, read_yaml(path, "restore it with git"), str(path), "correct it")
