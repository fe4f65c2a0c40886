"""Where weights come from: a folder that training wrote, with its laboratory, or a package to share.

A package, a folder or a .zip of it, holds all that captions need: package.py writes it.
"""

import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, TypeAdapter
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from models.backbone import Backbone, load_backbone
from models.captioner import Captioner
from pipeline import vocabularies
from pipeline.captioning import described, random_weights, rebuilt_backbone
from pipeline.errors import InputError
from pipeline.features import extraction
from pipeline.features.store_contents import PIXELS, PixelSpec, Spec, recorded_spec
from pipeline.outputs import read_json, read_yaml
from pipeline.recipes import trained_model
from pipeline.recipes.trained_model import Trained
from pipeline.vocabularies import Vocabulary

MODEL, FEATURES, BACKBONE, VOCABULARY = (
    "model.yaml",
    "features.yaml",
    "backbone.safetensors",
    "vocabulary.json",
)
CARD, SCORES = "README.md", "scores.json"
FILES = (MODEL, "weights.safetensors", FEATURES, BACKBONE, VOCABULARY, CARD, SCORES)
LARGEST = 2 << 30  # bytes of a package, unpacked
REMEDY = "bring the package again, whole"


@dataclass(frozen=True)
class Made:
    """How the features were made that a model was trained on, beside the recipe's Spec."""

    weights_id: str  # as the store names them; "pixels" where the model reads these
    precision: Literal["float32", "bfloat16"]
    seed: int | None = None  # of random weights
    backbone: Literal["statistics", "weights"] | None = None  # what the package's backbone.safetensors holds
    torch: str | None = None  # the version that wrote it

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")


@contextmanager
def opened(weights: Path) -> Iterator[Path]:
    """The folder of the weights; a package's files lie in a temporary one for the block.

    Raises InputError for what is neither.
    """
    if weights.is_dir():
        yield weights
        return
    with tempfile.TemporaryDirectory() as folder:
        try:
            with zipfile.ZipFile(weights) as package:
                _unpack(package, Path(folder), weights)
        except FileNotFoundError:
            raise InputError(f"{weights} is missing; name a folder of weights or a package") from None
        except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
            raise InputError(f"{weights} does not open as a package ({error}); {REMEDY}") from None
        yield Path(folder)


def _unpack(package: zipfile.ZipFile, folder: Path, weights: Path) -> None:
    """The files that a package has, by their names alone: nothing else in it is looked at."""
    have = [name for name in FILES if name in package.namelist()]
    if MODEL not in have or FEATURES not in have:
        raise InputError(f"{weights} is no package of weights: it lacks {MODEL} or {FEATURES}")
    if sum(package.getinfo(name).file_size for name in have) > LARGEST:
        raise InputError(f"{weights} holds more than {LARGEST >> 30} GB; no package of ours does")
    for name in have:
        (folder / name).write_bytes(package.read(name))


def load(folder: Path, weights: Path, lab: Path) -> tuple[Captioner, Trained, Vocabulary]:
    """The model, what is known of it, and its words.

    Raises InputError naming the file that is missing, or that says what no training writes.
    """
    described.check_model(weights / MODEL, read_yaml(folder / MODEL, REMEDY), REMEDY)
    model, trained = trained_model.load(folder)
    words = vocabulary_file(folder, trained, lab)
    named = weights / VOCABULARY if words.parent == folder else words
    described.check_vocabulary(named, read_json(words, REMEDY), REMEDY)
    vocabulary = vocabularies.load(words)
    trained.check_vocabulary(vocabulary)
    return model, trained, vocabulary


def scores(folder: Path, weights: Path) -> dict[str, Any] | None:
    """What a package says of its scores, None without. Raises InputError where that is no dictionary."""
    if not (folder / SCORES).exists():
        return None
    kind = TypeAdapter(dict[str, Any])
    return described.read(weights / SCORES, kind, read_json(folder / SCORES, REMEDY), REMEDY)


def vocabulary_file(folder: Path, trained: Trained, lab: Path) -> Path:
    """The package's, or the laboratory's."""
    own = folder / VOCABULARY
    return own if (folder / FEATURES).exists() else lab / f"data/vocab/{trained.recipe.dataset}.json"


READ = Made(PIXELS, "float32")
"""Of a model that reads pixels: it brings its own image encoder, and there are no features to make."""


def backbone(folder: Path, weights: Path, trained: Trained, lab: Path) -> tuple[Backbone | None, Made]:
    """The backbone that the weights' metadata name, None for a model that reads pixels.

    Raises InputError naming the file that can't be had.
    """
    spec = recorded_spec(trained.recipe.features)
    if isinstance(spec, PixelSpec):
        return None, READ
    if not (folder / FEATURES).exists():
        network, found = rebuilt_backbone.recreated(trained, spec, lab)
        return network, Made(**found)
    made = _made(folder, weights)
    if made.backbone is None:
        return _named(spec, made, weights), made
    tensors = _tensors(folder / BACKBONE, weights)
    if made.backbone == "statistics" and made.seed is not None:
        return random_weights.unpacked(spec.layer, made.seed, tensors, f"{weights}: {BACKBONE}"), made
    try:
        return load_backbone(spec.layer, tensors), made
    except ValueError as error:
        raise InputError(f"{weights}: {BACKBONE} is no backbone ({error}); {REMEDY}") from None


def _made(folder: Path, weights: Path) -> Made:
    return described.read(weights / FEATURES, TypeAdapter(Made), read_yaml(folder / FEATURES, REMEDY), REMEDY)


def _named(spec: Spec, made: Made, weights: Path) -> Backbone:
    """Weights that are not in the package: torchvision's, or a file."""
    network, found = extraction.backbone(spec, 0, Path(), [])
    if found != made.weights_id:
        raise InputError(
            f"{spec.weights} holds {found}; {weights} was trained on features of {made.weights_id}"
        )
    return network


def _tensors(path: Path, weights: Path) -> dict[str, Tensor]:
    try:
        return dict(load_file(path))
    except (OSError, SafetensorError) as error:
        raise InputError(f"{weights}: {path.name} does not load ({error}); {REMEDY}") from None


def record(made: Made) -> dict[str, Any]:
    """As features.yaml holds it."""
    return asdict(made)
