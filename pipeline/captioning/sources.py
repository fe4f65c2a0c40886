"""Load weights from a shared package, or from a folder that training wrote in a laboratory.

A laboratory is a repository with the run's other files. A package (a folder or a .zip) contains everything
that captions need; package.py writes packages.
"""

import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from models.backbones.backbone import Backbone
from models.common.captioner import Captioner
from pipeline.captioning import feature_backbone, hub_files
from pipeline.captioning.feature_backbone import REMEDY, Made
from pipeline.confidence import calibration
from pipeline.confidence.calibration import Calibration
from pipeline.config.store_contents import PIXELS, PixelSpec, recorded_spec
from pipeline.io.errors import InputError, writing
from pipeline.io.inputs import check_regular, read_json
from pipeline.io.records import plain
from pipeline.text import vocabularies
from pipeline.text.vocabularies import Vocabulary
from pipeline.weights import tensor_checks, trained_model
from pipeline.weights.model_description import Trained, check_features

MODEL, FEATURES, VOCABULARY = trained_model.MODEL, feature_backbone.MADE, "vocabulary.json"
CARD, SCORES = "README.md", "scores.json"
TENSORS = (trained_model.FILE, trained_model.PACKED, feature_backbone.WEIGHTS)
# maximum size of each file, unpacked, in bytes; other files of a package are ignored
LARGEST = dict.fromkeys(TENSORS, tensor_checks.MOST_BYTES) | {
    MODEL: trained_model.LARGEST,
    FEATURES: 1 << 14,
    feature_backbone.CHANNELS: 1 << 20,
    VOCABULARY: 4 << 20,
    CARD: 1 << 20,
    hub_files.CONFIG: hub_files.LARGEST,
    SCORES: 1 << 20,
    calibration.FILE: calibration.LARGEST,
}
PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
TIGHTEST = 20  # maximum compression factor; trained numbers never compress more
OF_LAB = "name the laboratory that made the weights by --lab"


@contextmanager
def opened(weights: Path) -> Iterator[Path]:
    """Yield the folder of the weights. A .zip is unpacked into a folder that exists only in the `with` block.

    Raises InputError if `weights` is neither a folder nor a valid package.
    """
    if weights.is_dir():
        _check_folder(weights)
        yield weights
        return
    with tempfile.TemporaryDirectory() as folder:
        try:
            check_regular(weights, 2 * tensor_checks.MOST_BYTES)
            # `writing` reports a full disk, which is not the package's fault
            with writing(folder), zipfile.ZipFile(weights) as package:
                _unpack(package, Path(folder), weights)
        except InputError:
            raise
        except FileNotFoundError:
            raise InputError(f"{weights} is missing; name a folder of weights or a package") from None
        except Exception as error:  # zipfile raises exceptions of any kind on damaged files
            reason = " ".join(str(error).split()) or type(error).__name__
            raise InputError(f"{weights} does not open as a package ({reason}); {REMEDY}") from None
        try:
            yield Path(folder)
        except InputError as error:  # name the package, not the temporary folder
            raise InputError(str(error).replace(folder, str(weights))) from None


def _check_folder(weights: Path) -> None:
    """Raise InputError if a known file in a folder of weights is too large, or is itself a folder."""
    for name, largest in LARGEST.items():
        if (weights / name).is_dir():
            raise InputError(f"{weights / name} is a folder, not a file; {REMEDY}")
        if (weights / name).exists():
            check_regular(weights / name, largest)


def _unpack(package: zipfile.ZipFile, folder: Path, weights: Path) -> None:
    """Unpack the known files of a package. Ignore other files."""
    names = set(package.namelist())
    have = [name for name in LARGEST if name in names]
    if MODEL not in have or FEATURES not in have:
        raise InputError(f"{weights} is no package of weights: it lacks {MODEL} or {FEATURES}")
    for name in have:
        _check_packed(package.getinfo(name), weights)
        with package.open(name) as packed, (folder / name).open("wb") as file:
            shutil.copyfileobj(packed, file)


