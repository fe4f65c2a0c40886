"""A small laboratory at DVC's own places: two models of two seeds, scored; and data of equal names."""

import json
import shutil
from pathlib import Path

from PIL import ImageOps

from pipeline.datasets import images
from tests.running import ROOT, set_params, succeed
from tests.stage_commands import EXTRACT, IMAGES, INPUTS, MAKE_VOCAB, MANIFEST, PAIRS, PREPARE, raw
from tests.study_lab import STAGES

CAPTIONER, ADAPTED = "scorer_cbr", "clip4idc"
MODELS, SEEDS = (CAPTIONER, ADAPTED), (1, 2)
CELLS = "results/cells/tabletop"
SMALL = {"width": 16, "heads": 2, "intra": 1, "inter": 2, "text_width": 16, "text_heads": 2}
SMALL |= {"text_layers": 1, "joint": 16, "caption_heads": 2, "caption_layers": 1}
OWN = "dataset__tabletop__own__clip__"
SETTINGS = {f"{OWN}sizes__{name}": value for name, value in SMALL.items()}
SETTINGS |= {f"{OWN}adapt__iterations": 2, f"{OWN}adapt__batch": 4, f"{OWN}adapt__validate_every": 1}
SETTINGS |= {"models": [*MODELS], "seeds": [*SEEDS], "report__gallery": 2, "report__constant_candidates": 3}


def recipe(model: str, seed: int) -> str:
    run = f"data/recipes/tabletop/{model}/{seed}"
    return (
        f"recipe --dataset tabletop --model {model} --features data/features/tabletop "
        f"--weights data/weights/tabletop/{model}/{seed} --out {run}/recipe.yaml "
        f"--pretrain {run}/pretrain.yaml --inputs {run}/inputs.json"
    )


def pretrain(model: str, seed: int) -> str:
    run = f"data/recipes/tabletop/{model}/{seed}"
    return (
        f"pretrain --recipe {run}/pretrain.yaml --seed {seed} {INPUTS} --weights {run}/pretrained "
        f"--curves results/curves/tabletop/{model}/pretrain/{seed} --provenance p.json"
    )


def train(model: str, seed: int) -> str:
    return (
        f"train --recipe data/recipes/tabletop/{model}/{seed}/recipe.yaml --seed {seed} {INPUTS} "
        f"--start-from data/recipes/tabletop/{model}/{seed} --weights data/weights/tabletop/{model}/{seed} "
        f"--curves results/curves/tabletop/{model}/{seed} --provenance p.json"
    )


def decode(model: str, seed: int) -> str:
    cell = f"{CELLS}/{model}/{seed}"
    out = f"--out {cell}/captions.json --attention {cell}/attention.npz"
    return f"decode --weights data/weights/tabletop/{model}/{seed} {INPUTS} {out}"


def score(model: str, seed: int) -> str:
    cell = f"{CELLS}/{model}/{seed}"
    return (
        f"score --captions {cell}/captions.json --pairs {PAIRS} --dataset tabletop --manifest {MANIFEST} "
        f"--attention {cell}/attention.npz --images {IMAGES} --out {cell}/metrics.json "
        f"--summary {cell}/summary.json --per-pair {cell}/pairs.jsonl"
    )


def retrieve(model: str, seed: int) -> str:
    first = f"data/recipes/tabletop/{model}/{seed}/pretrained"
    return f"retrieve --first {first} {INPUTS} --out retrieved"


CONSTANT = (
    f"constant --dataset tabletop --pairs {PAIRS} --manifest {MANIFEST} "
    f"--captions {CELLS}/constant/captions.json "
    f"--out {CELLS}/constant/metrics.json --summary {CELLS}/constant/summary.json"
)
RUN = (recipe, train, decode, score)
ADAPTED_RUN = (recipe, pretrain, train, decode, score)


def make(folder: Path) -> Path:
    """All stages, but for the report."""
    prepare(folder)
    for model in MODELS:
        for seed in SEEDS:
            for command in ADAPTED_RUN if model == ADAPTED else RUN:
                succeed(folder, command(model, seed))
    succeed(folder, CONSTANT)
    for name in ("models", "pipeline", "stages", "commands"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "dvc.yaml", folder / "dvc.yaml")
    (folder / "dvc.lock").write_text(json.dumps({"stages": STAGES}))
    (folder / "data/published").mkdir()
    return folder


def prepare(folder: Path, other: bool = False) -> Path:
    """The data; `other`: the same names of negatives of the pictures, and other captions."""
    raw(folder, 20)
    set_params(folder, **SETTINGS)
    if other:
        for file in (folder / "data/raw/tabletop").rglob("*.png"):
            ImageOps.invert(images.decode(file.read_bytes(), file.name)).save(file)
        for file in (folder / "data/raw/tabletop").rglob("*captions*.json"):
            tree = json.loads(file.read_text())
            changed = {name: [f"surely {text}" for text in own] for name, own in tree.items()}
            file.write_text(json.dumps(changed))
    for command in (PREPARE, EXTRACT, MAKE_VOCAB):
        succeed(folder, command)
    return folder
