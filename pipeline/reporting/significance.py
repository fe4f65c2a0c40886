"""Which models the test pairs can tell apart, as a table and in words."""

from typing import Any

from pipeline.reporting.dataset_results import Results
from pipeline.reporting.overview_table import HEADINGS
from pipeline.reporting.tables import NONE, Table
from pipeline.scoring.metric_names import AGREES_CHANGES, CIDER, TRUE_CHANGES
from pipeline.statistics.comparisons import Comparison, compare_all, p_value

# the metrics whose differences are told in sentences: truth first, where it is known
SPOKEN = (TRUE_CHANGES, AGREES_CHANGES, CIDER)


def significance(results: Results) -> dict[str, Any] | None:
    """Return a `table` of every two models and metric, and `sentences`; None where there is one model only.

    Raises InputError where two models' pairs differ.
    """
    if len(results.evidence) < 2:
        return None
    # the later model of params.yaml less the earlier one: there the baselines come first
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
