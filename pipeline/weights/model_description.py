"""Description of a trained model in its file model.yaml: recipe, shapes, and hashes of its inputs."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from pipeline.config.dataset_params import LONGEST, Seed
from pipeline.config.recipe_file import Recipe
from pipeline.features.store import FeatureStore
from pipeline.io.errors import InputError
from pipeline.text.vocabularies import Vocabulary, identity, words_identity

# content that a hash identifies. weights: the weights' file; model: the rest of model.yaml; vocabulary:
# words, tokenisation and caption length; words: only the words, for imported models; store, features,
# images: FeatureStore.hashes
Part = Literal["weights", "model", "vocabulary", "words", "store", "features", "images"]
Sha = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
# limits of memory
Channels = Annotated[int, Field(ge=1, le=1 << 16)]
Side = Annotated[int, Field(ge=1, le=1024)]
Words = Annotated[int, Field(ge=1, le=1_000_000)]
Tokens = Annotated[int, Field(ge=1, le=LONGEST)]
BELONGS = "use the file that the weights were trained with, or train again"


@dataclass(frozen=True)
class Trained:
    """Description of trained weights: recipe, shapes, and hashes of the files that belong to the weights."""

    recipe: Recipe
    seed: Seed
    shape: tuple[Channels, Side, Side]  # C, H, W of an image's features
    vocabulary: Words  # number of words
    longest: Tokens  # largest number of a caption's tokens
    iteration: Annotated[int, Field(ge=0)]  # iteration of the snapshot; 0 for imported weights
    validation: float  # validation score of the snapshot; NaN for imported weights
    hashes: dict[Part, Sha] = field(default_factory=dict)  # SHA-256; empty in old files

    @property
    def run(self) -> str:
        return f"{self.recipe.dataset}/{self.recipe.model}/{self.seed}"

    def check_vocabulary(self, vocabulary: Vocabulary, name: str | Path = "the vocabulary") -> None:
        """Raise InputError if the model was trained with another vocabulary. The error begins with `name`."""
        if len(vocabulary) != self.vocabulary:
            raise InputError(
                f"{name} has {len(vocabulary)} words; the weights belong to a vocabulary of "
                f"{self.vocabulary} words: {BELONGS}"
            )
        hashes = {"vocabulary": identity(vocabulary), "words": words_identity(vocabulary)}
        if any(self.hashes.get(part, value) != value for part, value in hashes.items()):  # type: ignore[call-overload]
            raise InputError(f"{name} is not the vocabulary that the weights belong to; {BELONGS}")

    def check_store(self, store: FeatureStore) -> None:
        """Raise InputError unless the store has the training's images, or equal settings of features."""
        hashes, name = store.hashes, store.location.name
        if store.shape != self.shape:
            raise InputError(
                f"{name} has features of {store.shape}, but the weights need {self.shape}; {BELONGS}"
            )
        if self.hashes.get("features", hashes["features"]) != hashes["features"]:
            raise InputError(
                f"{name}: its features differ from those that the weights were trained on (another "
                f"weights_id, precision, normalisation or statistics); {BELONGS}"
            )
        if self.hashes.get("images") == hashes["images"] and self.hashes.get("store") != hashes["store"]:
            raise InputError(f"{name} is not the store that the weights were trained on; {BELONGS}")


def hash_of(record: dict[str, Any]) -> str:
    """Return the hash of model.yaml's content without `hashes.model`, which stores this hash."""
    hashes = {part: value for part, value in record["hashes"].items() if part != "model"}
    text = json.dumps(record | {"hashes": hashes}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
