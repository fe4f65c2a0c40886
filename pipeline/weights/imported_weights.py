"""Weights from elsewhere: CLIP's, to initialise a model, and imported weights, in place of a training.

The setting `start` names the file of CLIP's weights, which `python -m commands.import_clip` writes.

If a run has imported weights, the stages `pretrain` and `train` copy them instead of training. DVC removes
the outputs of a stage before it runs the stage, so imported weights are in data/imported, with a folder for
each of the two stages. Both stages depend on the file inputs.json, which has the hashes of imported weights.
"""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open

from models.common.trainable import Trainable
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_yaml
from pipeline.io.outputs import Contents
from pipeline.io.provenance import sha256
from pipeline.weights import trained_model
from pipeline.weights.tensor_checks import check_tensors

REMEDY = (
    "import CLIP's weights with `python -m commands.import_clip FILE`, set the dataset's sizes, pixels and "
    "text.tokeniser to CLIP's, or set `start: null`"
)


def name_in_file(starts: Mapping[str, str], name: str) -> str | None:
    """Return a tensor's name in CLIP's file, by prefixes in model -> file; None if none fits."""
    for prefix, prefix_in_file in starts.items():
        if name.startswith(prefix):
            return prefix_in_file + name.removeprefix(prefix)
    return None


def take_over(model: Trainable, path: Path) -> None:
    """Load from CLIP's file the tensors that `model.starts` selects: prefix in the model -> in the file."""
    weights = model.state_dict()
    names = {stored: name for name in weights if (stored := name_in_file(model.starts, name))}
    try:
        with safe_open(path, "pt") as file:
            tensors = {stored: file.get_tensor(stored) for stored in names.keys() & file.keys()}
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path} does not load ({' '.join(str(error).split())}); {REMEDY}") from None
    check_tensors(tensors, {stored: weights[name] for stored, name in names.items()}, path, REMEDY)
    model.load_state_dict(weights | {names[stored]: tensor for stored, tensor in tensors.items()})


FOLDER = Path("data/imported")
STAGES = ("pretrain", "train")  # stages that may use imported weights; each has a folder of its name
PRETRAINED = "pretrained"  # the folder, next to a run's recipe, that the stage pretrain writes
WEIGHTS, CURVES, SOURCE = "weights", "curves", "source.json"
CONTENTS = Contents("imported weights")
AGAIN = "import the checkpoint again"
OWNED = (Path("data/weights"), Path("data/recipes"))  # folders to which stages write weights
NEVER_TRAINED = 0  # value of `iteration` in the model.yaml of imported weights


def folder_of(dataset: str, model: str, seed: int, stage: str) -> Path:
    return FOLDER / dataset / model / str(seed) / stage


def find(run: Path | None, stage: str) -> Path | None:
    return run / stage if run and (run / stage).is_dir() else None


def hashes(run: Path | None) -> dict[str, str]:
    return {stage: _hash(folder / WEIGHTS) for stage in STAGES if (folder := find(run, stage))}


def _hash(weights: Path) -> str:
    """Return one hash of a trained model's description and weights."""
    try:
        return sha256(*((weights / name).read_bytes() for name in (trained_model.MODEL, trained_model.FILE)))
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read ({error.strerror}); {AGAIN}") from None


def check_kept(weights: Path, run: Path | None, stage: str) -> None:
    """Raise InputError if training would replace imported weights that have no copy in the run's folder."""
    description = weights / trained_model.MODEL
    if find(run, stage) or not description.is_file():
        return
    if read_yaml(description, f"remove {weights} to train it").get("iteration") == NEVER_TRAINED:
        raise InputError(
            f"{weights} holds imported weights that are not in {FOLDER}, and a training would replace them; "
            f"{AGAIN} without --out, or remove {weights} to train "
            f"(an experiment: give --copy-paths {FOLDER}/DATASET)"
        )


def check_unowned(out: Path) -> None:
    """Raise InputError if a stage writes weights to the folder of `out`, which DVC would remove."""
    for folder in OWNED:
        if (out.parent.resolve() / out.name).is_relative_to(folder.resolve()):
            raise InputError(
                f"{out} belongs to a stage, and DVC removes it before the stage runs; omit --out, and the "
                f"weights are kept in {FOLDER} for that stage"
            )
