"""Significance of differences between models, as a table and as sentences."""

from typing import Any

from pipeline.reporting.dataset_results import Results
from pipeline.reporting.overview_table import HEADINGS
from pipeline.reporting.tables import NONE, Table
from pipeline.scoring.metric_names import AGREES_CHANGES, CIDER, TRUE_CHANGES
from pipeline.statistics.comparisons import Comparison, compare_all, p_value

# metrics with sentences, truth first
SPOKEN = (TRUE_CHANGES, AGREES_CHANGES, CIDER)


def significance(results: Results) -> dict[str, Any] | None:
    """Return a `table` of all pairs of models and metrics, and `sentences`; None for a single model.

    Raises InputError if two models have different pairs.
    """
    if len(results.evidence) < 2:
        return None
    # later minus earlier model of params.yaml, because baselines come first there
    found = compare_all(dict(reversed(results.evidence.items())))
    metrics = dict.fromkeys(metric for own in found.values() for metric in own)
    rows = [
        [f"{a} − {b}", *(_cell(own[metric]) if metric in own else NONE for metric in metrics)]
        for (a, b), own in found.items()
    ]
    headings = ["models", *(HEADINGS.get(metric, metric) for metric in metrics)]
    return {
        "table": Table("Differences × 100 with their 95 % intervals.", headings, rows),
        "sentences": [
            own[metric].sentence(a, b) for metric in SPOKEN for (a, b), own in found.items() if metric in own
        ],
    }


def _cell(own: Comparison) -> str:
    return f"{own.printed}\n{p_value(own.p)}{'' if own.significant else ', not significant'}"
