"""Where weights come from: a folder that training wrote, with its laboratory, or a package to share.

A package, a folder or a .zip of it, holds all that captions need: package.py writes it.
"""

import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from models.backbone import Backbone
from models.captioner import Captioner
from pipeline import vocabularies
from pipeline.captioning import described, feature_backbone
from pipeline.captioning.feature_backbone import REMEDY, Made
from pipeline.errors import InputError
from pipeline.features.store_contents import PIXELS, PixelSpec, recorded_spec
from pipeline.outputs import read_json, read_yaml
from pipeline.recipes import trained_model
from pipeline.recipes.trained_model import Trained
from pipeline.vocabularies import Vocabulary

MODEL, FEATURES, VOCABULARY = "model.yaml", feature_backbone.MADE, "vocabulary.json"
CARD, SCORES = "README.md", "scores.json"
FILES = (
    MODEL,
    "weights.safetensors",
    FEATURES,
    feature_backbone.WEIGHTS,
    feature_backbone.CHANNELS,
    VOCABULARY,
    CARD,
    SCORES,
)
OF_LAB = "name the laboratory that made the weights by --lab"
LARGEST = 2 << 30  # bytes of a package, unpacked


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
    packed = words.parent == folder
    remedy = REMEDY if packed else OF_LAB
    described.check_vocabulary(weights / VOCABULARY if packed else words, read_json(words, remedy), remedy)
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
    if (folder / FEATURES).exists():
        return feature_backbone.of_package(folder, weights, spec)
    return feature_backbone.of_lab(trained, spec, lab)


def record(made: Made) -> dict[str, Any]:
    """As features.yaml holds it."""
    return asdict(made)
