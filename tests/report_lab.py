"""A small repository with made-up runs, for tests of the report."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from pipeline.config import params
from pipeline.datasets import images, manifest, readers
from pipeline.datasets.manifest import Manifest
from pipeline.datasets.schema import Pair, images_of, of_split, write_pairs
from pipeline.decoding import attention_maps
from pipeline.decoding.attention_maps import Attended
from pipeline.io.content_hashes import with_hashes
from pipeline.scoring.metric_names import CORPUS
from pipeline.scoring.subsets import subsets
from tests import project_params
from tests.scored import SCORED
from tests.synthetic import make_clevr_change

SCENES = 100  # 10 of them, two of each change type, are test scenes
GRID = (4, 4)  # cells of attention
PATCHES = (2, 3)  # the same of a model of pixels
WEIGHED = ("before", "difference", "after")  # by the dynamic speaker, duda's
ADAPTED = ("clip4idc", "clip4idc_again")  # models of pixels; the second one has the first one's settings
QUARTILES = tuple(f"viewpoint_iou_q{number}" for number in range(1, 5))
METRICS = ("BLEU-1", "BLEU-2", "BLEU-3", *CORPUS)


def make_study(
    root: Path, names: tuple[str, ...] = ("tabletop",), models=("subtraction", "scorer"), seeds=(1, 2)
) -> params.Params:
    """Data, runs and curves of each dataset under `root`, and the params.yaml that lists them."""
    tree = project_params.tree()
    for name in names:
        tree["dataset"][name] = tree["dataset"]["tabletop"] | {
            "prepare": {"reader": "clevr_change", "root": f"data/raw/{name}", "protocol": None}
        }
    tree["model"]["clip4idc_again"] = tree["model"]["clip4idc"]
    tree |= {"datasets": list(names), "models": list(models), "seeds": list(seeds)}
    project_params.save(root, tree)
    write_published(root / "data/published")
    for name in names:
        pairs = make_data(root, name)
        write_hashed(root / "results/runs" / name / "constant/metrics.json", metrics(pairs, 0.25))
        still = captions(pairs, lambda _: "no change")
        write_json(root / "results/runs" / name / "constant/captions.json", still)
        for place, model in enumerate(models):
            for seed in seeds:
                make_cell(root, name, model, seed, pairs, 0.5 + 0.1 * place + 0.01 * seed)
    return params.load(root / "params.yaml")


def make_data(root: Path, name: str) -> list[Pair]:
    """The dataset's images, index and pairs; returns its test pairs."""
    folder = make_clevr_change(root / "data/raw" / name, SCENES, size=(48, 32))
    pairs = readers.read("clevr_change", folder)
    (root / "data/pairs").mkdir(exist_ok=True)
    write_pairs(root / "data/pairs" / f"{name}.jsonl", pairs)
    manifest.write(root / "data/pairs" / f"{name}.manifest.json", Manifest("clevr_change", None, {}, {}))
    test = of_split(pairs, "test")
    images.write_index(root / "data/images" / f"{name}.jsonl", images.index(folder, images_of(test)))
    return test


def make_cell(root: Path, name: str, model: str, seed: int, pairs: list[Pair], score: float) -> None:
    """Write a run with scores near `score`. All models except subtraction recognise unchanged pairs."""

    def said(pair: Pair) -> str:
        still = model != "subtraction" and not pair.changed
        return f"{'nothing has changed' if still else 'the ball moved'}, says {model} {seed}"

    folder = root / "results/runs" / name / model / str(seed)
    write_hashed(folder / "metrics.json", metrics(pairs, score))
    write_json(folder / "captions.json", captions(pairs, said))
    write_lines(folder / "pairs.jsonl", [scored(pair, said(pair), score) for pair in pairs])
    looked = {pair.pair_id: attended(said(pair), place, model) for place, pair in enumerate(pairs)}
    attention_maps.write(folder / "attention.npz", looked)
    curves = root / "results/curves" / name / model / str(seed)
    curves.mkdir(parents=True)
    terms = "cap,cv" if model == "scorer" else "cap"
    losses = [f"{10 * n},{','.join([str(score / n)] * len(terms.split(',')))}" for n in range(1, 31)]
    (curves / "loss.csv").write_text("\n".join([f"iteration,{terms}", *losses]) + "\n")
    (curves / "validation.csv").write_text(f"iteration,CIDEr-D\n150,{score / 2}\n300,{score}\n")
    if model in ADAPTED:
        earlier = curves.parent / "pretrain" / str(seed)
        earlier.mkdir(parents=True)
        (earlier / "loss.csv").write_text("iteration,retrieval\n10,7.5\n20,7.25\n")
        (earlier / "validation.csv").write_text("iteration,R@1\n20,0.5\n")
        make_retrieval(earlier, pairs, score)


