"""CLIP's weights, as stages.import_clip writes them: one file, from which models of every split start."""

import hashlib
import re
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import nn

from pipeline.errors import InputError

REMEDY = "bring CLIP's weights by `python -m stages.import_clip FILE`, or set `start: null`"
# what of a model is CLIP's: its encoder and text tower, and the captioner's words where these are CLIP's
OURS = re.compile(
    r"(?:encoding|inter|difference\.inter)\.((?:patches|blocks|project)\..+)|(text\..+|log_scale)$"
)
WORDS = "decoder.tables."


def clips_name(name: str, words: bool) -> str | None:
    """The name in CLIP's file of a model's parameter, None where it has none.

    `words`: the captioner's tables are CLIP's.
    """
    if words and name.startswith(WORDS):
        return f"text.tables.{name.removeprefix(WORDS)}"
    match = OURS.match(name)
    return (match[1] or match[2]) if match else None


def take_over(model: nn.Module, path: Path) -> None:
    """Start from CLIP: what the model has of it, by name and shape.

    Raises InputError where the file is missing or damaged, lacks a tensor, or has one of another shape.
    """
    words = "text.tables." in getattr(model, "takes", {})
    own = model.state_dict()
    places = {name: clip for name in own if (clip := clips_name(name, words))}
    try:
        with safe_open(path, "pt") as file:
            there = set(file.keys())
            for name, clip in places.items():
                if clip not in there:
                    raise InputError(f"{path} lacks {clip}; {REMEDY}")
                shape = tuple(file.get_slice(clip).get_shape())
                if shape != tuple(own[name].shape):
                    shapes = f"{shape}, the model's is {tuple(own[name].shape)}"
                    raise InputError(f"{path}: {clip} is {shapes}; {fit(clip)}")
                own[name] = file.get_tensor(clip)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path} does not load ({' '.join(str(error).split())}); {REMEDY}") from None
    model.load_state_dict(own)


def fit(clip: str) -> str:
    """What makes a tensor's shape that of CLIP."""
    if clip == "text.tables.tokens.weight":
        return "set text.tokeniser: clip_bpe"
    return "set the sizes and the pixels of the dataset to CLIP's"


def identity(path: Path) -> str:
    """The file's sha256. Raises InputError where there is none."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); {REMEDY}") from None
