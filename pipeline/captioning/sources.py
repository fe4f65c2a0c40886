"""Load weights from a shared package, or from a folder that training wrote in a laboratory.

A laboratory is a repository with the other files of the training run, such as the vocabulary. A package (a
folder or a .zip) contains everything that captions need; package.py writes packages.
"""

import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from models.backbones.backbone import Backbone
from models.common.captioner import Captioner
from pipeline.captioning import feature_backbone
from pipeline.captioning.feature_backbone import REMEDY, FeatureSource
from pipeline.confidence import calibration
from pipeline.config.store_contents import PIXELS, PixelSpec, Spec, recorded_spec
from pipeline.io.errors import InputError, writing
from pipeline.io.inputs import check_regular, read_json
from pipeline.io.records import plain
from pipeline.text import vocabularies
from pipeline.text.vocabularies import Vocabulary
from pipeline.weights import trained_model
from pipeline.weights.model_description import Trained
from pipeline.weights.tensor_checks import MOST_BYTES

MODEL, FEATURES, VOCABULARY = trained_model.MODEL, feature_backbone.SOURCE, "vocabulary.json"
SCORES = "scores.json"
# files that are read from a package; one that is zipped by hand may have the weights under their second name
FILES = (
    *(trained_model.PACKED, trained_model.FILE, MODEL, VOCABULARY, SCORES, calibration.FILE),
    *(FEATURES, feature_backbone.WEIGHTS, feature_backbone.CHANNELS),
)
LARGEST = 4 << 20  # maximum size of a text file in bytes
OF_LAB = "name the laboratory that made the weights by --lab"
PIXEL_SOURCE = FeatureSource(PIXELS, "float32")
"""Source of the features of a model with its own image encoder, which reads pixels."""


@contextmanager
def opened(weights: Path) -> Iterator[Path]:
    """Yield the folder of the weights. A .zip is unpacked into a folder that exists only in the `with` block.

    Raises InputError if `weights` is neither a folder nor a valid package.
    """
    if weights.is_dir():
        yield weights
        return
    with tempfile.TemporaryDirectory() as folder:
        _unpack(weights, Path(folder))
        try:
            yield Path(folder)
        except InputError as error:  # name the package, not the temporary folder
            raise InputError(str(error).replace(folder, str(weights))) from None


def _unpack(weights: Path, folder: Path) -> None:
    try:
        check_regular(weights, 2 * MOST_BYTES)
        # `writing` reports a full disk, which is not the package's fault
        with writing(folder), zipfile.ZipFile(weights) as package:
            names = set(package.namelist())
            if not {MODEL, FEATURES} <= names:
                raise InputError(f"{weights} is no package of weights: it lacks {MODEL} or {FEATURES}")
            for name in names.intersection(FILES):
                if package.getinfo(name).file_size > MOST_BYTES:
                    raise InputError(f"{weights}: {name} would unpack to more than {MOST_BYTES:,} bytes")
                package.extract(name, folder)
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{weights} is missing; name a folder of weights or a package") from None
    except Exception as error:  # zipfile raises exceptions of any kind on damaged files
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{weights} does not open as a package ({reason}); {REMEDY}") from None


def is_package(weights: Path) -> bool:
    return weights.suffix == ".zip" or (weights / FEATURES).exists()


def load(folder: Path, lab: Path) -> tuple[Captioner, Trained, Vocabulary]:
    """Load the model, its description and its vocabulary from `folder`, a package or a trained model.

    If it is not a package, the vocabulary is in the repository `lab`. Raises InputError for a wrong or
    missing file.
    """
    trained = trained_model.describe(folder, remedy=REMEDY)
    features = trained.recipe.features
    plain(folder / MODEL, PixelSpec if features.get("input") == PIXELS else Spec, features, REMEDY)
    model = trained_model.load(folder, remedy=REMEDY)[0]
    words, remedy = vocabulary_file(folder, trained, lab), REMEDY if is_package(folder) else OF_LAB
    record = read_json(words, remedy, LARGEST)
    plain(words, vocabularies.kind_of(record), record, remedy)
    vocabulary = vocabularies.load(words)
    trained.check_vocabulary(vocabulary, words)
    return model, trained, vocabulary


def scores(folder: Path) -> dict[str, Any] | None:
    """Return the content of a package's scores.json; None if the file is absent."""
    path = folder / SCORES
    if not path.exists():
        return None
    return plain(path, dict[str, Any], read_json(path, REMEDY, LARGEST), REMEDY)


def vocabulary_file(folder: Path, trained: Trained, lab: Path) -> Path:
    """Return the path of the vocabulary: in `folder` if it is a package, else in the repository `lab`."""
    if is_package(folder):
        return folder / VOCABULARY
    return lab / f"data/vocab/{trained.recipe.dataset}.json"


def confidence_file(folder: Path, trained: Trained, lab: Path) -> Path:
    return folder / calibration.FILE if is_package(folder) else lab / f"data/confidence/{trained.run}.json"


def backbone(folder: Path, trained: Trained, lab: Path) -> tuple[Backbone | None, FeatureSource]:
    """Return the model's backbone (None for pixels), and how its features are computed.

    `folder` is a package, or a folder of weights in the repository `lab`.
    """
    spec = recorded_spec(trained.recipe.features)
    if isinstance(spec, PixelSpec):
        return None, PIXEL_SOURCE
    if is_package(folder):
        return feature_backbone.of_package(folder, spec)
    return feature_backbone.of_lab(trained, spec, lab)
