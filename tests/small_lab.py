"""A small project with random weights: everything that captioning needs, without training."""

from pathlib import Path

import torch

from models import MODELS
from pipeline.config import params, recipe_file, resolving
from pipeline.text import vocabularies
from pipeline.weights import trained_model
from pipeline.weights.model_description import Trained
from tests.running import succeed
from tests.stage_commands import IMAGES, MAKE_VOCAB, PAIRS, PREPARE, VOCAB, raw

STORES = "data/features/tabletop"
STAGES = (
    PREPARE,
    *(
        f"extract --dataset tabletop --input {input} --pairs {PAIRS} --images {IMAGES} "
        f"--out {STORES}/{input}.zarr --provenance extract.json"
        for input in ("grid", "pixels")
    ),
    MAKE_VOCAB,
)
BEFORE, AFTER = (
    f"data/raw/tabletop/{name}_000001.png" for name in ("images/CLEVR_default", "sc_images/CLEVR_semantic")
)
SHAPES = {"grid": (272, 4, 4), "pixels": (3, 32, 48)}


def make_lab(folder: Path, *models: str, scenes: int = 10) -> Path:
    """Prepare a dataset with its features and vocabulary, and random weights of the models."""
    raw(folder, scenes, dataset__tabletop__features__pixels=list(SHAPES["pixels"][1:]))
    for command in STAGES:
        succeed(folder, command)
    for model in models:
        add_weights(folder, model)
    return folder


def add_weights(folder: Path, model: str, seed: int = 1, shape: tuple[int, int, int] | None = None) -> Path:
    """Save random weights of a model; they are large, so that captions differ.

    `shape`: shape of the features, if it is not the embedded dataset's
    """
    vocabulary = vocabularies.load(folder / VOCAB)
    recipe = resolving.resolve(params.load(folder / "params.yaml"), "tabletop", model)
    shape = shape or SHAPES[recipe.input]
    sizes = recipe.sizes_for(shape, len(vocabulary), vocabulary.longest)
    torch.manual_seed(seed)
    built = recipe_file.build(recipe, sizes)
    weights = {name: tensor * (2 if tensor.dim() > 1 else 1) for name, tensor in built.state_dict().items()}
    place = folder / f"data/weights/tabletop/{model}/{seed}"
    trained_model.save(
        place, Trained(recipe, seed, shape, len(vocabulary), vocabulary.longest, 1, 0.5), weights
    )
    return place


ALL = tuple(MODELS)
