"""Inputs of stages and commands that are exchanged, permuted or damaged are refused by name."""

import shutil

import pytest
import yaml

from pipeline.scoring import meteor
from tests import identity_lab as lab
from tests.exchanges import exchange, flip, put, set_json, swap_lines, swap_words
from tests.folders import contents
from tests.forged import forge
from tests.identity_lab import ADAPTED, CAPTIONER, RUNS
from tests.running import refuse, succeed
from tests.stage_commands import IMAGES, MANIFEST, PAIRS, STORE, VOCAB

ONE, TWO = (f"{RUNS}/{CAPTIONER}/{seed}" for seed in lab.SEEDS)
CURVES, CURVES_TWO = (f"results/curves/tabletop/{CAPTIONER}/{seed}" for seed in lab.SEEDS)
RETRIEVAL, RETRIEVAL_TWO = (f"results/curves/tabletop/{ADAPTED}/pretrain/{seed}" for seed in lab.SEEDS)
FIRST, FIRST_TWO = (f"data/recipes/tabletop/{ADAPTED}/{seed}/pretrained" for seed in lab.SEEDS)
WEIGHTS, WEIGHTS_TWO = (f"data/weights/tabletop/{CAPTIONER}/{seed}" for seed in lab.SEEDS)
TENSORS = "weights.safetensors"
RECIPES = f"data/recipes/tabletop/{CAPTIONER}/1"
IMAGE = "data/raw/tabletop/images/CLEVR_default_00000"
PLAIN, PRETRAINED = lab.commands(CAPTIONER, 1), lab.commands(ADAPTED, 1)
COMMANDS = {
    "train": PLAIN["train"],
    "train after pretrain": PRETRAINED["train"],
    "pretrain": PRETRAINED["pretrain"],
    "score": PLAIN["score"],
    "retrieve": PRETRAINED["retrieve"],
    "constant": lab.CONSTANT,
    "record": "record",
    "report": "report --out results/page",
    "compare": f"compare {ONE}/pairs.jsonl --against {TWO}/pairs.jsonl --resamples 10",
    "caption": f"caption {IMAGE}0.png {IMAGE}1.png --weights {WEIGHTS}",
}


def other_settings(folder, _):
    """Change a setting of pre-training in model.yaml, with the right hash."""
    file = folder / FIRST / "model.yaml"
    tree = yaml.safe_load(file.read_text())
    tree["recipe"]["phases"]["adapt"]["learning_rate"] = 0.5
    file.write_text(yaml.safe_dump(tree, sort_keys=False))
    forge(file.parent)


CASES = [  # command, change, what the message names
    ("train", swap_lines(PAIRS, "captions"), PAIRS),
    ("train", put(PAIRS, MANIFEST), PAIRS),
    ("train", swap_words(VOCAB), VOCAB),
    ("train", put(VOCAB), "tabletop.json"),
    ("train", put(STORE), "grid.zarr"),
    ("train", put(f"data/recipes/tabletop/{ADAPTED}/1/recipe.yaml", to=f"{RECIPES}/recipe.yaml"), CAPTIONER),
    ("train", set_json(f"{RECIPES}/inputs.json", "sha256", value="0" * 64), "inputs.json"),
    ("train after pretrain", put(f"{FIRST_TWO}/{TENSORS}", to=f"{FIRST}/{TENSORS}"), TENSORS),
    ("train after pretrain", put(FIRST_TWO, to=FIRST), f"{ADAPTED}/2"),
    ("train after pretrain", other_settings, "model.yaml"),
    ("pretrain", put(PAIRS), PAIRS),
    ("pretrain", put(STORE), "grid.zarr"),
    ("score", put(MANIFEST), PAIRS),
    ("score", put(IMAGES), IMAGES),
    ("score", put(PAIRS, MANIFEST, IMAGES), "attention.npz"),
    ("score", exchange(f"{ONE}/captions.json", f"{TWO}/captions.json"), "attention.npz"),
    ("score", flip(f"{ONE}/attention.npz", 3000), "attention.npz"),
    ("retrieve", flip(f"{FIRST}/{TENSORS}"), TENSORS),
    ("retrieve", put(STORE), "grid.zarr"),
    ("constant", put(MANIFEST), PAIRS),
    ("record", set_json(f"{ONE}/metrics.json", "total", "BLEU-4", value=0.99), "metrics.json"),
    ("record", exchange(ONE, TWO), f"{CAPTIONER}/"),
    ("report", set_json(f"{ONE}/metrics.json", "total", "BLEU-4", value=0.99), "metrics.json"),
    ("report", exchange(ONE, TWO), f"{CAPTIONER}/"),
    ("report", exchange(CURVES, CURVES_TWO), "validation.csv"),
    ("report", put(f"{WEIGHTS_TWO}/{TENSORS}", to=f"{WEIGHTS}/{TENSORS}"), TENSORS),
    ("report", exchange(f"{ONE}/attention.npz", f"{TWO}/attention.npz"), "attention.npz"),
    ("report", flip(f"{RUNS}/constant/captions.json", -10), "constant/captions.json"),
    ("report", exchange(f"{RETRIEVAL}/retrieval.json", f"{RETRIEVAL_TWO}/retrieval.json"), "retrieval.json"),
    ("report", swap_lines(f"{RETRIEVAL}/retrieved.jsonl", "text_to_pair"), "retrieved.jsonl"),
    ("compare", swap_lines(f"{ONE}/pairs.jsonl", "CIDEr-D"), "pairs.jsonl"),
    ("compare", exchange(f"{ONE}/pairs.jsonl", f"{TWO}/pairs.jsonl"), "pairs.jsonl"),
    ("caption", swap_words(VOCAB), VOCAB),
    ("caption", flip(f"{WEIGHTS}/{TENSORS}"), TENSORS),
    ("caption", put(WEIGHTS_TWO, to=WEIGHTS), f"{CAPTIONER}/2"),
]


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
    """Replace METEOR, whose tables load for seconds."""

    def statistics(captions, references, timeout):
        return {key: [0.0] * 23 for key in captions}

    patched.setattr(meteor, "statistics", statistics)


@pytest.mark.parametrize(("command", "change", "named"), CASES)
def test_a_changed_input_is_named(copy, other, command, change, named):
    before = contents(copy)
    change(copy, other)
    changed = contents(copy)
    assert changed != before
    refuse(copy, COMMANDS[command], named)
    assert contents(copy) == changed


def test_unchanged_inputs_are_accepted(copy):
    for name in COMMANDS.keys() - {"train", "train after pretrain", "pretrain"}:
        assert "note: " not in succeed(copy, COMMANDS[name]).stderr, name
