"""The few scores of a cell that `dvc metrics show` prints; all others stand in its metrics.json."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.outputs import write_text
from pipeline.scoring.metric_names import SHOWN, of_parts


def write_summary(path: str | Path, metrics: Mapping[str, Any]) -> None:
    """Write what `summary` takes of a metrics.json's tree, in its order: what counts most stands first."""
    write_text(path, json.dumps(summary(metrics), indent=1, allow_nan=False) + "\n")


def summary(metrics: Mapping[str, Any]) -> dict[str, float]:
    """True captions of changes, scores of all test pairs, change accuracy; what is not known is left out."""
    known = {**metrics, **metrics["total"], **of_parts(metrics)}
    return {name: known[name] for name in SHOWN if known.get(name) is not None}