def make_retrieval(folder: Path, pairs: list[Pair], score: float) -> None:
    """Write the retrieval results of the stage pretrain; R@1 is `score`."""
    changed = [pair for pair in pairs if pair.changed]
    each = {"R@1": score, "R@5": 0.8, "R@10": 1.0, "MdR": 1.5, "MnR": 2.25}
    ways = dict.fromkeys(("text_to_pair", "text_to_pair_shared", "pair_to_text"), each)
    chance = {"R@1": 0.1, "R@5": 0.5, "R@10": 1.0, "MdR": 5.5, "MnR": 5.5}
    counted = {"ties": "strict", "pairs": len(changed), "sentences": 10 * len(changed)}
    write_hashed(folder / "retrieval.json", counted | ways | {"chance": chance})
    write_lines(folder / "retrieved.jsonl", [{"pair_id": pair.pair_id} for pair in changed])


def metrics(pairs: list[Pair], score: float) -> dict[str, Any]:
    """Return a metrics.json in which all values differ."""
    parts = ["total", *dict.fromkeys((*subsets(pairs), *QUARTILES))]
    values = {
        part: {name: round(score + 0.01 * p + 0.001 * m, 6) for m, name in enumerate(METRICS)}
        for p, part in enumerate(parts)
    }
    told = {
        "change_accuracy": round(score / 2, 6),
        "exact_match": round(score / 4, 6),
        "distinct_captions": 12,
        "mean_length": 6.5,
        "attributes": dict.fromkeys(("type", "color", "material", "shape", "size"), score),
        "localisation": dict.fromkeys(("pointing", "coverage", "pointing_at_object"), score),
    }
    return values | told | {"scorers": {"METEOR": "1.5", "SPICE": "unavailable (no jar)"}}


def write_published(folder: Path) -> None:
    """Write published scores of the dataset "other": a row with conditions, and a row without."""
    made = {"weights": "random", "iterations": 10_000, "test_pairs": {"total": 7970}}
    first = {"method": "SCORER", "source": "a", "model": "scorer", "conditions": "a", "CIDEr-D": 126.0}
    rows = {
        "total": [first | {"BLEU-4": 55.8}, {"method": "DUDA", "source": "b", "CIDEr-D": 112.3}],
        "color": [first | {"CIDEr-D": 143.2}],
    }
    tree = {
        "sources": {"a": "One et al., 2023", "b": "Two et al., 2024"},
        "conditions": {"a": made},
        "rows": rows,
    }
    folder.mkdir(parents=True)
    (folder / "other.yaml").write_text(yaml.safe_dump(tree, sort_keys=False))


def scored(pair: Pair, caption: str, score: float) -> dict[str, Any]:
    """A line of pairs.jsonl."""
    right = None if pair.changed is None else pair.changed == ("moved" in caption)
    values = dict.fromkeys(CORPUS, score)
    bleu = {"matches": [4, 3, 2, 1], "guesses": [6, 5, 4, 3], "length": 6, "reference_length": 5}
    # words, function words, eight numbers of four stages twice, chunks, matched words
    line = [6, 5, 2, 2, 3, 3, 1, 1, *[0] * 12, 2, 4, 4]
    told = {"SPICE": None, "right": right, "bleu": bleu, "meteor": line}
    told |= {"scored": SCORED, "references": "0123456789abcdef"}
    return {"pair_id": pair.pair_id, "caption": caption} | values | told


def attended(caption: str, place: int, model: str) -> Attended:
    """Each word attends mostly to a cell of its own; each cell is aligned with the next one."""
    grid = PATCHES if model in ADAPTED else GRID
    words, cells = caption.split(), grid[0] * grid[1]
    looked = np.full((len(words), cells), 0.5 / cells)
    looked[range(len(words)), [(place + number) % cells for number in range(len(words))]] += 0.5
    alignment = 0.5 * np.roll(np.eye(cells), 1, 1) + 0.5 / cells
    crossing = None if model in ("subtraction", "duda", *ADAPTED) else alignment.astype(np.float16)
    own = np.full((2, *grid), 0.1, np.float16)
    own[0, 0, 1] = own[1, 1, 2] = 0.5
    blocks = {"block 3": own, "block 5": own[::-1]} if model in ADAPTED else None
    maps = looked.reshape(-1, 1, *grid).astype(np.float16)
    if model != "duda":
        return Attended(tuple(words), maps, crossing, blocks)
    weights = [np.roll([0.12, 0.8, 0.08], number) for number in range(len(words))]
    return Attended(tuple(words), maps, None, None, WEIGHED, np.array(weights, np.float16).reshape(-1, 3))


def captions(pairs: list[Pair], said: Callable[[Pair], str]) -> list[dict[str, str]]:
    return [{"image_id": pair.pair_id, "caption": said(pair)} for pair in pairs]


def write_lines(path: Path, values: list[Any]) -> None:
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values))


def write_hashed(path: Path, record: dict[str, Any]) -> None:
    """Write a record with its own hash, in place of the hash that it had."""
    write_json(path, with_hashes(record, {}))


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
