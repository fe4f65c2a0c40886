"""A trained model on disk: weights.safetensors and model.yaml in one folder."""

from dataclasses import asdict, dataclass
from pathlib import Path

import yaml
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from models.captioner import Captioner
from pipeline.errors import InputError
from pipeline.outputs import read_yaml
from pipeline.recipes import recipe_file
from pipeline.recipes.recipe_file import Recipe
from pipeline.vocabularies import Vocabulary

REMEDY = "run `dvc repro train` to make it"


@dataclass(frozen=True)
class Trained:
    """How the weights came about, and the shapes that they fit."""

    recipe: Recipe
    seed: int
    shape: tuple[int, int, int]  # of an image's features
    vocabulary: int
    longest: int
    iteration: int  # the snapshot that was kept
    validation: float  # its CIDEr-D on the validation split

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
    save_file({name: tensor.contiguous() for name, tensor in weights.items()}, folder / "weights.safetensors")
    record = asdict(trained) | {"shape": list(trained.shape)}
    (folder / "model.yaml").write_text(yaml.safe_dump(record, sort_keys=False), encoding="utf-8")


def load(folder: Path) -> tuple[Captioner, Trained]:
    """The trained model, in evaluation mode. Raises InputError naming what is missing or does not fit."""
    record = read_yaml(folder / "model.yaml", REMEDY)
    try:
        trained = Trained(**record | {"recipe": Recipe(**record["recipe"]), "shape": tuple(record["shape"])})
    except (TypeError, KeyError, ValueError) as error:
        raise InputError(f"{folder / 'model.yaml'} does not describe a model ({error}); {REMEDY}") from None
    sizes = trained.recipe.sizes_for(trained.shape, trained.vocabulary, trained.longest)
    model = recipe_file.build(trained.recipe, sizes, folder / "model.yaml")
    try:
        model.load_state_dict(load_file(folder / "weights.safetensors"))
    except (OSError, SafetensorError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{folder / 'weights.safetensors'} does not load ({reason}); {REMEDY}") from None
    return model.eval(), trained
