"""CLIP4IDC's released checkpoints, of either phase -> our `clip4idc`, released variant.

Source: docs/methods.md, "CLIP4IDC".
Such a file is a dictionary of tensors: CLIP's in OpenAI's names behind "clip.", the comparison's own, and, of
the second phase, the captioner's; the text tower is in both, where only the first one's is read.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from models.clip4idc.encoders import ClipSizes
from models.clip4idc.model import STARTS
from models.common.trainable import Trainable
from pipeline.authors_checkpoints import clip, tensor_names
from pipeline.authors_checkpoints.checkpoint_file import CheckpointFile
from pipeline.authors_checkpoints.clip import OPENAI
from pipeline.authors_checkpoints.tensor_names import Names, Place, Shapes, checked, shapes_of, theirs
from pipeline.config.store_contents import PixelSpec
from pipeline.io.errors import InputError
from pipeline.text.vocabularies import ClipVocabulary, Vocabulary
from pipeline.weights.first_weights import name_in_file
from pipeline.weights.model_description import Trained

NAME = "clip4idc"
CLIP = "clip."
REMEDY = "name a released checkpoint of CLIP4IDC"
HEAD = 64  # width of every attention's heads, CLIP's and the captioner's
SETTINGS = {"variant": "released", "switches": {}, "dropout": 0.1, "coef_lr": 0.001, "temperature": 0.01}
SIDES = ("clip.visual.bef_embedding", "clip.visual.aft_embedding")  # e, one tensor of ours, "images"
WORDS = "decoder.embeddings.word_embeddings.weight"
HEADS_WORDS = "decoder.classifier.cls.predictions.decoder.weight"  # the same table once more


def _layer(ours: str, its: str, attentions: dict[str, str], norms: tuple[str, ...]) -> dict[str, str]:
    """A layer of the captioner's encoder or decoder."""
    parts = {"feed_forward.0": "intermediate.dense", "feed_forward.2": "output.dense"}
    for attention, name in attentions.items():
        parts |= {f"{attention}.output": f"{name}.output.dense", attention: f"{name}.att"}
    parts |= {f"norms.{number}": f"{norm}.LayerNorm" for number, norm in enumerate(norms)}
    return {rf"{ours}\.layers\.(\d+)\.{part}": f"{its}.layer.{{0}}.{name}" for part, name in parts.items()}


NAMES = Names(
    {
        r"(?:difference\.)?inter\.images": "images",  # of both SIDES
        r"(?:difference\.)?inter\.positions": "clip.visual.joint_positional_embedding",
        r"(?:difference\.)?inter\.norm": "clip.visual.ln_mid",
        r"decoder\.tables\.tokens\.weight": WORDS,
        r"decoder\.tables\.positions": "decoder.embeddings.position_embeddings.weight",
        r"decoder\.norm": "decoder.embeddings.LayerNorm",
        r"decoder\.head\.0": "decoder.classifier.cls.predictions.transform.dense",
        r"decoder\.head_norm": "decoder.classifier.cls.predictions.transform.LayerNorm",
        r"decoder\.bias": "decoder.classifier.cls.predictions.bias",
    }
    | _layer(
        r"difference\.memories",
        "decoder.encoder",
        {"attention": "slf_attn"},
        ("slf_attn.output", "output"),
    )
    | _layer(
        "decoder",
        "decoder.decoder",
        {"self_attention": "slf_attn", "cross_attention": "enc_attn"},
        ("slf_attn.output", "enc_attn.output", "output"),
    )
)


def is_one(file: CheckpointFile) -> bool:
    """Whether the file is of this system."""
    return isinstance(file.tree, dict) and f"{CLIP}visual.conv1.weight" in file.tree


def place(name: str) -> Place:
    """Where a parameter of either phase's model stands."""
    if clips := name_in_file(STARTS, name):
        found = OPENAI.names.place(clips)
        return replace(found, name=CLIP + found.name)
    return NAMES.place(name)


def imported(
    file: CheckpointFile, vocabulary: Vocabulary, dataset: str, pixels: PixelSpec, intra: int, seed: int
) -> tuple[Trained, dict[str, Tensor], Trainable]:
    """The checkpoint as weights of that phase, what is known of them, and the phase's bare model.

    `intra`: how many blocks see one image, which no tensor tells. Raises InputError naming the tensor or the
    setting that does not fit.
    """
    found = {name: tensor for name, tensor in file.tree.items() if isinstance(tensor, Tensor)}
    sizes = model_sizes(file.path, found, vocabulary, intra)
    if sizes.grid != (pixels.height, pixels.width):
        raise InputError(
            f"{file.path}: its model reads {sizes.grid[0]} x {sizes.grid[1]} pixels, and {dataset} has "
            f"{pixels.height} x {pixels.width}; mend features.pixels in params.yaml"
        )
    captions = WORDS in found
    recipe, model = tensor_names.bare(dataset, NAME, SETTINGS, sizes, pixels, first=not captions)
    ours = shapes_of(model)
    tensors = checked(file.path, found, wanted(sizes, ours, captions), "the model", REMEDY)
    if captions and not torch.equal(found[HEADS_WORDS], found[WORDS]):
        raise InputError(f"{file.path}: {HEADS_WORDS} is not {WORDS}, which it is read by; download it again")
    tensors["images"] = torch.stack([tensors[side] for side in SIDES])
    trained = tensor_names.trained(recipe, seed, (3, *sizes.grid), vocabulary, vocabulary.longest)
    return trained, clip.taken(tensors, ours, place), model


def model_sizes(path: Path, found: Mapping[str, Tensor], vocabulary: Vocabulary, intra: int) -> ClipSizes:
    """The sizes, from the tensors' shapes."""
    if not isinstance(vocabulary, ClipVocabulary):
        raise InputError(f"{path} goes with CLIP's tokens; make the vocabulary by text.tokeniser: clip_bpe")
    clips = {name.removeprefix(CLIP): tensor for name, tensor in found.items() if name.startswith(CLIP)}
    whole = clip.sizes_of(path, clips, OPENAI)
    if not 0 <= intra <= whole.intra:
        raise InputError(f"{path}: its image tower has {whole.intra} blocks, --intra is {intra}; mend it")
    try:
        return replace(
            whole,
            longest=vocabulary.longest,
            heads=max(1, whole.width // HEAD),
            text_heads=max(1, whole.text_width // HEAD),
            caption_heads=max(1, whole.joint // HEAD),
            intra=intra,
            inter=whole.intra - intra,
            caption_layers=tensor_names.layers(found, r"decoder\.decoder\.layer\.(\d+)\."),
        )
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None


def wanted(sizes: ClipSizes, ours: Shapes, captions: bool) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all tensors of a checkpoint, theirs."""
    whole = theirs(clip.shapes(replace(sizes, intra=sizes.intra + sizes.inter)), OPENAI.names.place)
    found = {CLIP + name: shape for name, shape in whole.items()} | theirs(ours, place)
    sides = found.pop("images")[1:]
    table = {HEADS_WORDS: found[WORDS]} if captions else {}
    return found | dict.fromkeys(SIDES, sides) | table
