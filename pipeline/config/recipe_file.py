"""A recipe: everything that decides how one model is trained on one dataset, and nothing else.

Training depends on recipes, not on params.yaml: nulls are resolved to the dataset's published
values, loss weights of terms that the model does not have are left out, and the source files
that the model is made of stand in it by hash (resolving.py). So `-S loss.lambda_cbr=0.004`
retrains the models that have the term and leaves the others cached, and a new model file
retrains nothing.
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

MAY_BE_NONE = ("intra", "inter")  # CLIP4IDC's split, Table 7


@dataclass(frozen=True)
class Recipe:
    """How to train one model on one dataset."""

    dataset: str
    model: str
    settings: dict[str, Any]  # the model's own
    sizes: dict[str, int]  # of the names of its class of sizes
    loss: dict[str, float]  # weight of each of the model's terms beside the caption's
    train: dict[str, Any]  # params.DatasetTrain: iterations, batch, ...
    features: dict[str, Any]  # what the store must hold
    code: dict[str, str]  # model source file -> sha256
    # params.PhaseSettings of the one before captioning, if any; its `images`: of the one before that, on CUB
    adapt: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises ValueError for sizes that make no model: files of recipes may be edited by hand."""
        known = [each.name for each in fields(self.entry.sizes)][len(fields(DataSizes)) :]
        if set(self.sizes) != set(known):
            raise ValueError(f"its sizes are {', '.join(self.sizes)}, not {', '.join(known)}")
        for name, value in self.sizes.items():
            least = 0 if name in MAY_BE_NONE else 1
            if type(value) is not int or value < least:
                raise ValueError(f"{name} is {value!r}, not a whole number from {least} on")
        if self.entry.sizes is not Sizes:
            return  # they check themselves, as they depend on the images
        width, heads = self.sizes["width"], self.sizes["heads"]
        if width % heads:
            raise ValueError(f"width {width} is not a multiple of heads ({heads})")
        if odd := [name for name in ("width", "word_width") if self.sizes[name] % 2]:
            raise ValueError(f"{odd[0]} {self.sizes[odd[0]]} is not even")

    @property
    def entry(self) -> models.common.entry.Entry:
        """The model's. Raises ValueError where there is no model of that name."""
        return models.entry_of(self.model)

    @property
    def before(self) -> tuple[models.common.entry.EarlierPhase, ...]:
        """Its phases before captioning, in their order."""
        last = self.entry.phases[-1:]
        return tuple(
            phase
            for phase in self.entry.phases
            if self.adapt and (phase in last or phase.settings in self.adapt)
        )

    def settings_of(self, phase: models.common.entry.EarlierPhase) -> dict[str, Any]:
        """The settings of one of these: the last one's are `adapt`, in which those of one before it stand."""
        found: dict[str, Any] = self.adapt.get(phase.settings, self.adapt)
        return found

    @property
    def input(self) -> str:
        """What the model reads; recipes that do not say are from when there was the grid alone."""
        return str(self.features.get("input", models.GRID))

    @property
    def pretrained_on(self) -> list[str]:
        """The datasets that its pre-training reads beside the pairs."""
        asked = {"cub": "images" in self.adapt, "nabirds": "class_pairs" in self.adapt.get("tasks", {})}
        return [name for name, read in asked.items() if read]

    @property
    def asks_negatives(self) -> bool:
        """Whether a phase learns to tell each pair's caption from negatives."""
        return "fda" in self.adapt.get("tasks", {})

    def first_phase(self) -> "Recipe":
        """What decides the phase before captioning, and no more: other captionings leave that one as it is.

        Its loss weights are in `adapt`, its `train` is empty.
        """
        switches = self.settings.get("switches", {})
        kept = {key: switches[key] for key in switches if key not in self.entry.captioning}
        return replace(self, settings=self.settings | {"switches": kept}, loss={}, train={})

    def sizes_for(self, shape: tuple[int, int, int], vocabulary: int, longest: int) -> DataSizes:
        """The model's sizes on features (or pixels) C x H x W and a vocabulary.

        Raises InputError where they make no model.
        """
        try:
            return self.entry.sizes(shape[0], shape[1:], vocabulary, longest, **self.sizes)
        except ValueError as error:
            raise InputError(f"the sizes of {self.model} on {self.dataset}: {error}") from None


def switches_of(model: str, dataset: str, settings: Mapping[str, Any]) -> Any:
    """The switches of a model by its settings. Raises InputError for one that it has not."""
    try:
        return models.switches_of(model, settings)
    except ValueError as error:
        raise InputError(f"{set_in(model, dataset)}: {error}") from None


def build(
    recipe: Recipe, sizes: DataSizes, source: str | Path | None = None, phase: str | None = None
) -> Any:
    """The recipe's model, a Captioner; or the Trainable of one of its phases before captioning.

    Raises InputError, naming `source` or where its settings stand, for a name or setting that no model has.
    """
    try:
        return models.build(recipe.model, sizes, recipe.settings, phase)
    except (TypeError, ValueError) as error:
        raise InputError(f"{source or set_in(recipe.model, recipe.dataset)}: {error}") from None


def set_in(model: str, dataset: str) -> str:
    """Where a model's settings stand: either file may have each."""
    return f"params.yaml or datasets.yaml: {model} on {dataset}"


def save(path: str | Path, recipe: Recipe) -> None:
    """Write the recipe as YAML."""
    write_text(path, yaml_of(asdict(recipe)))


def same(one: Recipe, other: Recipe) -> bool:
    """Whether both are written alike: a file has lists where `resolve` has tuples."""
    return yaml_of(asdict(one)) == yaml_of(asdict(other))


def load(path: str | Path) -> Recipe:
    """Read what `save` wrote. Raises InputError naming the key whose value is none of a recipe."""
    remedy = "run `dvc repro recipe` to make it"
    record = read_yaml(path, remedy)
    records.plain(Path(path), RecipeFile, record, remedy)
    try:
        return Recipe(**record)
    except ValueError as error:
        raise InputError(f"{path} is not a recipe ({error}); {remedy}") from None
