"""Description of a trained model in its file model.yaml: recipe, shapes, and hashes of its inputs."""

import hashlib
import json
import math
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import ConfigDict, StringConstraints

from pipeline.config.dataset_params import BLOCKS, LONGEST, MOST_BLOCKS, WIDEST, Count, Seed, Stride
from pipeline.config.recipe_file import Recipe
from pipeline.config.store_contents import GRID, IMPORTED, PIXELS, PixelSpec, Spec
from pipeline.features.preprocessing import RESIZES
from pipeline.features.store import FeatureStore
from pipeline.io.errors import InputError
from pipeline.io.records import plain
from pipeline.text.vocabularies import Vocabulary, identity, words_identity

# what a hash is of. weights: the weights' file; model: the rest of model.yaml; vocabulary: words,
# tokenisation and caption length; words: only the words, for imported models; store, features, images:
# FeatureStore.hashes
Part = Literal["weights", "model", "vocabulary", "words", "store", "features", "images"]
Sha = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
STRIDES: tuple[int, ...] = get_args(Stride)
LARGEST = 1024  # side of an image in pixels, as in params.yaml
MOST = {"longest": LONGEST, "vocabulary": 1_000_000}  # largest number of a caption's tokens, and of words
SHAPE = 1 << 16, LARGEST, LARGEST  # largest C, H and W
BELONGS = "use the file that the weights were trained with, or train again"


@dataclass(frozen=True)
class Trained:
    """Description of trained weights: recipe, shapes, and hashes of the files that belong to them."""

    recipe: Recipe
    seed: Seed
    shape: tuple[Count, Count, Count]  # C, H, W of an image's features
    vocabulary: Count  # number of words
    longest: Count  # largest number of a caption's tokens
    iteration: int  # iteration of the snapshot; 0 for imported weights
    validation: float  # validation score of the snapshot; NaN for imported weights
    hashes: dict[Part, Sha] = field(default_factory=dict)  # SHA-256; empty in old files

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    def __post_init__(self) -> None:
        """Check iteration and validation score. Raises ValueError if no training writes such values."""
        if self.iteration < 0:
            raise ValueError(f"iteration is {self.iteration}, not a whole number from 0 on")
        if self.iteration and not math.isfinite(self.validation):
            raise ValueError(f"validation is {self.validation}, not a finite number")

    @property
    def run(self) -> str:
        """Name of the run, DATASET/MODEL/SEED."""
        return f"{self.recipe.dataset}/{self.recipe.model}/{self.seed}"

    def check_vocabulary(self, vocabulary: Vocabulary, name: str | Path = "the vocabulary") -> None:
        """Raise InputError if the model was trained with another vocabulary."""
        if len(vocabulary) != self.vocabulary:
            raise InputError(
                f"{name} has {len(vocabulary)} words; the weights belong to a vocabulary of "
                f"{self.vocabulary} words: {BELONGS}"
            )
        found = {"vocabulary": identity(vocabulary), "words": words_identity(vocabulary)}
        if any(self.hashes.get(part, own) != own for part, own in found.items()):  # type: ignore[call-overload]
            raise InputError(f"{name} is not the vocabulary that the weights belong to; {BELONGS}")

    def check_store(self, store: FeatureStore) -> None:
        """Raise InputError if the store's features are not compatible with the weights.

        For the images of the training, only the store of the training is accepted. A store of other images is
        accepted if its features were computed in the same way.
        """
        found, name = store.hashes, store.location.name
        if store.shape != self.shape:
            raise InputError(
                f"{name} has features of {store.shape}, but the weights need {self.shape}; {BELONGS}"
            )
        if self.hashes.get("features", found["features"]) != found["features"]:
            raise InputError(
                f"{name}: its features differ from those that the weights were trained on (another "
                f"weights_id, precision, normalisation or statistics); {BELONGS}"
            )
        if self.hashes.get("images") == found["images"] and self.hashes.get("store") != found["store"]:
            raise InputError(f"{name} is not the store that the weights were trained on; {BELONGS}")


def described(path: Path, record: Any, remedy: str) -> Trained:
    """Convert the content of model.yaml, `record`, to a Trained.

    Raises InputError if the content is not valid; the message names the key.
    """
    trained = plain(path, Trained, record, remedy)
    if too_large := _too_large(trained):
        raise InputError(f"{path}: {too_large} at most; {remedy}")
    if lacking := {"weights", "model"} - trained.hashes.keys() if trained.hashes else None:
        raise InputError(f"{path}: hashes.{min(lacking)} is missing; {remedy}")
    return trained


def check_features(path: Path, features: dict[str, Any], remedy: str) -> None:
    """Raise InputError if `features` in a recipe is not a valid specification; the message names the key."""
    kind: type[Spec | PixelSpec] = PixelSpec if features.get("input") == PIXELS else Spec
    unknown = features.keys() - {each.name for each in fields(kind)}
    fault = f"{min(unknown)} is an unknown key" if unknown else _fault(plain(path, kind, features, remedy))
    if fault:
        raise InputError(f"{path}: recipe.features.{fault}; {remedy}")


def hash_of(record: dict[str, Any]) -> str:
    """Return the hash of model.yaml's content, `record`, without the key `hashes.model`.

    The hash is stored under this key.
    """
    hashes = {part: value for part, value in record["hashes"].items() if part != "model"}
    text = json.dumps(record | {"hashes": hashes}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _too_large(trained: Trained) -> str | None:
    """Return a text that names a size if the size is too large; else None.

    Sizes are limited, because they determine memory and time.
    """
    sizes = trained.recipe.sizes.items()
    found = [
        *((f"recipe.sizes.{name}", size, MOST_BLOCKS if name in BLOCKS else WIDEST) for name, size in sizes),
        *((name, getattr(trained, name), most) for name, most in MOST.items()),
        *(("shape", size, most) for size, most in zip(trained.shape, SHAPE, strict=True)),
    ]
    return next((f"{name} is {size}, and has {most}" for name, size, most in found if size > most), None)


def _fault(spec: Spec | PixelSpec) -> str | None:
    """Return a text that names a value if our features cannot have this value; else None."""
    resizes = (*RESIZES,) if isinstance(spec, PixelSpec) else (*RESIZES, IMPORTED)
    if spec.resize not in resizes:
        return f"resize is {spec.resize!r}, not {' or '.join(resizes)}"
    if isinstance(spec, Spec) and spec.input != GRID:
        return f"input is {spec.input!r}, not {GRID} or {PIXELS}"
    if isinstance(spec, Spec) and spec.stride not in STRIDES:
        return f"stride is {spec.stride}, not {' or '.join(map(str, STRIDES))}"
    least = 1 if isinstance(spec, PixelSpec) else spec.stride
    for side in spec.squashed:
        if not least <= side <= LARGEST:
            return f"an image is squashed to {side} pixels a side, not {least} to {LARGEST}"
    return None
