"""Made-up records, for tests of the results pages."""

import json

from pipeline.results import record_comparisons, records
from pipeline.scoring.metric_names import CORPUS

PAIRS = 40


def write(root, model, seed, wrong, dataset="tabletop", changes=None):
    """Write a record whose captions of the first `wrong` pairs are false; every second pair has a change."""
    right = ["0" if place < wrong else "1" for place in range(PAIRS)]
    parts = ("total", "change", "no_change", "color", *(f"viewpoint_iou_q{n}" for n in (1, 2, 3, 4)))
    record = {
        "dataset": dataset,
        "model": model,
        "seed": seed,
        "changes": changes or {},
        "settings": "",
        "train": {"iterations": 1500, "batch": 8},
        "scores": {part: dict.fromkeys(CORPUS, 0.5 + seed / 100) for part in parts},
        "localisation": {"pointing": 0.25},
        "true": "".join(right),
        "right": "".join(right),
        "faults": ",".join("" if one == "1" else "cs" if n % 2 == 0 else "t" for n, one in enumerate(right)),
        **{name: records.packed(map(int, right), width) for name, width in records.WIDTHS.items()},
        "validation": {"CIDEr-D": {"750": 0.5, "1500": 0.6}, "true/change": {"750": 0.0, "1500": 0.25}},
        "captions": [f"{model} says {n}" for n in range(records.KEPT_CAPTIONS)],
    }
    folder = root / "results/records" / dataset
    folder.mkdir(parents=True, exist_ok=True)
    (folder / records.name(model, changes or {}, seed)).write_text(json.dumps(record))
    quarters = {f"viewpoint_iou_q{n + 1}": list(range(10 * n, 10 * n + 10)) for n in range(4)}
    members = {"change": list(range(0, PAIRS, 2)), "no_change": list(range(1, PAIRS, 2))} | quarters
    members["color"] = members["change"]
    pairs = {"pairs": [f"{n}.png" for n in range(PAIRS)], "scenes": [str(n) for n in range(PAIRS)]}
    pairs |= {"references": "0" * 64, "viewpoint_iou": [n / PAIRS for n in range(PAIRS)]}
    read = {str(n): f"reference {n}" for n in range(records.KEPT_CAPTIONS)}
    (folder / "pairs.json").write_text(json.dumps(pairs | {"subsets": members, "captions": read}))


def three_seeds(root):
    """rr is wrong about few pairs, subtraction about half of them."""
    for seed, (rr, subtraction) in enumerate(((4, 20), (5, 21), (6, 19)), 1):
        write(root, "rr", seed, rr)
        write(root, "subtraction", seed, subtraction)
    return root


def groups(root):
    return {group.model: group for group in record_comparisons.read(root, "tabletop")}
