"""Weights that a model starts from: one file, CLIP's as commands.import_clip writes them."""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open

from models.common.trainable import Trainable
from pipeline.io.content_hashes import sha256
from pipeline.io.errors import InputError

REMEDY = "bring CLIP's weights by `python -m commands.import_clip FILE`, or set `start: null`"


def name_in_file(starts: Mapping[str, str], name: str) -> str | None:
    """The name there of a model's tensor, by its `starts`; None where it has none."""
    found = (there + name[len(here) :] for here, there in starts.items() if name.startswith(here))
    return next(found, None)


def take_over(model: Trainable, path: Path) -> None:
    """Start from the file: what the model has of it, by name and shape.

    Raises InputError where the file is missing or damaged, lacks a tensor, or has one of another shape.
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
                    raise InputError(f"{path}: {there} is {shapes}; {fit(there)}")
                own[name] = file.get_tensor(there)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path} does not load ({' '.join(str(error).split())}); {REMEDY}") from None
    model.load_state_dict(own)


def fit(there: str) -> str:
    """What makes a tensor's shape that of the file."""
    if there == "text.tables.tokens.weight":
        return "set text.tokeniser: clip_bpe"
    return "set the sizes and the pixels of the dataset to CLIP's"


def identity(path: Path) -> str:
    """The file's sha256. Raises InputError where there is none."""
    try:
        return sha256(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); {REMEDY}") from None
