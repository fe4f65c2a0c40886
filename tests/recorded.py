"""Made-up records, for tests of the results pages."""

import json

import pandas as pd

from pipeline.results import record_tables, records
from pipeline.scoring.metric_names import CORPUS

PAIRS = 40


def write(root, model, seed, wrong, dataset="tabletop", changes=None):
    """Write a record whose captions of the first `wrong` pairs are false; every second pair has a change."""
    folder = root / "results/records" / dataset
    folder.mkdir(parents=True, exist_ok=True)
    pairs = described()
    (folder / "pairs.json").write_text(json.dumps(pairs))
    right = [int(place >= wrong) for place in range(PAIRS)]
    parts = ("total", "change", "no_change", "color", *(f"viewpoint_iou_q{n}" for n in (1, 2, 3, 4)))
    record = {
        "dataset": dataset,
        "model": model,
        "seed": seed,
        "changes": changes or {},
        "settings": "",
        "pairs": records.identity(pairs),
        "train": {"iterations": 1500, "batch": 8},
        "scores": {part: dict.fromkeys(CORPUS, 0.5 + seed / 100) for part in parts},
        "localisation": {"pointing": 0.25},
        "validation": {"CIDEr-D": {"750": 0.5, "1500": 0.6}, "true/changed": {"750": 0.0, "1500": 0.25}},
        "captions": [f"{model} says {n}" for n in range(records.KEPT_CAPTIONS)],
    }
    path = folder / records.name(model, changes or {}, seed)
    path.write_text(json.dumps(record))
    faults = ["" if is_right else "cs" if n % 2 == 0 else "t" for n, is_right in enumerate(right)]
    table = {"pair_id": pairs["pairs"], "true": right, "right": right, "faults": faults}
    pd.DataFrame(table | dict.fromkeys(CORPUS, right)).to_csv(path.with_suffix(".csv"), index=False)


def edit_pairs(path, **columns):
    """Replace columns of a record's CSV file. `path` is the record's JSON file."""
    table = records.read_scored_pairs(path).assign(**columns)
    table.to_csv(path.with_suffix(".csv"), index=False)


def described():
    """Return the content of pairs.json."""
    quarters = {f"viewpoint_iou_q{n + 1}": list(range(10 * n, 10 * n + 10)) for n in range(4)}
    members = {"change": list(range(0, PAIRS, 2)), "no_change": list(range(1, PAIRS, 2))} | quarters
    members["color"] = members["change"]
    pairs = {"pairs": [f"{n}.png" for n in range(PAIRS)], "scenes": [str(n) for n in range(PAIRS)]}
    pairs |= {"references": "0" * 64, "viewpoint_iou": [n / PAIRS for n in range(PAIRS)]}
    read = {str(n): f"reference {n}" for n in range(records.KEPT_CAPTIONS)}
    return pairs | {"subsets": members, "captions": read}


def three_seeds(root):
    """rr is wrong about few pairs, subtraction about half of them."""
    for seed, (rr, subtraction) in enumerate(((4, 20), (5, 21), (6, 19)), 1):
        write(root, "rr", seed, rr)
        write(root, "subtraction", seed, subtraction)
    return root


def groups(root):
    return {group.name: group for group in record_tables.read(root, "tabletop").groups}
