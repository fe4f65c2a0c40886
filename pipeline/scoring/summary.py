"""The few scores of a cell that `dvc metrics show` prints; all others stand in its metrics.json."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.outputs import write_text
from pipeline.scoring.metric_names import ACCURACY, TRUE_CHANGES, of_parts

METRICS = ("BLEU-4", "METEOR", "ROUGE-L", "CIDEr-D", "SPICE")  # of all test pairs


def write_summary(path: str | Path, metrics: Mapping[str, Any]) -> None:
    """Write what `summary` takes of a metrics.json's tree, in its order: what counts most stands first."""
    write_text(path, json.dumps(summary(metrics), indent=1, allow_nan=False) + "\n")


def summary(metrics: Mapping[str, Any]) -> dict[str, float]:
    """True captions of changes, scores of all test pairs, change accuracy; what is not known is left out."""
    total = metrics["total"]
    few = {TRUE_CHANGES: of_parts(metrics).get(TRUE_CHANGES)}
    few |= {name: total.get(name) for name in METRICS} | {ACCURACY: metrics.get(ACCURACY)}
    return {name: value for name, value in few.items() if value is not None}
