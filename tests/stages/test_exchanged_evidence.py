"""Each input of each stage and tool that reads another stage's outputs: exchanged, permuted, damaged.

Each change must end in exit code 2 and one line that names the file.
"""

import shutil
from contextlib import nullcontext

import pytest

from pipeline.scoring import meteor
from tests import identity_lab as lab
from tests.exchanges import (
    add_one,
    as_json,
    drop_line,
    exchange,
    flip,
    put,
    set_json,
    set_yaml,
    swap_captions,
    swap_lines,
    swap_width,
    swap_words,
)
from tests.folders import contents
from tests.identity_lab import ADAPTED, CAPTIONER, CELLS
from tests.running import refuse, succeed
from tests.stage_commands import IMAGES, MANIFEST, PAIRS, STORE, VOCAB

ONE, TWO = (f"{CELLS}/{CAPTIONER}/{seed}" for seed in lab.SEEDS)
FOUND, FOUND_TWO = (f"results/curves/tabletop/{ADAPTED}/pretrain/{seed}" for seed in lab.SEEDS)
FIRST, FIRST_TWO = (f"data/recipes/tabletop/{ADAPTED}/{seed}/pretrained" for seed in lab.SEEDS)
WEIGHTS = f"data/weights/tabletop/{CAPTIONER}/1"
CURVES, CURVES_TWO = (f"results/curves/tabletop/{CAPTIONER}/{seed}" for seed in lab.SEEDS)
COMMANDS = {
    "train": lab.train(CAPTIONER, 1),
    "train after first": lab.train(ADAPTED, 1),
    "pretrain": lab.pretrain(ADAPTED, 1),
    "score": lab.score(CAPTIONER, 1),
    "retrieve": lab.retrieve(ADAPTED, 1),
    "constant": lab.CONSTANT,
    "record": "record",
    "report": "report --out results/page",
    "compare": f"compare {ONE}/pairs.jsonl --against {TWO}/pairs.jsonl --resamples 10",
    "caption": "caption data/raw/tabletop/images/CLEVR_default_000000.png "
    f"data/raw/tabletop/images/CLEVR_default_000001.png --weights {WEIGHTS}",
}


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        quick(patched)
        return lab.make(tmp_path_factory.mktemp("lab"))


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    return lab.prepare(tmp_path_factory.mktemp("other"), other=True)


@pytest.fixture
def copy(once, tmp_path, monkeypatch):
    quick(monkeypatch)
    return shutil.copytree(once, tmp_path / "copy", symlinks=True)


def quick(patched):
    """METEOR's tables load for seconds, and no score is looked at here."""

    def scores(jvm, asked, subsets):
        half = dict.fromkeys(asked, 0.5)
        return meteor.Meteor(dict.fromkeys(subsets, 0.5), half, {key: [0.0] * 23 for key in asked})

    patched.setattr(meteor, "started", lambda asked, timeout: nullcontext())
    patched.setattr(meteor, "scores", scores)


