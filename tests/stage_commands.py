"""The commands of the stages for one small dataset, with their files."""

from pipeline.tabletop.dataset_card import write_card
from tests.running import set_params, succeed
from tests.synthetic import make_clevr_change

PAIRS, IMAGES = "data/pairs/tabletop.jsonl", "data/images/tabletop.jsonl"
STORE, VOCAB = "data/features/tabletop/grid.zarr", "data/vocab/tabletop.json"
RECIPE = "data/recipes/recipe.yaml"
CARD, MANIFEST = "data/cards/tabletop.yaml", "data/pairs/tabletop.manifest.json"
PREPARE = f"prepare --dataset tabletop --card {CARD} --pairs {PAIRS} --images {IMAGES} --manifest {MANIFEST}"
EXTRACT = (
    f"extract --dataset tabletop --pairs {PAIRS} --images {IMAGES} --out {STORE} --provenance extract.json"
)
MAKE_VOCAB = f"vocab --dataset tabletop --pairs {PAIRS} --out {VOCAB}"
MAKE_RECIPE = f"recipe --dataset tabletop --model scorer_cbr --out {RECIPE}"
INPUTS = f"--pairs {PAIRS} --vocab {VOCAB} --features data/features/tabletop"
DECODE = f"decode --weights weights/1 {INPUTS} --out captions.json --attention attention.npz"


def train_with(seed, to):
    outputs = f"--weights {to} --curves curves/{to} --provenance p.json --tokens plain"
    return f"train --recipe {RECIPE} --seed {seed} {INPUTS} {outputs}"


def raw(folder, scenes=10, **changes):
    """Write params.yaml, synthetic images and their card into the folder."""
    images = make_clevr_change(folder / "data/raw/tabletop", scenes=scenes, stop="")
    write_card(folder / CARD, images, "tabletop", [])
    set_params(folder, **changes)
    return folder


def trained(folder, to, scenes=10):
    """Run every stage up to training in the folder."""
    raw(folder, scenes)
    for command in (PREPARE, EXTRACT, MAKE_VOCAB, MAKE_RECIPE, train_with(1, to)):
        succeed(folder, command)
    return folder
