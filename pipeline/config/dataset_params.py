"""What params.yaml says of one dataset, as typed objects; the kinds of numbers and names in it."""

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

# what a number may ask for: it sizes memory, or processes, or a loop
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
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]+$", max_length=100)]  # files have it, too
Precision = Literal["auto", "bfloat16", "float32"]
Schedule = Literal[
    "constant", "step", "step_early", "cosine", "warmup_cosine", "warmup_linear", "noam", "halves", "tenths"
]
Optimiser = Literal["adam", "adamw", "bert_adam"]
Cache = Literal["none", "ram", "device"]
# which of a captioning's validation scores chooses its snapshot; last: none does, the last weights are kept
Select = Literal["truth", "CIDEr-D", "CIDEr-D/change", "ROUGE-L", "last"]
SELECT: Select = "CIDEr-D"  # which any pairs allow
WITH_SCENES = ("clevr_change",)  # readers of pairs that `truth` can judge
Compile = Literal["auto", "off"]
Positive = Annotated[float, Field(gt=0)]
Tokens = Annotated[int, Field(ge=4, le=LONGEST)]  # of a caption, with both marks: IDC-PCL's keep a word then
Side = Annotated[int, Field(ge=8, le=1024)]  # pixels
Stride = Literal[16, 32]  # pixels of a feature's side
Weight = Annotated[float, Field(ge=0)]
Factor = Annotated[float, Field(gt=0, le=10)]
Amount = Annotated[float, Field(ge=0, le=100)]
Quality = Annotated[int, Field(ge=1, le=100)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]


def _distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if twice := [value for value, count in Counter(values).items() if count > 1]:
        raise ValueError(f"{twice[0]!r} stands there more than once; keep one of them")
    return values


def _few(sizes: dict[str, int]) -> dict[str, int]:
    for name in BLOCKS:
        if sizes.get(name, 0) > MOST_BLOCKS:
            raise ValueError(f"{name} is {sizes[name]}, and a model has {MOST_BLOCKS} blocks at most")
    return sizes


Distinct, Few = AfterValidator(_distinct), AfterValidator(_few)


class Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Variation(Strict):
    """Ranges, least and most, of the effects of single images (pipeline/tabletop/effects.py)."""

    exposure: tuple[Factor, Factor] = Field(strict=False)
    white_balance: tuple[Factor, Factor] = Field(strict=False)
    gamma: tuple[Factor, Factor] = Field(strict=False)
    blur: tuple[Amount, Amount] = Field(strict=False)
    noise: tuple[Amount, Amount] = Field(strict=False)
    jpeg: tuple[Quality, Quality] = Field(strict=False)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if wrong := [name for name, (least, most) in self if least > most]:
            raise ValueError(f"{wrong[0]}: the first value exceeds the second")
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
    counted_with: Literal["cub"] | None = None  # whose training captions' words count, too

    @model_validator(mode="after")
    def _counted(self) -> "DatasetText":
        if self.vocabulary is not None and self.counted_with is not None:
            raise ValueError("vocabulary names a file, where nothing is counted; set counted_with to null")
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
    """A phase of a model that has settings of its own: what else the training loop can do."""

    references: References = 1
    exchange: bool = False
    precision: Precision = "float32"
    compile: Compile = "off"
    cache: Cache = "none"
    processes: Processes = 1
    optimiser: Optimiser = "adam"
    beta2: Annotated[float, Field(gt=0, lt=1)] = 0.999
    weight_decay: Weight = 0.0
    clip_norm: Positive | None = None  # of all gradients together
    patience: Count | None = None  # as many validations without a new best end the phase
    # of equal scores' snapshots, and from which patience counts; null: earlier, in the adaptation later
    keep: Literal["earlier", "later"] | None = None
    max_tokens: Tokens | None = None  # of its captions, with both marks; null: the longest training caption's
    mirror: bool = False  # each scene mirrored with probability 1/2, left and right exchanged in its captions
    shift: Annotated[int, Field(ge=0, le=1024)] = 0  # pixels that each scene's images are moved by at most
    half_weights: bool = False  # CLIP's maps and activations in 16 bits, as the released program has them
    warm_up: Count | None = None  # iterations of the schedule noam
    milestones: tuple[Count, ...] = Field((), strict=False)  # of the schedules halves and tenths
    select_after: Annotated[int, Field(ge=0)] = 0  # no snapshot of an iteration up to this one is chosen

    @model_validator(mode="after")
    def _complete(self) -> "PhaseSettings":
        if self.schedule == "noam" and self.warm_up is None:
            raise ValueError("the schedule noam needs warm_up; add it")
        if self.schedule in ("halves", "tenths") and not self.milestones:
            raise ValueError(f"the schedule {self.schedule} needs milestones; add them")
        if self.select_after >= self.iterations:
            raise ValueError("select_after is not below iterations: no snapshot could be chosen; lower it")
        if self.select == "last" and self.patience is not None:
            raise ValueError("patience waits for a new best, and select: last has none; set it to null")
        if self.select == "last" and self.keep is not None:
            raise ValueError("keep says which of equal scores, and select: last asks none; set it to null")
        return self


