"""Settings in params.yaml of a dataset and of pre-training, as typed objects.

The types of the numbers and names in the settings are defined here, too.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from pipeline.io.errors import InputError

# numbers that decide how much memory, how many processes and how many iterations are used have upper limits
LONGEST = 1024  # tokens of a caption
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
Batch = Annotated[int, Field(ge=1, le=100_000)]
References = Annotated[int, Field(ge=1, le=1000)]
Processes = Annotated[int, Field(ge=1, le=10_000)]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]+$", max_length=100)]  # is in file names, too
Precision = Literal["auto", "bfloat16", "float32"]
Schedule = Literal[
    "constant",
    "step",
    "step_early",
    "cosine",
    "warmup_cosine",
    "warmup_linear",
    "noam",
    "halves",
    "tenths",
    "poly",
]
Optimiser = Literal["adam", "adamw", "bert_adam"]
Cache = Literal["none", "ram", "device"]
# validation score that chooses the snapshot of the captioning phase; last: the last weights are kept
Select = Literal["truth", "CIDEr-D", "CIDEr-D/change", "ROUGE-L", "last"]
SELECT: Select = "CIDEr-D"  # defined for all datasets
WITH_SCENES = ("clevr_change",)  # readers whose pairs have scene descriptions, which `truth` needs
Compile = Literal["auto", "off"]
Positive = Annotated[float, Field(gt=0)]
# tokens of a caption with <START> and <END>; with 4 tokens, IDC-PCL still keeps a word
Tokens = Annotated[int, Field(ge=4, le=LONGEST)]
Side = Annotated[int, Field(ge=8, le=1024)]  # pixels
Size = Annotated[int, Field(ge=32, le=1024, multiple_of=32)]  # side of a backbone's input image in pixels
Resize = Literal["pil_bicubic", "opencv_bicubic"]
Stride = Literal[16, 32]  # side of a feature cell in pixels
Weight = Annotated[float, Field(ge=0)]
Factor = Annotated[float, Field(gt=0, le=10)]
Amount = Annotated[float, Field(ge=0, le=100)]
Quality = Annotated[int, Field(ge=1, le=100)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]


def _distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if repeated := [value for value, count in Counter(values).items() if count > 1]:
        raise ValueError(f"{repeated[0]!r} is listed more than once; remove the repetition")
    return values


Distinct = AfterValidator(_distinct)


def _refuse(faults: Mapping[str, bool]) -> None:
    """Raise ValueError with the first message (message -> applies) that applies."""
    for message, applies in faults.items():
        if applies:
            raise ValueError(message)


class Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Variation(Strict):
    """Range, (minimum, maximum), of each effect on a single image (tabletop/effects.py)."""

    exposure: tuple[Factor, Factor] = Field(strict=False)
    white_balance: tuple[Factor, Factor] = Field(strict=False)
    gamma: tuple[Factor, Factor] = Field(strict=False)
    blur: tuple[Amount, Amount] = Field(strict=False)
    noise: tuple[Amount, Amount] = Field(strict=False)
    jpeg: tuple[Quality, Quality] = Field(strict=False)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if reversed_ranges := [name for name, (least, most) in self if least > most]:
            raise ValueError(f"{reversed_ranges[0]}: the minimum exceeds the maximum; exchange them")
        return self


class Prepare(Strict):
    reader: str
    root: str
    protocol: str | None


class DatasetFeatures(Strict):
    backbone: str
    weights: str
    stride: Stride
    finer: bool = False
    standardise: bool = False
    npy: Annotated[str, Field(min_length=1)] | None
    precision: Precision = "auto"
    pixels: tuple[Side, Side] = Field((224, 224), strict=False)  # height, width


class DatasetText(Strict):
    min_count: Count
    max_tokens: Annotated[int, Field(ge=3, le=LONGEST)] | None
    vocabulary: str | None
    counted_with: Literal["cub"] | None = None  # also count the words of CUB's training captions

    @model_validator(mode="after")
    def _counted(self) -> "DatasetText":
        if self.vocabulary is not None and self.counted_with is not None:
            raise ValueError("vocabulary names a file, so no words are counted; set counted_with to null")
        return self


class DatasetTrain(Strict):
    iterations: Count
    batch: Batch
    references: References
    learning_rate: Positive
    schedule: Schedule
    validate_every: Count
    exchange: bool
    precision: Precision
    compile: Compile
    cache: Cache
    processes: Processes
    select: Select = SELECT


class PhaseSettings(DatasetTrain):
    """Settings of a training phase of a model that belongs to a family (Entry.family).

    The phases are adapt, images, pretrain and train. Other models have the fewer settings of DatasetTrain.
    """

    references: References = 1
    exchange: bool = False
    precision: Precision = "float32"
    compile: Compile = "off"
    cache: Cache = "none"
    processes: Processes = 1
    optimiser: Optimiser = "adam"
    beta2: Annotated[float, Field(gt=0, lt=1)] = 0.999
    weight_decay: Weight = 0.0
    clip_norm: Positive | None = None  # greatest norm of the gradient of all parameters
    patience: Count | None = None  # the phase ends after this many validations without a new best score
    # which of two snapshots with equal scores is kept; null: the earlier, but in the phase `adapt` the later
    keep: Literal["earlier", "later"] | None = None
    # limit of a caption's tokens with <START> and <END>; null: the tokens of the longest training caption
    max_tokens: Tokens | None = None
    # mirror each scene with probability 1/2, and exchange the sides left and right in its captions; a caption
    # with the words in an unclear sense is refused (pipeline/training/mirrored_captions.py)
    mirror: bool = False
    shift: Annotated[int, Field(ge=0, le=1024)] = 0  # each scene's images are shifted by at most these pixels
    half_weights: bool = False  # CLIP's weights and activations in 16 bits, as in the released program
    warm_up: Count | None = None  # iterations; for the schedule noam
    milestones: tuple[Count, ...] = Field((), strict=False)  # iterations; for the schedules halves and tenths
    select_after: Annotated[int, Field(ge=0)] = 0  # only snapshots of later iterations are chosen

    @model_validator(mode="after")
    def _complete(self) -> "PhaseSettings":
        faults = {
            "the schedule noam needs warm_up; add it": self.schedule == "noam" and self.warm_up is None,
            f"the schedule {self.schedule} needs milestones; add them": (
                self.schedule in ("halves", "tenths") and not self.milestones
            ),
            "select_after is not below iterations; lower it": self.select_after >= self.iterations,
            "select: last uses no scores; set patience and keep to null": (
                self.select == "last" and (self.patience is not None or self.keep is not None)
            ),
        }
        _refuse(faults)
        return self


class Pretrain(PhaseSettings):
    """Settings of a pre-training on several tasks. Each iteration trains a single task."""

    # relative frequency of each task; class_pairs needs NABirds
    tasks: dict[Literal["mlm", "mvcl", "fda", "class_pairs"], Positive]
    fda_pairs: Batch  # pairs in a batch of the task fda, each with seven captions

    @model_validator(mode="after")
    def _all_tasks(self) -> "Pretrain":
        missing = not {"mlm", "mvcl", "fda"} <= self.tasks.keys()
        faults = {
            "tasks must have weights of mlm, mvcl and fda; the switch `tasks` leaves tasks out": missing,
            "keep must be null: pre-training always keeps its last weights": self.keep is not None,
            "processes must be 1: the negatives of a batch must be in one process": self.processes > 1,
        }
        _refuse(faults)
        return self


class ImagePretrain(Pretrain):
    """Settings of the pre-training on CUB's single images, a phase before the phase `pretrain`."""

    max_tokens: Tokens


