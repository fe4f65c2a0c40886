"""CLIP4IDC's released checkpoints, of either phase -> our `clip4idc`, released variant.

Source: docs/methods.md, "CLIP4IDC".
Such a file is a dictionary of tensors: CLIP's in OpenAI's names behind "clip.", the comparison's own, and, of
the second phase, the captioner's; the text tower is in both, where only the first one's is read.
"""

import math
import re
from dataclasses import asdict, fields, replace

import torch
from torch import Tensor

from models.clip4idc.encoders import ClipSizes
from models.grid_embedding import DataSizes
from models.trainable import Trainable
from pipeline.authors_checkpoints.checkpoint_file import CheckpointFile
from pipeline.authors_checkpoints.clip_checkpoint import ClipFile, check, sizes_of, taken
from pipeline.authors_checkpoints.clip_names import OPENAI, shapes
from pipeline.authors_checkpoints.systems import JOINED, Place
from pipeline.errors import InputError
from pipeline.features.store_contents import PixelSpec
from pipeline.recipes import recipe_file, resolving
from pipeline.recipes.first_weights import name_in_file
from pipeline.recipes.recipe_file import Recipe
from pipeline.recipes.trained_model import Trained
from pipeline.vocabularies import ClipVocabulary, Vocabulary

NAME = "clip4idc"
CLIP = "clip."
DATA = tuple(field.name for field in fields(DataSizes))
REMEDY = "name a released checkpoint of CLIP4IDC"
HEAD = 64  # width of every attention's heads, CLIP's and the captioner's
SETTINGS = {"variant": "released", "switches": {}, "dropout": 0.1, "coef_lr": 0.001, "temperature": 0.01}
SIDES = ("clip.visual.bef_embedding", "clip.visual.aft_embedding")  # e, one tensor of ours
JOINT = {
    "images": "images",  # of both SIDES
    "positions": "clip.visual.joint_positional_embedding",
    "norm.weight": "clip.visual.ln_mid.weight",
    "norm.bias": "clip.visual.ln_mid.bias",
}
WORDS = "decoder.embeddings.word_embeddings.weight"
HEADS_WORDS = "decoder.classifier.cls.predictions.decoder.weight"  # the same table once more
CAPTIONER = {
    "decoder.tables.tokens.weight": WORDS,
    "decoder.tables.positions": "decoder.embeddings.position_embeddings.weight",
    "decoder.norm": "decoder.embeddings.LayerNorm",
    "decoder.head.0": "decoder.classifier.cls.predictions.transform.dense",
    "decoder.head_norm": "decoder.classifier.cls.predictions.transform.LayerNorm",
    "decoder.bias": "decoder.classifier.cls.predictions.bias",
}
TOWERS = {"difference.memories": "decoder.encoder", "decoder": "decoder.decoder"}
ATTENTIONS = {"attention": "slf_attn", "self_attention": "slf_attn", "cross_attention": "enc_attn"}
NORMS = {
    "difference.memories": ("slf_attn.output.LayerNorm", "output.LayerNorm"),
    "decoder": ("slf_attn.output.LayerNorm", "enc_attn.output.LayerNorm", "output.LayerNorm"),
}
FEED_FORWARD = {"0": "intermediate.dense", "2": "output.dense"}


def is_one(file: CheckpointFile) -> bool:
    """Whether the file is of this system."""
    return isinstance(file.tree, dict) and f"{CLIP}visual.conv1.weight" in file.tree


def imported(
    file: CheckpointFile, vocabulary: Vocabulary, dataset: str, pixels: PixelSpec, intra: int, seed: int
) -> tuple[Trained, dict[str, Tensor], Trainable]:
    """The checkpoint as weights of that phase, what is known of them, and the phase's bare model.

    `intra`: how many blocks see one image, which no tensor tells. Raises InputError naming the tensor or the
    setting that does not fit.
    """
    found = {name: tensor for name, tensor in file.tree.items() if isinstance(tensor, Tensor)}
    sizes = model_sizes(file, found, vocabulary, intra)
    if sizes.grid != (pixels.height, pixels.width):
        raise InputError(
            f"{file.path}: its model reads {sizes.grid[0]} x {sizes.grid[1]} pixels, and {dataset} has "
            f"{pixels.height} x {pixels.width}; mend features.pixels in params.yaml"
        )
    recipe = recipe_of(dataset, pixels, sizes)
    captions = WORDS in found
    with torch.device("meta"):  # names and shapes only
        model: Trainable = recipe_file.build(recipe, sizes, phase=None if captions else "adapt")
    ours = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    places = {name: place(model, name) for name in ours}
    check(file.path, found, wanted(sizes, ours, places, captions), REMEDY)
    if captions and not torch.equal(found[HEADS_WORDS], found[WORDS]):
        raise InputError(f"{file.path}: {HEADS_WORDS} is not {WORDS}, which it is read by; download it again")
    joined = {name: file.floats(name, tensor) for name, tensor in found.items()}
    joined["images"] = torch.stack([joined[side] for side in SIDES])
    trained = Trained(
        recipe, seed, (3, *sizes.grid), len(vocabulary), vocabulary.longest, 0, math.nan
    )  # its iteration and score are not in the file
    return trained, taken(file.path, joined, places), model


