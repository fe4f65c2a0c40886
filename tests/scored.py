"""A made-up pairs.jsonl, as stages.score writes it."""

import json
from pathlib import Path

from pipeline.scoring.metric_names import CORPUS

SCORED = {"tokeniser": "made up", "reader": "strict"}


def line(number: int) -> dict:
    """A pair's line, all of whose scores are 0."""
    bleu = {"matches": [0] * 4, "guesses": [0] * 4, "length": 0, "reference_length": 5}
    scores = {**dict.fromkeys(CORPUS, 0.0), "SPICE": None}
    other = {"right": None, "faults": None}
    return {
        "pair_id": f"{number}.png",
        "caption": "",
        **scores,
        **other,
        "bleu": bleu,
        "meteor": [0.0] * 23,
        "scored": SCORED,
        "references": "0123456789abcdef",
    }


def write(path: Path, rows: list[dict]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path
