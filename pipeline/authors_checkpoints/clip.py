"""CLIP's weights in a safetensors file, in OpenAI's names or in Hugging Face's -> ours, in 32-bit floats.

Source: docs/methods.md, "CLIP4IDC".
Ours are those of models/clip4idc/encoders.py: patches, blocks, project and text, with the scale's logarithm;
blocks are numbered through the whole image tower, so that one file fits every split.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isqrt
from pathlib import Path

import torch
from torch import Tensor, nn

from models.clip4idc.encoders import ClipSizes, ImageEncoder, Projection, TextEncoder
from models.clip4idc.switches import ClipSwitches
from pipeline.authors_checkpoints.checkpoint_file import CheckpointFile, read_safetensors
from pipeline.authors_checkpoints.tensor_names import (
    JOINED,
    Names,
    Place,
    checked,
    dimensions,
    layers,
    theirs,
)
from pipeline.io.errors import InputError
from pipeline.text.vocabularies import ClipVocabulary, exchanged

REMEDY = "name the safetensors file of CLIP with a ViT, in OpenAI's names or in Hugging Face's"
TOKENS = "text.tables.tokens.weight"


@dataclass(frozen=True)
class Format:
    """One way of naming."""

    names: Names
    blocks: tuple[str, str]  # patterns of the image tower's and the text tower's
    unused: str = r"(?!)"  # a pattern of theirs that are no parameters

    def theirs(self, ours: str) -> str:
        """The name of the tensor in which our parameter stands."""
        return self.names.place(ours).name


def _tower(
    ours: str, blocks: str, norms: tuple[str, str], attention: dict[str, str], mlp: tuple[str, str]
) -> dict[str, str]:
    parts = {f"norm_{number}": name for number, name in enumerate(norms, 1)}
    parts |= attention | {r"mlp\.0": mlp[0], r"mlp\.2": mlp[1]}
    return {rf"{ours}blocks\.(\d+)\.{part}": f"{blocks}.{{0}}.{name}" for part, name in parts.items()}


OPENAI_BLOCK = (("ln_1", "ln_2"), {"attention": "attn"}, ("mlp.c_fc", "mlp.c_proj"))
OPENAI = Format(
    Names(
        {
            r"patches\.project": "visual.conv1",
            r"patches\.token": "visual.class_embedding",
            r"patches\.positions": "visual.positional_embedding",
            r"patches\.norm": "visual.ln_pre",
            r"project\.norm": "visual.ln_post",
            r"project\.map\.weight": "visual.proj",
            r"text\.tables\.tokens": "token_embedding",
            r"text\.tables\.positions": "positional_embedding",
            r"text\.norm": "ln_final",
            r"text\.map\.weight": "text_projection",
            r"log_scale": "logit_scale",
        }
        | _tower("", "visual.transformer.resblocks", *OPENAI_BLOCK)
        | _tower(r"text\.", "transformer.resblocks", *OPENAI_BLOCK),
        joined=True,
        transposed=("project.map.weight", "text.map.weight"),
    ),
    (r"visual\.transformer\.resblocks\.(\d+)\.", r"transformer\.resblocks\.(\d+)\."),
    r"(input_resolution|context_length|vocab_size)$",
)
HUGGING_FACE_BLOCK = (
    ("layer_norm1", "layer_norm2"),
    {rf"attention\.{part}": f"self_attn.{part[0]}_proj" for part in JOINED}
    | {r"attention\.output": "self_attn.out_proj"},
    ("mlp.fc1", "mlp.fc2"),
)
HUGGING_FACE = Format(
    Names(
        {
            r"patches\.project": "vision_model.embeddings.patch_embedding",
            r"patches\.token": "vision_model.embeddings.class_embedding",
            r"patches\.positions": "vision_model.embeddings.position_embedding.weight",
            r"patches\.norm": "vision_model.pre_layrnorm",  # as it is spelt there
            r"project\.norm": "vision_model.post_layernorm",
            r"project\.map": "visual_projection",
            r"text\.tables\.tokens": "text_model.embeddings.token_embedding",
            r"text\.tables\.positions": "text_model.embeddings.position_embedding.weight",
            r"text\.norm": "text_model.final_layer_norm",
            r"text\.map": "text_projection",
            r"log_scale": "logit_scale",
        }
        | _tower("", "vision_model.encoder.layers", *HUGGING_FACE_BLOCK)
        | _tower(r"text\.", "text_model.encoder.layers", *HUGGING_FACE_BLOCK)
    ),
    (r"vision_model\.encoder\.layers\.(\d+)\.", r"text_model\.encoder\.layers\.(\d+)\."),
    r"(vision|text)_model\.embeddings\.position_ids$",
)
FORMATS = (OPENAI, HUGGING_FACE)


def read(path: Path) -> CheckpointFile:
    """Read the file. Raises InputError where it is missing, damaged, or a TorchScript archive."""
    return read_safetensors(path, REMEDY)


def imported(file: CheckpointFile) -> dict[str, Tensor]:
    """All of CLIP's parameters, in our names and order of tokens.

    Raises InputError naming the tensor that is missing, of another shape or kind, or not CLIP's.
    """
    form = format_of(file)
    found = {name: tensor for name, tensor in file.tree.items() if not re.match(form.unused, name)}
    ours = shapes(sizes_of(file.path, file.tree, form))
    tensors = checked(file.path, found, theirs(ours, form.names.place), "the model", REMEDY)
    return taken(tensors, ours, form.names.place)


def format_of(file: CheckpointFile) -> Format:
    """Whose names the file has."""
    first = [form.theirs("patches.project.weight") for form in FORMATS]
    for form, name in zip(FORMATS, first, strict=True):
        if name in file.tree:
            return form
    raise InputError(f"{file.path} has no {' or '.join(first)}; {REMEDY}")


def sizes_of(path: Path, found: Mapping[str, Tensor], form: Format) -> ClipSizes:
    """The sizes, from the tensors' shapes; heads stand in none of them."""

    def shape(ours: str, count: int) -> tuple[int, ...]:
        return dimensions(path, found, form.theirs(ours), count, REMEDY)

    width, _, patch, _ = shape("patches.project.weight", 4)
    vocabulary, text_width = shape(TOKENS, 2)
    if vocabulary != len(ClipVocabulary(2)):
        raise InputError(f"{path}: its vocabulary is of {vocabulary} tokens, not CLIP's 49,408; {REMEDY}")
    side = isqrt(shape("patches.positions", 2)[0] - 1) * patch
    context, joint = shape("text.tables.positions", 2)[0], shape("text.map.weight", 2)
    joint_width = joint[1 if "text.map.weight" in form.names.transposed else 0]
    blocks, text_layers = (layers(found, pattern) for pattern in form.blocks)
    return ClipSizes(
        *(3, (side, side), vocabulary, context),
        *(patch, width, 1, blocks, 1, text_width, 1, text_layers, context, joint_width, 1, 1),
    )


def shapes(sizes: ClipSizes) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all parameters of a CLIP of these sizes, ours; `intra` is its number of blocks."""
    with torch.device("meta"):
        image = ImageEncoder(sizes, ClipSwitches(), sizes.intra)
        parts: dict[str, nn.Module] = {"": image, "project.": Projection(sizes), "text.": TextEncoder(sizes)}
    found = {
        f"{before}{name}": tuple(parameter.shape)
        for before, part in parts.items()
        for name, parameter in part.named_parameters()
    }
    return found | {"log_scale": ()}


def taken(
    tensors: Mapping[str, Tensor], ours: Mapping[str, tuple[int, ...]], place: Callable[[str], Place]
) -> dict[str, Tensor]:
    """Ours, of checked ones; tables of tokens have a row for each of CLIP's, in the order of our ids."""
    found = {name: place(name).of(tensors) for name in ours}
    for name, tensor in found.items():
        if name.endswith("tables.tokens.weight") or name == "decoder.bias":
            found[name] = tensor[[exchanged(number) for number in range(len(tensor))]]
    return found
