"""Typed settings of one dataset in params.yaml, and the types of their numbers and names."""

from collections import Counter
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

# numbers that decide how much memory, how many processes and how many iterations are used have upper limits
WIDEST, MOST_BLOCKS = 8192, 64
BLOCKS = (
    "layers",
    "decoder_layers",
    "intra",
    "inter",
    "text_layers",
    "caption_layers",
    "single",
    "pair",
    "cross",
)
LONGEST = 1024  # tokens of a caption
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
Batch = Annotated[int, Field(ge=1, le=100_000)]
References = Annotated[int, Field(ge=1, le=1000)]
Processes = Annotated[int, Field(ge=1, le=10_000)]
Width = Annotated[int, Field(ge=1, le=WIDEST)]
Blocks = Annotated[int, Field(ge=1, le=MOST_BLOCKS)]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]+$", max_length=100)]  # is in file names, too
Precision = Literal["auto", "bfloat16", "float32"]
Schedule = Literal[
    "constant", "step", "step_early", "cosine", "warmup_cosine", "warmup_linear", "noam", "halves", "tenths"
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
Stride = Literal[16, 32]  # side of a feature cell in pixels
Weight = Annotated[float, Field(ge=0)]
Factor = Annotated[float, Field(gt=0, le=10)]
Amount = Annotated[float, Field(ge=0, le=100)]
Quality = Annotated[int, Field(ge=1, le=100)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]


def _distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if twice := [value for value, count in Counter(values).items() if count > 1]:
        raise ValueError(f"{twice[0]!r} is listed more than once; remove the repetition")
    return values


def _few(sizes: dict[str, int]) -> dict[str, int]:
    for name in BLOCKS:
        if sizes.get(name, 0) > MOST_BLOCKS:
            raise ValueError(
                f"{name} is {sizes[name]}, but a model has at most {MOST_BLOCKS} blocks; lower it"
            )
    return sizes


Distinct, Few = AfterValidator(_distinct), AfterValidator(_few)


class Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Variation(Strict):
    """Ranges, (minimum, maximum), of the effects that are applied to single images (tabletop/effects.py)."""

    exposure: tuple[Factor, Factor] = Field(strict=False)
    white_balance: tuple[Factor, Factor] = Field(strict=False)
    gamma: tuple[Factor, Factor] = Field(strict=False)
    blur: tuple[Amount, Amount] = Field(strict=False)
    noise: tuple[Amount, Amount] = Field(strict=False)
    jpeg: tuple[Quality, Quality] = Field(strict=False)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if wrong := [name for name, (least, most) in self if least > most]:
            raise ValueError(f"{wrong[0]}: the minimum exceeds the maximum; exchange them")
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
    """Settings of a training phase of a model that has an entry in `own`.

    There are more settings than in DatasetTrain, which serves the other models.
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
    # mirror each scene with probability 1/2, and exchange left and right in its captions
    mirror: bool = False
    shift: Annotated[int, Field(ge=0, le=1024)] = 0  # each scene's images are shifted by at most these pixels
    half_weights: bool = False  # CLIP's weights and activations in 16 bits, as in the released program
    warm_up: Count | None = None  # iterations; for the schedule noam
    milestones: tuple[Count, ...] = Field((), strict=False)  # iterations; for the schedules halves and tenths
    select_after: Annotated[int, Field(ge=0)] = 0  # only snapshots of later iterations are chosen

    @model_validator(mode="after")
    def _complete(self) -> "PhaseSettings":
        if self.schedule == "noam" and self.warm_up is None:
            raise ValueError("the schedule noam needs warm_up; add it")
        if self.schedule in ("halves", "tenths") and not self.milestones:
            raise ValueError(f"the schedule {self.schedule} needs milestones; add them")
        if self.select_after >= self.iterations:
            raise ValueError("select_after is not below iterations: no snapshot could be chosen; lower it")
        if self.select == "last" and self.patience is not None:
            raise ValueError(
                "patience needs a best score, which select: last does not have; set patience to null"
            )
        if self.select == "last" and self.keep is not None:
            raise ValueError(
                "keep decides between equal scores, which select: last does not use; set keep to null"
            )
        return self


class Pretrain(PhaseSettings):
    """Settings of a pre-training on several tasks. Each iteration trains a single task."""

    # relative frequency of each task; class_pairs needs NABirds
    tasks: dict[Literal["mlm", "mvcl", "fda", "class_pairs"], Positive]
    fda_pairs: Batch  # pairs in a batch of the task fda, each with seven captions

    @model_validator(mode="after")
    def _all_tasks(self) -> "Pretrain":
        if not {"mlm", "mvcl", "fda"} <= self.tasks.keys():
            raise ValueError(
                "tasks must have weights of mlm, mvcl and fda; the switch `tasks` leaves tasks out"
            )
        if self.keep is not None:
            raise ValueError("keep must be null: pre-training always keeps its last weights")
        if self.processes > 1:
            raise ValueError("processes must be 1: the negatives of a batch must be in one process")
        return self


class ImagePretrain(Pretrain):
    """Settings of the pre-training on CUB's single images, a phase before the phase `pretrain`."""

    max_tokens: Tokens


class OwnSettings(Strict):
    """Sizes and phases on a dataset, for models whose sizes are not those of SCORER and DIRL."""

    sizes: Annotated[dict[str, Annotated[int, Field(ge=0, le=WIDEST)]], Few]  # checked by the model itself
    # file of CLIP's weights that commands.import_clip wrote
    start: Annotated[str, Field(min_length=1)] | None = None
    settings: dict[str, Any] = {}  # for settings that are null in `model`, and switches that `model` lacks
    adapt: PhaseSettings | None = None
    images: ImagePretrain | None = None  # before `pretrain`, if extra_data contains cub
    pretrain: Pretrain | None = None
    train: PhaseSettings


class Sizes(Strict):
    width: Width
    heads: Width
    layers: Blocks
    decoder_layers: Blocks
    word_width: Width

    @model_validator(mode="after")
    def _divisible(self) -> "Sizes":
        if self.width % self.heads:
            raise ValueError(
                f"width {self.width} is not a multiple of heads ({self.heads}); change one of them"
            )
        if self.width % 2:
            raise ValueError(f"width {self.width} is not even; set an even number")
        if self.word_width % 2:
            raise ValueError(f"word_width {self.word_width} is not even; set an even number")
        return self


class Dataset(Strict):
    prepare: Prepare
    features: DatasetFeatures
    text: DatasetText
    loss: dict[str, Weight]
    train: DatasetTrain
    sizes: Sizes
    # for settings that are null in `model`, if the model has no entry in `own`; 0.1 is SCORER's and DIRL's
    settings: dict[str, Any] = {"dropout": 0.1}
    own: dict[Name, OwnSettings] = {}
    model: dict[Name, dict[str, Any]] = {}  # overrides the global `model` for this dataset


PHASES = ("adapt", "images", "pretrain", "train")
DEFAULTS = {
    name: [] if each.default == () else each.default
    for name, each in PhaseSettings.model_fields.items()
    if not each.is_required()
}


def with_defaults(entry: Any) -> Any:
    """Return a dataset's entry; keys that are missing in its phases get their default values.

    Studies can only vary keys that an entry contains.
    """
    if not isinstance(entry, dict) or not isinstance(entry.get("own"), dict):
        return entry
    own = {name: _filled(each) if isinstance(each, dict) else each for name, each in entry["own"].items()}
    return entry | {"own": own}


def _filled(own: dict[Any, Any]) -> dict[Any, Any]:
    return own | {name: DEFAULTS | own[name] for name in PHASES if isinstance(own.get(name), dict)}