class Pretrain(PhaseSettings):
    """A pre-training of several tasks, of which an iteration has one."""

    # how often each is drawn, by weight; class_pairs: only with NABirds
    tasks: dict[Literal["mlm", "mvcl", "fda", "class_pairs"], Positive]
    fda_pairs: Batch  # pairs of FDA's batches: each comes with seven captions

    @model_validator(mode="after")
    def _all_tasks(self) -> "Pretrain":
        if not {"mlm", "mvcl", "fda"} <= self.tasks.keys():
            raise ValueError("tasks must weigh mlm, mvcl and fda; the switch `tasks` takes them out")
        if self.keep is not None:
            raise ValueError("keep must be null: a pre-training's last weights are used")
        if self.processes > 1:
            raise ValueError("processes must be 1: the pre-training's negatives are those of one process")
        return self


class ImagePretrain(Pretrain):
    """The one before, on CUB's single images."""

    max_tokens: Tokens


class OwnSettings(Strict):
    """A dataset's sizes and phases for models whose sizes are not SCORER's and DIRL's."""

    sizes: Annotated[dict[str, Annotated[int, Field(ge=0, le=WIDEST)]], Few]  # checked by the model itself
    # a file of CLIP's weights, of commands.import_clip
    start: Annotated[str, Field(min_length=1)] | None = None
    settings: dict[str, Any] = {}  # of the model, where `model` has null, or lacks a switch
    adapt: PhaseSettings | None = None
    images: ImagePretrain | None = None  # before `pretrain`, where extra_data has cub
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
            raise ValueError(f"width {self.width} is not a multiple of heads ({self.heads}); change either")
        if self.width % 2:
            raise ValueError(f"width {self.width} is not even")
        if self.word_width % 2:
            raise ValueError(f"word_width {self.word_width} is not even")
        return self


class Dataset(Strict):
    prepare: Prepare
    features: DatasetFeatures
    text: DatasetText
    loss: dict[str, Weight]
    train: DatasetTrain
    sizes: Sizes
    # of the models without sizes of their own, where `model` has null; 0.1 is SCORER's and DIRL's
    settings: dict[str, Any] = {"dropout": 0.1}
    own: dict[Name, OwnSettings] = {}
    model: dict[Name, dict[str, Any]] = {}  # of single models, over what `model` says of them everywhere


PHASES = ("adapt", "images", "pretrain", "train")
DEFAULTS = {
    name: [] if each.default == () else each.default
    for name, each in PhaseSettings.model_fields.items()
    if not each.is_required()
}


def with_defaults(entry: Any) -> Any:
    """A dataset's entry as it was read, with all keys in its phases: studies vary those that stand there."""
    if not isinstance(entry, dict) or not isinstance(entry.get("own"), dict):
        return entry
    own = {name: _filled(each) if isinstance(each, dict) else each for name, each in entry["own"].items()}
    return entry | {"own": own}


def _filled(own: dict[Any, Any]) -> dict[Any, Any]:
    return own | {name: DEFAULTS | own[name] for name in PHASES if isinstance(own.get(name), dict)}
