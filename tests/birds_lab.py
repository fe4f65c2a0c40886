"""Small Birds-to-Words, CUB and NABirds, as the stages before pre-training leave them."""

import numpy as np
from safetensors.torch import load_file

from pipeline.config import params, recipe_file, resolving
from pipeline.datasets.images import read_index
from pipeline.datasets.schema import Pair, images_of, write_pairs
from pipeline.features.writer import Writer
from pipeline.text import vocabularies
from tests.birds import COLOURS, make_birds
from tests.running import set_params, succeed

BIRDS, OWN = "birds_to_words", "dataset__birds_to_words__models__idc_pcl"
TINY = {
    **{f"{OWN}__{phase}__iterations": 4 for phase in ("images", "pretrain")},
    **{f"{OWN}__{phase}__validate_every": 2 for phase in ("images", "pretrain")},
    **{f"{OWN}__{phase}__batch": 4 for phase in ("images", "pretrain")},
    **{f"{OWN}__{phase}__fda_pairs": 2 for phase in ("images", "pretrain")},
    # class_pairs above all: four iterations should have it
    f"{OWN}__pretrain__tasks": {"mlm": 1.0, "mvcl": 1.0, "fda": 1.0, "class_pairs": 3.0},
    f"{OWN}__images__max_tokens": 12,
    f"{OWN}__train__select_after": 0,
    f"{OWN}__sizes": {"width": 8, "heads": 2, "single": 1, "pair": 1, "cross": 1, "pool": 2},
    "dataset__birds_to_words__text__counted_with": "cub",
    "pretraining__root__cub": "raw/cub",
    "pretraining__root__nabirds": "raw/nabirds",
    "pretraining__datasets": ["cub", "nabirds"],
    "model__idc_pcl__switches": {"extra_data": "cub_nabirds"},
}
START = (
    f"recipe --dataset {BIRDS} --model idc_pcl --out recipe.yaml --features data/features/{BIRDS} "
    "--inputs inputs.json"
)
PATHS = f"--pairs data/pairs/{BIRDS}.jsonl --vocab vocab.json --features data/features/{BIRDS}"


def said(number):
    first, second = COLOURS[number % 7], COLOURS[(number + 3) % 7]
    return f"animal1 has a {first} head and animal2 has a {second} head."


def make_pairs():
    splits = ["train"] * 12 + ["val"] * 4 + ["test"] * 2
    return [Pair(f"p{n}", f"s{n}", split, f"{n}a", f"{n}b", (said(n),)) for n, split in enumerate(splits)]


def fill(root, store, keys):
    """Write random features with the description of ResNet-101's, which the recipe asks for."""
    spec = resolving.resolve(params.load(root / "params.yaml"), BIRDS, "idc_pcl").features
    writer = Writer(root / "scratch", len(keys), (5, 4, 4))
    random = np.random.default_rng(len(keys)).standard_normal((len(keys), 5, 4, 4))
    writer.write(0, random.astype(np.float16))
    writer.finish(root / store, {"keys": list(keys), **spec})


def prepare(root):
    set_params(root, **TINY)
    make_birds(root / "raw/cub")
    make_birds(root / "raw/nabirds", captions=False)
    for name in ("cub", "nabirds"):
        records = f"data/pretraining/records/{name}"
        succeed(root, f"prepare --dataset {name} --records {records}")
        keys = [image.name for image in read_index(root / records / "images.jsonl")]
        fill(root, f"data/pretraining/stores/{name}/grid.zarr", keys)
    write_pairs(root / f"data/pairs/{BIRDS}.jsonl", make_pairs())
    fill(root, f"data/features/{BIRDS}/grid.zarr", images_of(make_pairs()))
    pairs = f"--dataset {BIRDS} --pairs data/pairs/{BIRDS}.jsonl"
    succeed(root, f"vocab {pairs} --out vocab.json")
    return root


def resolve(root, name="recipe.yaml", **changes):
    set_params(root, **(TINY | changes))
    succeed(root, f"recipe --dataset {BIRDS} --model idc_pcl --out {name}")
    return recipe_file.load(root / name)


def command(out, seed=1, recipe="recipe.yaml"):
    places = f"--weights {out}/first --curves {out}/curves --provenance {out}/provenance.json"
    return f"pretrain --recipe {recipe} --seed {seed} {PATHS} {places}"


def vocabulary(root):
    return vocabularies.load(root / "vocab.json")


def left(root, out):
    weights = load_file(root / out / "first/weights.safetensors")
    curves = {file.name: file.read_bytes() for file in (root / out / "curves").rglob("*.csv")}
    return weights, curves
