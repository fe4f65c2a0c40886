"""Recipe: all settings that affect the training of one model on one dataset, and no others.

Training depends on recipes, not on params.yaml. In a recipe, nulls are replaced by the dataset's published
values, and loss weights that the model does not use are left out. The model's source files are listed with
their hashes (resolving.py). So `-S loss.lambda_cbr=0.004` retrains only the models that have this loss term,
and adding a file for a new model retrains nothing.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import models
import models.common.entry
from models.common.grid_embedding import DataSizes, Sizes
from pipeline.config.recipe_types import RecipeFile
from pipeline.io import records
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_yaml
from pipeline.io.outputs import write_text, yaml_of

MAY_BE_NONE = ("intra", "inter")  # sizes that may be 0: CLIP4IDC's numbers of blocks (its Table 7)


@dataclass(frozen=True)
class Recipe:
    """Settings of the training of one model on one dataset."""

    dataset: str
    model: str
    settings: dict[str, Any]  # settings that the model's class takes
    sizes: dict[str, int]  # fields of the model's class of sizes
    loss: dict[str, float]  # weight of each loss term of the model, except for the caption's
    train: dict[str, Any]  # params.DatasetTrain: iterations, batch, ...
    features: dict[str, Any]  # specification of the feature store
    code: dict[str, str]  # model source file -> sha256
    # PhaseSettings of the last pre-training phase, if any; its key `images`: settings of the phase on CUB
    adapt: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the sizes, which may have been edited by hand. Raises ValueError for an invalid size."""
        known = [each.name for each in fields(self.entry.sizes)][len(fields(DataSizes)) :]
        if set(self.sizes) != set(known):
            raise ValueError(f"sizes has {', '.join(self.sizes)}, not {', '.join(known)}")
        for name, value in self.sizes.items():
            least = 0 if name in MAY_BE_NONE else 1
            if type(value) is not int or value < least:
                raise ValueError(f"{name} is {value!r}, not an integer of at least {least}")
        if self.entry.sizes is not Sizes:
            return  # other classes check the sizes when the image shape is known
        width, heads = self.sizes["width"], self.sizes["heads"]
        if width % heads:
            raise ValueError(f"width {width} is not a multiple of heads ({heads})")
        if odd := [name for name in ("width", "word_width") if self.sizes[name] % 2]:
            raise ValueError(f"{odd[0]} {self.sizes[odd[0]]} is not even")

    @property
    def entry(self) -> models.common.entry.Entry:
        """Entry of the model in models/. Raises ValueError if no model has that name."""
        return models.entry_of(self.model)

    @property
    def before(self) -> tuple[models.common.entry.EarlierPhase, ...]:
        """Phases of pre-training, in their order."""
        last = self.entry.phases[-1:]
        return tuple(
            phase
            for phase in self.entry.phases
            if self.adapt and (phase in last or phase.settings in self.adapt)
        )

    def settings_of(self, phase: models.common.entry.EarlierPhase) -> dict[str, Any]:
        """Return the settings of a pre-training phase.

        The settings of the last phase are `adapt` itself. An earlier phase has its own entry in `adapt`.
        """
        found: dict[str, Any] = self.adapt.get(phase.settings, self.adapt)
        return found

    @property
    def input(self) -> str:
        """Kind of the model's input: GRID or PIXELS. If an old recipe lacks this value, it is GRID."""
        return str(self.features.get("input", models.GRID))

    @property
    def pretrained_on(self) -> list[str]:
        """Datasets that pre-training uses in addition to the recipe's dataset."""
        asked = {"cub": "images" in self.adapt, "nabirds": "class_pairs" in self.adapt.get("tasks", {})}
        return [name for name, read in asked.items() if read]

    @property
    def asks_negatives(self) -> bool:
        """True if pre-training has the task fda: to distinguish captions from negatives."""
        return "fda" in self.adapt.get("tasks", {})

    def first_phase(self) -> "Recipe":
        """Return a copy of the recipe for pre-training, without the settings that affect only captioning.

        `loss` and `train` are empty, because the settings of pre-training are in `adapt`.
        """
        switches = self.settings.get("switches", {})
        kept = {key: switches[key] for key in switches if key not in self.entry.captioning}
        return replace(self, settings=self.settings | {"switches": kept}, loss={}, train={})

    def sizes_for(self, shape: tuple[int, int, int], vocabulary: int, longest: int) -> DataSizes:
        """Return the model's sizes for inputs (features or pixels) of shape (C, H, W).

        `vocabulary` is the number of words, and `longest` the number of tokens of the longest caption. Raises
        InputError if sizes do not fit each other.
        """
        try:
            return self.entry.sizes(shape[0], shape[1:], vocabulary, longest, **self.sizes)
        except ValueError as error:
            raise InputError(f"the sizes of {self.model} on {self.dataset}: {error}") from None


def switches_of(model: str, dataset: str, settings: Mapping[str, Any]) -> Any:
    """Return the switches that a model has with these settings.

    Raises InputError if the settings contain a switch that the model does not use.
    """
    try:
        return models.switches_of(model, settings)
    except ValueError as error:
        raise InputError(f"{set_in(model, dataset)}: {error}") from None


def build(
    recipe: Recipe, sizes: DataSizes, source: str | Path | None = None, phase: str | None = None
) -> Any:
    """Build the recipe's captioning model (a Captioner), or the model of a pre-training phase (a Trainable).

    Raises InputError for an unknown model or setting. The message names the file `source`; if it is None,
    params.yaml and datasets.yaml.
    """
    try:
        return models.build(recipe.model, sizes, recipe.settings, phase)
    except (TypeError, ValueError) as error:
        raise InputError(f"{source or set_in(recipe.model, recipe.dataset)}: {error}") from None


def set_in(model: str, dataset: str) -> str:
    """Return a text for messages that names the place of a model's settings."""
    return f"params.yaml or datasets.yaml: {model} on {dataset}"


def save(path: str | Path, recipe: Recipe) -> None:
    """Write the recipe as YAML."""
    write_text(path, yaml_of(asdict(recipe)))


def same(one: Recipe, other: Recipe) -> bool:
    """Return True if two recipes have the same YAML; lists and tuples count as equal."""
    return yaml_of(asdict(one)) == yaml_of(asdict(other))


def load(path: str | Path) -> Recipe:
    """Read a recipe that `save` wrote. Raises InputError naming the first key with a wrong value."""
    remedy = "run `dvc repro recipe` to make it"
    record = read_yaml(path, remedy)
    records.plain(Path(path), RecipeFile, record, remedy)
    try:
        return Recipe(**record)
    except ValueError as error:
        raise InputError(f"{path} is not a recipe ({error}); {remedy}") from None
