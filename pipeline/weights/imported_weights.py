"""Imported weights of a run, which wait in data/imported for the stage that would train them.

DVC removes a stage's outputs before it runs the stage. So imported weights lie in a folder that no stage
owns, one for each stage that can take them over: `pretrain` and `train` copy them in place of training. The
stage `recipe` writes their hashes into inputs.json, on which both depend.
"""

from pathlib import Path

from pipeline.io.errors import InputError
from pipeline.io.inputs import read_yaml
from pipeline.io.outputs import Contents
from pipeline.io.provenance import sha256
from pipeline.weights import trained_model

FOLDER = Path("data/imported")
FOLDERS = {"pretrain": "first", "train": "train"}  # by stage
PRETRAINED = "pretrained"  # the folder, next to a run's recipe, that the stage pretrain writes
WEIGHTS, CURVES, SOURCE = "weights", "curves", "source.json"
CONTENTS = Contents("imported weights")
AGAIN = "import the checkpoint again"
OWNED = (Path("data/weights"), Path("data/recipes"))  # where stages write weights
NEVER_TRAINED = 0  # the iteration in model.yaml of imported weights


def place(dataset: str, model: str, seed: int, stage: str) -> Path:
    """The folder of the weights that this stage of a run takes over."""
    return FOLDER / dataset / model / str(seed) / FOLDERS[stage]


def found(run: Path | None, stage: str) -> Path | None:
    """The folder of weights imported for a stage, below the folder of the run; None where there is none."""
    return run / FOLDERS[stage] if run and (run / FOLDERS[stage]).is_dir() else None


def hashes(run: Path | None) -> dict[str, str]:
    """The hash of the weights imported for each stage, by the stage's name."""
    folders = {stage: folder for stage in FOLDERS if (folder := found(run, stage))}
    return {stage: _hash(folder / WEIGHTS) for stage, folder in folders.items()}


def _hash(weights: Path) -> str:
    try:
        return sha256((weights / trained_model.MODEL).read_bytes(), trained_model.identity(weights))
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read ({error.strerror}); {AGAIN}") from None


def check_kept(weights: Path, run: Path | None, stage: str) -> None:
    """Raise InputError where a training would replace imported weights that data/imported lacks."""
    described = weights / trained_model.MODEL
    if found(run, stage) or not described.is_file():
        return
    if read_yaml(described, f"remove {weights} to train it").get("iteration") == NEVER_TRAINED:
        raise InputError(
            f"{weights} holds imported weights that {FOLDER} lacks, and a training would replace them; "
            f"{AGAIN} without --out, or remove {weights} to train "
            f"(an experiment: give --copy-paths {FOLDER}/DATASET)"
        )


def check_unowned(out: Path) -> None:
    """Raise InputError where DVC would remove what is written to `out`."""
    for folder in OWNED:
        if (out.parent.resolve() / out.name).is_relative_to(folder.resolve()):
            raise InputError(
                f"{out} belongs to a stage, and DVC removes it before the stage runs; leave --out away, "
                f"and the weights are kept in {FOLDER} for that stage"
            )