DATA = {
    "captions of two pairs exchanged": (swap_lines(PAIRS, "captions"), PAIRS),
    "images of two pairs exchanged": (swap_lines(PAIRS, "after"), PAIRS),
    "pairs in another order": (swap_lines(PAIRS), PAIRS),
    "the last pair lost": (drop_line(PAIRS), PAIRS),
    "other pairs": (put(PAIRS), PAIRS),
}
WORDS = {
    "words in another order": (as_json(VOCAB, swap_words), VOCAB),
    "a longer longest caption": (set_json(VOCAB, "longest", value=30), VOCAB),
    "other words": (put(VOCAB), "tabletop.json"),
}
FEATURES = {
    "features of other images of the same names": (put(STORE), "grid.zarr"),
    "features in another order": (
        as_json(f"{STORE}/zarr.json", lambda t: t["attributes"]["keys"].reverse()),
        "grid.zarr",
    ),
}
MANIFESTS = {
    "another protocol": (set_json(MANIFEST, "protocol", value="merged"), MANIFEST),
    "another manifest": (put(MANIFEST), PAIRS),
}
INDEX = {
    "the width of an image": (swap_width(IMAGES), IMAGES),
    "another index": (put(IMAGES), IMAGES),
}
SCORES = {
    "a score": (set_json(f"{ONE}/metrics.json", "total", "BLEU-4", value=0.99), "metrics.json"),
    "scores of another seed": (exchange(f"{ONE}/metrics.json", f"{TWO}/metrics.json"), "1/"),
    "another seed": (exchange(ONE, TWO), f"{CAPTIONER}/"),
    "captions exchanged": (as_json(f"{ONE}/captions.json", swap_captions), "captions.json"),
    "a word of a caption": (flip(f"{ONE}/pairs.jsonl", -30), "pairs.jsonl"),
    "scores of two pairs exchanged": (swap_lines(f"{ONE}/pairs.jsonl", "CIDEr-D"), "pairs.jsonl"),
    "a score of a pair": (add_one(f"{ONE}/pairs.jsonl"), "pairs.jsonl"),
    "curves of another seed": (exchange(CURVES, CURVES_TWO), "validation.csv"),
    "weights of another seed": (
        put(f"data/weights/tabletop/{CAPTIONER}/2/weights.safetensors", to=f"{WEIGHTS}/weights.safetensors"),
        "weights.safetensors",
    ),
}
PHASE = {
    "weights of another seed": (
        put(f"{FIRST_TWO}/weights.safetensors", to=f"{FIRST}/weights.safetensors"),
        "weights.safetensors",
    ),
    "another seed": (put(FIRST_TWO, to=FIRST), f"{ADAPTED}/2"),
    "a bit of the weights": (flip(f"{FIRST}/weights.safetensors"), "weights.safetensors"),
    "other settings": (
        set_yaml(f"{FIRST}/model.yaml", "recipe", "adapt", "learning_rate", value=0.5, hashed=True),
        "model.yaml",
    ),
}
# `train` tries every change of the data, and `report` every one of the scores
PAIR = {name: DATA[name] for name in ("captions of two pairs exchanged", "other pairs")}
STORES = {
    "features of other images of the same names": FEATURES["features of other images of the same names"]
}
CASES = {
    "train": DATA
    | WORDS
    | FEATURES
    | {
        "another data set": (put(PAIRS, MANIFEST), PAIRS),
        "another manifest": (put(MANIFEST), PAIRS),
        "another model's recipe": (
            put(
                f"data/recipes/tabletop/{ADAPTED}/1/recipe.yaml",
                to=f"data/recipes/tabletop/{CAPTIONER}/1/recipe.yaml",
            ),
            CAPTIONER,
        ),
        "another store that start noted": (
            set_json(f"data/recipes/tabletop/{CAPTIONER}/1/inputs.json", "sha256", value="0" * 64),
            "inputs.json",
        ),
    },
    "train after first": PHASE | STORES,
    "pretrain": PAIR | STORES | {"other words": WORDS["other words"]},
    "score": PAIR
    | MANIFESTS
    | INDEX
    | {
        "captions exchanged": (as_json(f"{ONE}/captions.json", swap_captions), "attention.npz"),
        "captions of another seed": (
            exchange(f"{ONE}/captions.json", f"{TWO}/captions.json"),
            "attention.npz",
        ),
        "captions and attention of another seed": (exchange(ONE, TWO), "attention.npz"),
        "attention of another seed": (
            exchange(f"{ONE}/attention.npz", f"{TWO}/attention.npz"),
            "attention.npz",
        ),
        "a bit of the attention": (flip(f"{ONE}/attention.npz", 3000), "attention.npz"),
        "other pairs, prepared": (put(PAIRS, MANIFEST, IMAGES), "attention.npz"),
    },
    "retrieve": {name: case for name, case in PHASE.items() if name != "other settings"}
    | PAIR
    | STORES
    | {"other words": WORDS["other words"]},
    "constant": PAIR | MANIFESTS,
    "record": {name: SCORES[name] for name in ("a score", "another seed", "a word of a caption")} | PAIR,
    "report": SCORES
    | PAIR
    | INDEX
    | {
        "attention of another seed": (
            exchange(f"{ONE}/attention.npz", f"{TWO}/attention.npz"),
            "attention.npz",
        ),
        "a score of the constant caption": (
            set_json(f"{CELLS}/constant/metrics.json", "total", "BLEU-4", value=0.9),
            "constant/metrics.json",
        ),
        "the constant caption": (flip(f"{CELLS}/constant/captions.json", -10), "constant/captions.json"),
        "retrieval of another seed": (
            exchange(f"{FOUND}/retrieval.json", f"{FOUND_TWO}/retrieval.json"),
            "retrieval.json",
        ),
        "a figure of the retrieval": (
            set_json(f"{FOUND}/retrieval.json", "text_to_pair", "R@1", value=0.9),
            "retrieval.json",
        ),
        "ranks of two pairs": (swap_lines(f"{FOUND}/retrieved.jsonl", "text_to_pair"), "retrieved.jsonl"),
        "ranks of another seed": (
            exchange(f"{FOUND}/retrieved.jsonl", f"{FOUND_TWO}/retrieved.jsonl"),
            "retrieved.jsonl",
        ),
    },
    "compare": {
        name: SCORES[name]
        for name in ("a word of a caption", "scores of two pairs exchanged", "a score of a pair")
    }
    | {"the pairs of another seed": (exchange(f"{ONE}/pairs.jsonl", f"{TWO}/pairs.jsonl"), "pairs.jsonl")},
    "caption": WORDS
    | {
        "weights of another seed": SCORES["weights of another seed"],
        "a bit of the weights": (flip(f"{WEIGHTS}/weights.safetensors"), "weights.safetensors"),
        "another run's weights": (put(f"data/weights/tabletop/{CAPTIONER}/2", to=WEIGHTS), f"{CAPTIONER}/2"),
        "features in another order": FEATURES["features in another order"],
    },
}
EACH = [(name, case) for name, cases in CASES.items() for case in cases]


@pytest.mark.parametrize(("name", "case"), EACH, ids=[f"{name}: {case}" for name, case in EACH])
def test_what_is_exchanged_permuted_or_damaged_is_named(copy, other, name, case):
    change, named = CASES[name][case]
    before = contents(copy)
    change(copy, other)
    assert contents(copy) != before
    changed = contents(copy)
    refuse(copy, COMMANDS[name], named)
    assert contents(copy) == changed


def test_sound_inputs_are_taken_and_give_the_same_scores(copy):
    for name in COMMANDS:
        if name not in ("train", "train after pretrain", "pretrain"):
            done = succeed(copy, COMMANDS[name])
            assert "note: " not in done.stderr, name
