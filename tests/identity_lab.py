"""A small project in DVC's folders: two models with two seeds, up to their scores; and other data."""

import json
import shutil
from itertools import product
from pathlib import Path

from PIL import ImageOps

from pipeline.datasets import images
from tests.running import ROOT, set_params, succeed
from tests.stage_commands import EXTRACT, IMAGES, INPUTS, MAKE_VOCAB, MANIFEST, PAIRS, PREPARE, raw
from tests.study_lab import STAGES

CAPTIONER, ADAPTED = "scorer_cbr", "clip4idc"
MODELS, SEEDS = (CAPTIONER, ADAPTED), (1, 2)
RUNS = "results/runs/tabletop"
SMALL = {"width": 16, "heads": 2, "intra": 1, "inter": 2, "text_width": 16, "text_heads": 2}
SMALL |= {"text_layers": 1, "joint": 16, "caption_heads": 2, "caption_layers": 1}
OWN = "dataset__tabletop__models__clip__"
SETTINGS = {f"{OWN}sizes__{name}": value for name, value in SMALL.items()}
SETTINGS |= {f"{OWN}adapt__iterations": 2, f"{OWN}adapt__batch": 4, f"{OWN}adapt__validate_every": 1}
SETTINGS |= {"models": [*MODELS], "seeds": [*SEEDS], "report__gallery": 2, "report__constant_candidates": 3}


def commands(model: str, seed: int) -> dict[str, str]:
    """Return the command of each stage of a run."""
    run, weights = f"data/recipes/tabletop/{model}/{seed}", f"data/weights/tabletop/{model}/{seed}"
    curves, scores = f"results/curves/tabletop/{model}", f"{RUNS}/{model}/{seed}"
    return {
        "recipe": f"recipe --dataset tabletop --model {model} --features data/features/tabletop "
        f"--weights {weights} --out {run}/recipe.yaml --pretrain {run}/pretrain.yaml "
        f"--inputs {run}/inputs.json",
        "pretrain": f"pretrain --recipe {run}/pretrain.yaml --seed {seed} {INPUTS} "
        f"--weights {run}/pretrained --curves {curves}/pretrain/{seed} --provenance p.json",
        "train": f"train --recipe {run}/recipe.yaml --seed {seed} {INPUTS} --start-from {run} "
        f"--weights {weights} --curves {curves}/{seed} --provenance p.json --tokens plain",
        "decode": f"decode --weights {weights} {INPUTS} --out {scores}/captions.json "
        f"--attention {scores}/attention.npz",
        "score": f"score --captions {scores}/captions.json --pairs {PAIRS} --dataset tabletop "
        f"--manifest {MANIFEST} --attention {scores}/attention.npz --images {IMAGES} "
        f"--out {scores}/metrics.json --summary {scores}/summary.json --per-pair {scores}/pairs.jsonl",
        "retrieve": f"retrieve --pretrained {run}/pretrained {INPUTS} --out retrieved",
    }


CONSTANT = (
    f"constant --dataset tabletop --pairs {PAIRS} --manifest {MANIFEST} "
    f"--captions {RUNS}/constant/captions.json "
    f"--out {RUNS}/constant/metrics.json --summary {RUNS}/constant/summary.json"
)


def make(folder: Path) -> Path:
    """Run all stages except the report."""
    prepare(folder)
    for model, seed in product(MODELS, SEEDS):
        stages = ("recipe", *(["pretrain"] * (model == ADAPTED)), "train", "decode", "score")
        for stage in stages:
            succeed(folder, commands(model, seed)[stage])
    succeed(folder, CONSTANT)
    for name in ("models", "pipeline", "stages", "commands"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "dvc.yaml", folder / "dvc.yaml")
    (folder / "dvc.lock").write_text(json.dumps({"stages": STAGES}))
    (folder / "data/published").mkdir()
    return folder


def prepare(folder: Path, other: bool = False) -> Path:
    """Prepare the data; `other`: with inverted images and other captions, under the same names."""
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
