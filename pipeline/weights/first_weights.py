"""Initialisation of a model from CLIP's weights.

The setting `start` names the file of these weights, which `python -m commands.import_clip` writes.
"""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open

from models.common.trainable import Trainable
from pipeline.io.content_hashes import sha256
from pipeline.io.errors import InputError

REMEDY = "import CLIP's weights with `python -m commands.import_clip FILE`, or set `start: null`"

FIT = "set the sizes and the pixels of the dataset to CLIP's"
FIT_WORDS = "set text.tokeniser: clip_bpe"


def name_in_file(starts: Mapping[str, str], name: str) -> str | None:
    """Return the name that the model's tensor `name` has in CLIP's file.

    `starts` is an attribute of the model: prefix of names in the model -> prefix of names in the file.
    Returns None if `name` starts with none of these prefixes.
    """
    found = (there + name[len(here) :] for here, there in starts.items() if name.startswith(here))
    return next(found, None)


def take_over(model: Trainable, path: Path) -> None:
    """Load tensors from CLIP's file `path` into the model; the model's attribute `starts` selects them.

    Raises InputError if the file cannot be read, or if a tensor is missing or has another shape.
    """
    own = model.state_dict()
    places = {name: there for name in own if (there := name_in_file(model.starts, name))}
    try:
        with safe_open(path, "pt") as file:
            known = set(file.keys())
            for name, there in places.items():
                if there not in known:
                    raise InputError(f"{path} lacks {there}; {REMEDY}")
                shape = tuple(file.get_slice(there).get_shape())
                if shape != tuple(own[name].shape):
                    shapes = f"{shape}, the model's is {tuple(own[name].shape)}"
                    words = there == "text.tables.tokens.weight"
                    raise InputError(f"{path}: {there} is {shapes}; {FIT_WORDS if words else FIT}")
                own[name] = file.get_tensor(there)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path} does not load ({' '.join(str(error).split())}); {REMEDY}") from None
    model.load_state_dict(own)


def identity(path: Path) -> str:
    """Return the SHA-256 of CLIP's file. Raises InputError if the file cannot be read."""
    try:
        return sha256(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); {REMEDY}") from None
