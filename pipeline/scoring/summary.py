"""The few scores of a cell that `dvc metrics show` prints; all others stand in its metrics.json."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.outputs import write_json

METRICS = ("BLEU-4", "METEOR", "ROUGE-L", "CIDEr-D", "SPICE")  # of all test pairs
ACCURACY = "change_accuracy"


def write_summary(path: str | Path, metrics: Mapping[str, Any]) -> None:
    """Write what `summary` takes of a metrics.json's tree."""
    write_json(path, summary(metrics))


def summary(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The scores of all test pairs and the change accuracy; what was not computed is left out."""
    total = metrics["total"]
    few = {name: total.get(name) for name in METRICS} | {ACCURACY: metrics.get(ACCURACY)}
    return {name: value for name, value in few.items() if value is not None}