PHASES: dict[str, type[PhaseSettings]] = {
    "adapt": PhaseSettings,
    "images": ImagePretrain,  # before `pretrain`, if extra_data contains cub
    "pretrain": Pretrain,
    "train": PhaseSettings,
}


class ModelLayer(Strict):
    """Layer of settings of a dataset for a model or a family (dataset.<name>.models.<model or family>).

    A key overrides the same key of the dataset, and of the model's own layer (Entry.layer). `adapt`,
    `images`, `pretrain` and `train` are training phases. `start` is the file of CLIP's weights for the
    initialisation. The values are checked when all layers are merged (resolving.py).
    """

    settings: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    loss: dict[str, Weight] = {}
    adapt: dict[str, Any] = {}
    images: dict[str, Any] = {}
    pretrain: dict[str, Any] = {}
    train: dict[str, Any] = {}
    # file of CLIP's weights that commands.import_clip wrote
    start: Annotated[str, Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _known(self) -> Self:
        for phase, settings in PHASES.items():
            for name in getattr(self, phase):
                if name not in settings.model_fields:
                    raise ValueError(
                        f"unknown key {phase}.{name}; there are {', '.join(settings.model_fields)}"
                    )
        return self


class Dataset(Strict):
    prepare: Prepare
    features: DatasetFeatures
    text: DatasetText
    loss: dict[str, Weight]
    train: DatasetTrain
    sizes: dict[str, int]  # a model takes those that its class of sizes has; checked by Recipe
    settings: dict[str, Any] = {"dropout": 0.1}  # 0.1 is SCORER's and DIRL's
    models: dict[Name, ModelLayer] = {}  # by model or family


class Negatives(Strict):
    """Settings of negatives (wrong captions). `grammar`: dataset -> grammar of captions (null: unknown)."""

    seed: Seed = 1
    grammar: dict[Name, Literal["geometric", "birds"] | None] = Field(default_factory=dict)

    def of(self, dataset: str) -> tuple[Literal["geometric", "birds"], int]:
        """Return (grammar, seed) of a dataset's negatives. Raises InputError if the grammar is unknown."""
        if (grammar := self.grammar.get(dataset)) is None:
            raise InputError(
                f"negatives of {dataset} need a grammar; set negatives.grammar.{dataset} in params.yaml to "
                "geometric or birds, or choose models that use no negatives"
            )
        return grammar, self.seed


class Pretraining(Strict):
    """Datasets that only pre-training uses. `seed` is the seed of NABirds' pairs and CUB's negatives."""

    datasets: Annotated[tuple[Literal["cub", "nabirds"], ...], Distinct] = Field(default=(), strict=False)
    root: dict[Literal["cub", "nabirds"], str] = Field(default_factory=dict)
    # used if the setting is null in `features`; the features of these datasets are never standardised
    backbone: str = "resnet101"
    weights: str = "imagenet"
    stride: Stride = 16
    finer: bool = False
    seed: Seed = 1

    @model_validator(mode="after")
    def _placed(self) -> Self:
        if missing := [name for name in self.datasets if name not in self.root]:
            raise ValueError(f"datasets names {missing[0]!r}, but root has no folder for it; add it")
        return self
