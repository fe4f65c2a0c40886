"""A small repository whose cells are made up: what the report reads, without training anything."""

import json
from pathlib import Path
from typing import Any

import yaml

from pipeline import datasets, images, params
from pipeline.datasets.schema import Pair, images_of, of_split, write_pairs
from pipeline.scoring.subsets import subsets
from tests.synthetic import make_clevr_change

PARAMS = Path(__file__).parents[1] / "params.yaml"
SCENES = 100  # 10 of them, two of each change type, are test scenes
METRICS = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "METEOR", "ROUGE-L", "CIDEr-D")


def make_study(
    root: Path, names: tuple[str, ...] = ("tabletop",), models=("subtraction", "scorer"), seeds=(1, 2)
) -> params.Params:
    """Data, cells and curves of each dataset under `root`, and the params.yaml that lists them."""
    tree = yaml.safe_load(PARAMS.read_text())
    for name in names:
        tree["dataset"][name] = tree["dataset"]["tabletop"] | {
            "prepare": {"reader": "clevr_change", "root": f"data/raw/{name}"}
        }
    tree |= {"datasets": list(names), "models": list(models), "seeds": list(seeds)}
    (root / "params.yaml").write_text(yaml.safe_dump(tree))
    for name in names:
        pairs = make_data(root, name)
        write_json(root / "results/cells" / name / "constant/metrics.json", metrics(pairs, 0.25))
        write_json(root / "results/cells" / name / "constant/captions.json", captions(pairs, "no change"))
        for place, model in enumerate(models):
            for seed in seeds:
                make_cell(root, name, model, seed, pairs, 0.5 + 0.1 * place + 0.01 * seed)
    return params.load(root / "params.yaml")


def make_data(root: Path, name: str) -> list[Pair]:
    """The dataset's images, index and pairs; returns its test pairs."""
    folder = make_clevr_change(root / "data/raw" / name, SCENES, size=(48, 32))
    pairs = datasets.read("clevr_change", folder)
    (root / "data/pairs").mkdir(exist_ok=True)
    write_pairs(root / "data/pairs" / f"{name}.jsonl", pairs)
    test = of_split(pairs, "test")
    images.write_index(root / "data/images" / f"{name}.jsonl", images.index(folder, images_of(test)))
    return test


def make_cell(root: Path, name: str, model: str, seed: int, pairs: list[Pair], score: float) -> None:
    """A cell all of whose scores follow from `score`."""
    folder = root / "results/cells" / name / model / str(seed)
    write_json(folder / "metrics.json", metrics(pairs, score))
    write_json(folder / "captions.json", captions(pairs, f"the ball moved, says {model} {seed}"))
    scored = [{"pair_id": pair.pair_id, "caption": "", "CIDEr-D": score} for pair in pairs]
    (folder / "pairs.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in scored))
    curves = root / "results/curves" / name / model / str(seed)
    curves.mkdir(parents=True)
    terms = "cap,cv" if model == "scorer" else "cap"
    losses = [f"{10 * n},{','.join([str(score / n)] * len(terms.split(',')))}" for n in range(1, 31)]
    (curves / "loss.csv").write_text("\n".join([f"iteration,{terms}", *losses]) + "\n")
    (curves / "validation.csv").write_text(f"iteration,CIDEr-D\n150,{score / 2}\n300,{score}\n")


def metrics(pairs: list[Pair], score: float) -> dict[str, Any]:
    """A metrics.json whose every value is another one."""
    parts = ["total", *subsets(pairs)]
    values = {
        part: {name: round(score + 0.01 * p + 0.001 * m, 6) for m, name in enumerate(METRICS)}
        for p, part in enumerate(parts)
    }
    return values | {"change_accuracy": round(score / 2, 6), "scorers": {"METEOR": "1.5"}}


def captions(pairs: list[Pair], caption: str) -> list[dict[str, str]]:
    return [{"image_id": pair.pair_id, "caption": caption} for pair in pairs]


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
