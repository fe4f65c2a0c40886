"""Recipe: all settings that affect the training of one model on one dataset, and no others.

Training depends on recipes, not on params.yaml. So `-S loss.lambda_cbr=0.004` retrains only the models that
have this loss term, and adding a file for a new model retrains nothing (resolving.py).

A training is a list of phases. Each phase starts from the weights of the phase before it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, FiniteFloat

import models
from models.common.entry import Entry, PretrainingPhase
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
TRAIN, REINFORCE = "train", "reinforce"  # phases that learn captions; the phases before them are pre-training


@dataclass(frozen=True)
class Recipe:
    """Settings of the training of one model on one dataset. The last of its phases writes the weights."""

    dataset: str
    model: str
    settings: dict[str, Any]  # settings that the model's class takes
    sizes: dict[str, int]  # fields of the model's class of sizes
    # weight of each loss term of the model, except for the caption's
    loss: dict[str, Annotated[FiniteFloat, Field(ge=0)]]
    # name -> settings (params.PhaseSettings: iterations, batch, ...), in order; a name is that of the
    # settings' section: a phase that the model's Entry declares, TRAIN or REINFORCE
    phases: dict[str, dict[str, Any]]
    features: dict[str, Any]  # specification of the feature store
    code: dict[str, str]  # model source file -> sha256

    def __post_init__(self) -> None:
        """Check phases and sizes. Raises ValueError for an unknown phase or an invalid size."""
        known = [*(phase.name for phase in self.entry.pretraining), TRAIN, REINFORCE]
        if not self.phases or [name for name in known if name in self.phases] != [*self.phases]:
            raise ValueError(f"phases has {', '.join(self.phases)}; there are, in order, {', '.join(known)}")
        if REINFORCE in self.phases and TRAIN not in self.phases:
            raise ValueError(f"phases has {REINFORCE}, which needs {TRAIN} before it")
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
    def last(self) -> str:
        """Name of the phase that writes the weights."""
        return next(reversed(self.phases))

    @property
    def declared(self) -> PretrainingPhase | None:
        """Declaration of the last phase, if it is pre-training."""
        return self.entry.phase(self.last)

    def until(self, name: str) -> "Recipe":
        """Return the recipe of the weights that a phase writes: without later phases and their settings."""
        names = [*self.phases]
        kept = {each: self.phases[each] for each in names[: names.index(name) + 1]}
        if TRAIN in kept:
            return replace(self, phases=kept)
        switches = self.settings.get("switches", {})
        switches = {key: switches[key] for key in switches if key not in self.entry.captioning}
        return replace(self, phases=kept, settings=self.settings | {"switches": switches}, loss={})

    def before(self, name: str) -> "Recipe | None":
        """Return the recipe of the weights from which a phase starts; None for the first phase."""
        names = [*self.phases]
        position = names.index(name)
        return self.until(names[position - 1]) if position else None

    @property
    def pretraining(self) -> "Recipe | None":
        """Recipe of the weights from which the captioning starts; None without pre-training."""
        return self.before(TRAIN) if TRAIN in self.phases else self

    @property
    def input(self) -> str:
        return str(self.features.get("input", models.GRID))

    @property
    def pretrained_on(self) -> list[str]:
        """Datasets that pre-training uses in addition to the recipe's dataset."""
        uses = {"cub": "images" in self.phases, "nabirds": "class_pairs" in self._tasks}
        return [name for name, used in uses.items() if used]

    @property
    def asks_negatives(self) -> bool:
        return "fda" in self._tasks

    @property
    def _tasks(self) -> set[str]:
        return {task for settings in self.phases.values() for task in settings.get("tasks", ())}

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


def build(recipe: Recipe, sizes: DataSizes, source: str | Path | None = None) -> Any:
    """Build the model of a recipe's last phase."""
    phase = recipe.declared.name if recipe.declared else None
    try:
        return models.build(recipe.model, sizes, recipe.settings, phase)
    except (TypeError, ValueError) as error:
        raise InputError(f"{source or set_in(recipe.model, recipe.dataset)}: {error}") from None


def bare(recipe: Recipe, shape: tuple[int, int, int]) -> Any:
    """Build the last phase's model without values (device "meta") for inputs of a shape, (C, H, W)."""
    with shapes_only():
        return build(recipe, recipe.sizes_for(shape, 8, 8))


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
