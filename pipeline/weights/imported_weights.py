"""Imported weights of a run. If they exist, the stages `pretrain` and `train` copy them instead of training.

DVC removes the outputs of a stage before it runs the stage. So imported weights are in data/imported, with
a folder for each of the two stages. The file inputs.json contains the hashes of imported weights. Both
stages depend on this file.
"""

from pathlib import Path

from pipeline.io.errors import InputError
from pipeline.io.inputs import read_yaml
from pipeline.io.outputs import Contents
from pipeline.io.provenance import sha256
from pipeline.weights import trained_model

FOLDER = Path("data/imported")
FOLDERS = {"pretrain": "first", "train": "train"}  # stage -> name of the folder of its imported weights
PRETRAINED = "pretrained"  # the folder, next to a run's recipe, that the stage pretrain writes
WEIGHTS, CURVES, SOURCE = "weights", "curves", "source.json"
CONTENTS = Contents("imported weights")
AGAIN = "import the checkpoint again"
OWNED = (Path("data/weights"), Path("data/recipes"))  # folders to which stages write weights
NEVER_TRAINED = 0  # value of `iteration` in the model.yaml of imported weights


def folder_of(dataset: str, model: str, seed: int, stage: str) -> Path:
    """Return the folder for imported weights of a stage of a run; the folder need not exist."""
    return FOLDER / dataset / model / str(seed) / FOLDERS[stage]


def find(run: Path | None, stage: str) -> Path | None:
    """Return the folder of a stage's imported weights, or None if there are none.

    run: the run's folder in data/imported
    """
    return run / FOLDERS[stage] if run and (run / FOLDERS[stage]).is_dir() else None


def hashes(run: Path | None) -> dict[str, str]:
    """Return stage -> hash of the imported weights, for the stages that have imported weights."""
    return {stage: _hash(folder / WEIGHTS) for stage in FOLDERS if (folder := find(run, stage))}


def _hash(weights: Path) -> str:
    """Return one hash of a trained model's description and weights."""
    try:
        return sha256(*((weights / name).read_bytes() for name in (trained_model.MODEL, trained_model.FILE)))
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read ({error.strerror}); {AGAIN}") from None


def check_kept(weights: Path, run: Path | None, stage: str) -> None:
    """Raise InputError if training would replace imported weights that have no other copy.

    `weights` is the folder into which training writes. `run` is the run's folder in data/imported.
    """
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
    """Raise InputError if the path `out` is in a folder to which a stage writes weights.

    DVC would remove `out` before it runs the stage.
    """
    for folder in OWNED:
        if (out.parent.resolve() / out.name).is_relative_to(folder.resolve()):
            raise InputError(
                f"{out} belongs to a stage, and DVC removes it before the stage runs; omit --out, and the "
                f"weights are kept in {FOLDER} for that stage"
            )
