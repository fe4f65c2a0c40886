"""A trained model on disk: weights.safetensors and model.yaml in one folder."""

from dataclasses import asdict, dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from models.captioner import Captioner
from models.grid_embedding import DataSizes
from models.trainable import Trainable
from pipeline.errors import InputError
from pipeline.inputs import read_yaml
from pipeline.outputs import Contents, yaml_of
from pipeline.recipes import recipe_file
from pipeline.recipes.recipe_file import Recipe
from pipeline.vocabularies import Vocabulary

FILE = "weights.safetensors"
CONTENTS = Contents("model.yaml", (FILE,))
REMEDY, FIRST = "run `dvc repro train` to make it", "run `dvc repro first` to make it"


@dataclass(frozen=True)
class Trained:
    """How the weights came about, and the shapes that they fit."""

    recipe: Recipe
    seed: int
    shape: tuple[int, int, int]  # of an image's features
    vocabulary: int
    longest: int
    iteration: int  # the snapshot that was kept
    validation: float  # its score on the validation split: CIDEr-D, or another of its phase

    def __post_init__(self) -> None:
        """Raises ValueError for what no weights can fit."""
        for value in (*self.shape, self.vocabulary, self.longest):
            if type(value) is not int or value < 1:
                raise ValueError(f"{value!r} is no size")
        if len(self.shape) != 3:
            raise ValueError("its shape is not that of an image's features")

    def check_vocabulary(self, vocabulary: Vocabulary) -> None:
        """Raises InputError where the model was trained with a vocabulary of another size."""
        if len(vocabulary) != self.vocabulary:
            raise InputError(
                f"the weights belong to a vocabulary of {self.vocabulary} words, not {len(vocabulary)}; "
                f"use the one that they were trained with"
            )


def save(folder: Path, trained: Trained, weights: dict[str, Tensor]) -> None:
    """Write both files into `folder`, which is made."""
    folder.mkdir(parents=True)
    save_file({name: tensor.contiguous() for name, tensor in weights.items()}, folder / FILE)
    record = asdict(trained) | {"shape": list(trained.shape)}
    (folder / "model.yaml").write_text(yaml_of(record), encoding="utf-8")


def load(folder: Path) -> tuple[Captioner, Trained]:
    """The trained model, in evaluation mode. Raises InputError naming what is missing or does not fit."""
    trained, sizes = _described(folder, REMEDY)
    model: Captioner = recipe_file.build(trained.recipe, sizes, folder / "model.yaml")
    _fill(model, folder, REMEDY)
    return model.eval(), trained


def there(folder: Path) -> bool:
    """Whether a phase before captioning left weights there. Raises InputError where there is no folder."""
    if not folder.is_dir():
        raise InputError(f"{folder} is missing; {FIRST}")
    return any(folder.iterdir())


def load_first(folder: Path) -> tuple[Trainable, Trained]:
    """The same of the last phase before captioning. Raises InputError where the model has none, too."""
    trained, sizes = _described(folder, FIRST)
    if not (phases := trained.recipe.entry.phases):
        raise InputError(f"{folder}: {trained.recipe.model} has no phase before captioning; {FIRST}")
    phase = phases[-1].settings
    model: Trainable = recipe_file.build(trained.recipe, sizes, folder / "model.yaml", phase)
    _fill(model, folder, FIRST)
    return model.eval(), trained


def take_over(model: Trainable, folder: Path) -> None:
    """Start from the phase before: what the model shares with it, by name and shape.

    Raises InputError where the folder lacks a tensor, or has one of another shape.
    """
    found, how = _tensors(folder, FIRST), FIRST
    own = model.state_dict()
    for before, here in model.takes.items():
        taken = {here + name.removeprefix(before): x for name, x in found.items() if name.startswith(before)}
        wanted = {name: x for name, x in own.items() if name.startswith(here)}
        for place in sorted(taken.keys() ^ wanted.keys()):
            fault = "lacks" if place in wanted else "has beside the model's"
            raise InputError(f"{folder / FILE} {fault} {before}{place.removeprefix(here)}; {how}")
        for place, x in taken.items():
            if x.shape != wanted[place].shape:
                shapes = f"{tuple(x.shape)}, not {tuple(wanted[place].shape)}"
                raise InputError(f"{folder / FILE}: {before}{place.removeprefix(here)} is {shapes}; {how}")
        own |= taken
    model.load_state_dict(own)


def identity(folder: Path) -> bytes:
    """The bytes that say which weights stand in a folder. Raises InputError where there are none."""
    try:
        return (folder / FILE).read_bytes()
    except OSError as error:
        raise InputError(f"{folder / FILE} cannot be read ({error.strerror}); {FIRST}") from None


def _described(folder: Path, how: str) -> tuple[Trained, DataSizes]:
    record = read_yaml(folder / "model.yaml", how)
    try:
        trained = Trained(**record | {"recipe": Recipe(**record["recipe"]), "shape": tuple(record["shape"])})
    except (TypeError, KeyError, ValueError) as error:
        raise InputError(f"{folder / 'model.yaml'} does not describe a model ({error}); {how}") from None
    return trained, trained.recipe.sizes_for(trained.shape, trained.vocabulary, trained.longest)


def _tensors(folder: Path, how: str) -> dict[str, Tensor]:
    try:
        return load_file(folder / FILE)
    except (OSError, SafetensorError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{folder / FILE} does not load ({reason}); {how}") from None


def _fill(model: Trainable, folder: Path, how: str) -> None:
    try:
        model.load_state_dict(_tensors(folder, how))
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{folder / FILE} does not load ({reason}); {how}") from None
