"""Initialisation of a model from CLIP's weights.

The setting `start` names the file of these weights, which `python -m commands.import_clip` writes.
"""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open

from models.common.trainable import Trainable
from pipeline.io.errors import InputError
from pipeline.weights.tensor_checks import check_tensors

REMEDY = (
    "import CLIP's weights with `python -m commands.import_clip FILE`, set the dataset's sizes, pixels and "
    "text.tokeniser to CLIP's, or set `start: null`"
)


def name_in_file(starts: Mapping[str, str], name: str) -> str | None:
    """Return the name that the model's tensor `name` has in CLIP's file.

    `starts` is an attribute of the model: prefix of names in the model -> prefix of names in the file.
    Returns None if `name` starts with none of these prefixes.
    """
    for prefix, prefix_in_file in starts.items():
        if name.startswith(prefix):
            return prefix_in_file + name.removeprefix(prefix)
    return None


def take_over(model: Trainable, path: Path) -> None:
    """Load tensors from CLIP's file `path` into the model; the model's attribute `starts` selects them.

    Raises InputError if the file cannot be read, or if a tensor is missing or has another shape.
    """
    weights = model.state_dict()
    names = {stored: name for name in weights if (stored := name_in_file(model.starts, name))}
    try:
        with safe_open(path, "pt") as file:
            tensors = {stored: file.get_tensor(stored) for stored in names.keys() & file.keys()}
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path} does not load ({' '.join(str(error).split())}); {REMEDY}") from None
    check_tensors(tensors, {stored: weights[name] for stored, name in names.items()}, path, REMEDY)
    model.load_state_dict(weights | {names[stored]: tensor for stored, tensor in tensors.items()})
