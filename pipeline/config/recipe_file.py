"""Recipe: all settings that affect the training of one model on one dataset, and no others.

Training depends on recipes, not on params.yaml. So `-S loss.lambda_cbr=0.004` retrains only the models that
have this loss term, and adding a file for a new model retrains nothing (resolving.py).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, FiniteFloat

import models
from models.common.entry import EarlierPhase, Entry
from models.common.grid_embedding import DataSizes, Sizes
from models.common.shapes_only import shapes_only
from pipeline.io import records
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_yaml
from pipeline.io.outputs import write_text, yaml_of

MAY_BE_NONE = ("intra", "inter")  # sizes that may be 0: CLIP4IDC's numbers of blocks (its Table 7)
# sizes determine memory and time, so they are limited: numbers of BLOCKS to 64, widths to 8192
BLOCKS = {"layers", "decoder_layers", "intra", "inter", "text_layers", "caption_layers"}
BLOCKS |= {"single", "pair", "cross"}
MOST_BLOCKS, WIDEST = 64, 8192


@dataclass(frozen=True)
class Recipe:
    """Settings of the training of one model on one dataset."""

    dataset: str
    model: str
    settings: dict[str, Any]  # settings that the model's class takes
    sizes: dict[str, int]  # fields of the model's class of sizes
    # weight of each loss term of the model, except for the caption's
    loss: dict[str, Annotated[FiniteFloat, Field(ge=0)]]
    train: dict[str, Any]  # params.DatasetTrain: iterations, batch, ...
    features: dict[str, Any]  # specification of the feature store
    code: dict[str, str]  # model source file -> sha256
    # PhaseSettings of the last pre-training phase, if any; its key `images`: settings of the phase on CUB
    adapt: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the sizes. Raises ValueError for an invalid size."""
        names = size_names(self.entry.sizes)
        if set(self.sizes) != set(names):
            raise ValueError(f"sizes has {', '.join(self.sizes)}, not {', '.join(names)}")
        for name, value in self.sizes.items():
            least, most = int(name not in MAY_BE_NONE), MOST_BLOCKS if name in BLOCKS else WIDEST
            if value < least:
                raise ValueError(f"{name} is {value}, and has {least} at least")
            if value > most:
                raise ValueError(f"{name} is {value}, and has {most} at most")
        if self.entry.sizes is not Sizes:
            return  # other classes check the sizes when the image shape is known
        width, heads = self.sizes["width"], self.sizes["heads"]
        if width % heads:
            raise ValueError(f"width {width} is not a multiple of heads ({heads})")
        if odd_sizes := [name for name in ("width", "word_width") if self.sizes[name] % 2]:
            raise ValueError(f"{odd_sizes[0]} {self.sizes[odd_sizes[0]]} is not even")

    @property
    def entry(self) -> Entry:
        return models.entry_of(self.model)

    @property
    def before(self) -> tuple[EarlierPhase, ...]:
        """Phases of pre-training, in their order."""
        last = self.entry.phases[-1:]
        return tuple(
            phase
            for phase in self.entry.phases
            if self.adapt and (phase in last or phase.settings in self.adapt)
        )

    def settings_of(self, phase: EarlierPhase) -> dict[str, Any]:
        """Return a pre-training phase's settings: the key of its name in `adapt`, or all of it."""
        settings: dict[str, Any] = self.adapt.get(phase.settings, self.adapt)
        return settings

    @property
    def input(self) -> str:
        return str(self.features.get("input", models.GRID))

    @property
    def pretrained_on(self) -> list[str]:
        """Datasets that pre-training uses in addition to the recipe's dataset."""
        uses = {"cub": "images" in self.adapt, "nabirds": "class_pairs" in self.adapt.get("tasks", {})}
        return [name for name, used in uses.items() if used]

    @property
    def asks_negatives(self) -> bool:
        return "fda" in self.adapt.get("tasks", {})

    def first_phase(self) -> "Recipe":
        """Return a copy of the recipe for pre-training, without the settings that affect only captioning."""
        switches = self.settings.get("switches", {})
        remaining = {key: switches[key] for key in switches if key not in self.entry.captioning}
        return replace(self, settings=self.settings | {"switches": remaining}, loss={}, train={})

    def sizes_for(self, shape: tuple[int, int, int], vocabulary: int, longest: int) -> DataSizes:
        """Return the recipe's sizes with those of the data: (C, H, W), words, tokens of a caption."""
        try:
            return self.entry.sizes(shape[0], shape[1:], vocabulary, longest, **self.sizes)
        except ValueError as error:
            raise InputError(f"the sizes of {self.model} on {self.dataset}: {error}") from None


def size_names(sizes: type[DataSizes]) -> list[str]:
    """Return the names of a model's sizes, without those that the data determine."""
    return [field.name for field in fields(sizes)][len(fields(DataSizes)) :]


def switches_of(model: str, dataset: str, settings: Mapping[str, Any]) -> Any:
    """Return the switches of a model's variant, with the changes in `settings`."""
    try:
        return models.switches_of(model, settings)
    except ValueError as error:
        raise InputError(f"{set_in(model, dataset)}: {error}") from None


def build(
    recipe: Recipe, sizes: DataSizes, source: str | Path | None = None, phase: str | None = None
) -> Any:
    """Build the model of a pre-training phase or, without `phase`, for captioning."""
    try:
        return models.build(recipe.model, sizes, recipe.settings, phase)
    except (TypeError, ValueError) as error:
        raise InputError(f"{source or set_in(recipe.model, recipe.dataset)}: {error}") from None


def bare(recipe: Recipe, shape: tuple[int, int, int], phase: str | None = None) -> Any:
    """Build the model of a phase without values (device "meta") for inputs of a shape, (C, H, W)."""
    with shapes_only():
        return build(recipe, recipe.sizes_for(shape, 8, 8), phase=phase)


def set_in(model: str, dataset: str) -> str:
    return f"params.yaml or datasets.yaml: {model} on {dataset}"


def save(path: str | Path, recipe: Recipe) -> None:
    write_text(path, yaml_of(asdict(recipe)))


def same(recipe: Recipe, other: Recipe) -> bool:
    return yaml_of(asdict(recipe)) == yaml_of(asdict(other))


def load(path: str | Path) -> Recipe:
    """Read a recipe that `save` wrote. Raises InputError naming the first key with a wrong value."""
    remedy = "run `dvc repro recipe` to make it"
    return records.plain(Path(path), Recipe, read_yaml(path, remedy), remedy)