def model_sizes(
    file: CheckpointFile, found: dict[str, Tensor], vocabulary: Vocabulary, intra: int
) -> ClipSizes:
    """The sizes, from the tensors' shapes."""
    if not isinstance(vocabulary, ClipVocabulary):
        raise InputError(
            f"{file.path} goes with CLIP's tokens; make the vocabulary by text.tokeniser: clip_bpe"
        )
    clips = {name.removeprefix(CLIP): tensor for name, tensor in found.items() if name.startswith(CLIP)}
    whole = sizes_of(ClipFile(file.path, file.sha256, clips), OPENAI)
    if not 0 <= intra <= whole.intra:
        raise InputError(
            f"{file.path}: its image tower has {whole.intra} blocks, --intra is {intra}; mend it"
        )
    layers = {match[1] for name in found if (match := re.match(r"decoder\.decoder\.layer\.(\d+)\.", name))}
    try:
        return replace(
            whole,
            longest=vocabulary.longest,
            heads=max(1, whole.width // HEAD),
            text_heads=max(1, whole.text_width // HEAD),
            caption_heads=max(1, whole.joint // HEAD),
            intra=intra,
            inter=whole.intra - intra,
            caption_layers=max(1, len(layers)),
        )
    except ValueError as error:
        raise InputError(f"{file.path}: {error}") from None


def recipe_of(dataset: str, pixels: PixelSpec, sizes: ClipSizes) -> Recipe:
    """How the model is built. How it was trained is not in the file."""
    own = {name: value for name, value in asdict(sizes).items() if name not in DATA}
    return Recipe(dataset, NAME, SETTINGS, own, {}, {}, asdict(pixels), resolving.code_of(NAME))


def place(model: Trainable, name: str) -> Place:
    """Where a parameter of either phase's model stands."""
    if not name.startswith("decoder.") and (clip := name_in_file(model, name)):
        found = OPENAI.place(clip)
        return replace(found, name=CLIP + found.name)
    if match := re.match(r"(?:difference\.)?inter\.(.+)", name):
        return Place(JOINT[match[1]])
    if match := re.match(r"(difference\.memories|decoder)\.layers\.(\d+)\.(.+)", name):
        return Place(f"{TOWERS[match[1]]}.layer.{match[2]}.{of_layer(match[1], match[3])}")
    for ours, theirs in CAPTIONER.items():
        if name.startswith(ours):
            return Place(theirs + name.removeprefix(ours))
    raise KeyError(name)


def of_layer(tower: str, name: str) -> str:
    """A parameter of one of the captioner's layers, theirs."""
    module, part, kind = name.split(".")
    if module in ATTENTIONS:
        return f"{ATTENTIONS[module]}.{f'att.{part}' if part in JOINED else 'output.dense'}.{kind}"
    if module == "norms":
        return f"{NORMS[tower][int(part)]}.{kind}"
    return f"{FEED_FORWARD[part]}.{kind}"


def wanted(
    sizes: ClipSizes, ours: dict[str, tuple[int, ...]], places: dict[str, Place], captions: bool
) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all tensors of a checkpoint, theirs."""
    whole = shapes(replace(sizes, intra=sizes.intra + sizes.inter))
    clips = {OPENAI.place(name): shape for name, shape in whole.items()}
    found = {CLIP + each.name: each.shape(shape) for each, shape in clips.items()}
    found |= {places[name].name: places[name].shape(shape) for name, shape in ours.items()}
    sides = found.pop("images")[1:]
    table = {HEADS_WORDS: found[WORDS]} if captions else {}
    return found | dict.fromkeys(SIDES, sides) | table