def _check_packed(member: zipfile.ZipInfo, weights: Path) -> None:
    """Raise InputError if a packed file has an unknown compression, or its stated unpacked size is too large.

    zipfile never unpacks more than the stated size.
    """
    name, size = member.filename, member.file_size
    if member.compress_type not in PACKED:
        raise InputError(f"{weights}: {name} is packed in a way that is not taken; zip it by deflate, or not")
    if size > LARGEST[name]:
        raise InputError(f"{weights}: {name} has {size:,} bytes, and such a file {LARGEST[name]:,} at most")
    if name in TENSORS and size > TIGHTEST * member.compress_size + (1 << 20):
        raise InputError(
            f"{weights}: {name} would unpack to {size // max(1, member.compress_size)} times its size, but "
            f"trained numbers never compress so well; {REMEDY}"
        )


def load(folder: Path, weights: Path, lab: Path) -> tuple[Captioner, Trained, Vocabulary]:
    """Load the model, its description and its vocabulary.

    Raises InputError naming a file that is missing, or that training cannot have written.
    """
    trained = trained_model.describe(folder, weights, REMEDY)
    check_features(weights / MODEL, trained.recipe.features, REMEDY)
    model = trained_model.load(folder, weights, REMEDY)[0]
    words = vocabulary_file(folder, trained, lab)
    packed = words.parent == folder
    place, remedy = (weights / VOCABULARY, REMEDY) if packed else (words, OF_LAB)
    check_vocabulary(place, read_json(words, remedy, LARGEST[VOCABULARY]), remedy)
    vocabulary = vocabularies.load(words)
    trained.check_vocabulary(vocabulary, place)
    hub_files.check_config(folder, weights, trained, REMEDY)
    return model, trained, vocabulary


def check_vocabulary(path: Path, record: Any, remedy: str) -> None:
    """Raise InputError if a key of a vocabulary file is wrong, unknown or too large."""
    plain(path, vocabularies.kind_of(record), record, remedy)


def scores(folder: Path, weights: Path) -> dict[str, Any] | None:
    """Return the content of a package's scores.json; None if the file is absent.

    Raises InputError if the content is not a dictionary.
    """
    if not (folder / SCORES).exists():
        return None
    record = read_json(folder / SCORES, REMEDY, LARGEST[SCORES])
    return plain(weights / SCORES, dict[str, Any], record, REMEDY)


def vocabulary_file(folder: Path, trained: Trained, lab: Path) -> Path:
    """Return the path of the vocabulary: in the package, or else in the repository `lab`."""
    own = folder / VOCABULARY
    return own if (folder / FEATURES).exists() else lab / f"data/vocab/{trained.recipe.dataset}.json"


def confidence_file(folder: Path, trained: Trained, lab: Path) -> Path:
    """Return the path of the calibration: in the package, or else in the repository `lab`."""
    if (folder / FEATURES).exists():
        return folder / calibration.FILE
    return lab / f"data/confidence/{trained.run}.json"


def confidence(
    folder: Path, weights: Path, trained: Trained, lab: Path, sha256: str, given: Path | None = None
) -> Calibration | None:
    """Read the calibration of weights, from the file `given` or, if this is None, from its usual path.

    Returns None if there is no file at the usual path. Raises InputError if the file is not valid, or does
    not belong to the weights with the hash `sha256`.
    """
    path = given or confidence_file(folder, trained, lab)
    if given is None and not path.exists():
        return None
    return calibration.read(path, weights / path.name if path.parent == folder else path, sha256)


READ = Made(PIXELS, "float32")
"""The Made of a model whose input is pixels: the model has its own image encoder and needs no features."""


def backbone(folder: Path, weights: Path, trained: Trained, lab: Path) -> tuple[Backbone | None, Made]:
    """Load the backbone of the weights. Return it, and how the features are made.

    The backbone is None for a model whose input is pixels. Raises InputError naming a file that is not
    available.
    """
    spec = recorded_spec(trained.recipe.features)
    if isinstance(spec, PixelSpec):
        return None, READ
    if (folder / FEATURES).exists():
        return feature_backbone.of_package(folder, weights, spec)
    return feature_backbone.of_lab(trained, spec, lab)
