"""Which models the test pairs can tell apart, in numbers and in words."""

from typing import Any

from pipeline.reporting.dataset_results import Results
from pipeline.reporting.overview_table import HEADINGS
from pipeline.scoring.metric_names import AGREES_CHANGES, CIDER, TRUE_CHANGES
from pipeline.statistics.comparisons import compare_all

# the metrics whose differences are told in sentences: truth first, where it is known
SPOKEN = (TRUE_CHANGES, AGREES_CHANGES, CIDER)


def significance(results: Results) -> dict[str, Any] | None:
    """Every two models: `metrics` with their headings, `differences` by name and metric, `sentences`.

    None where there is one model alone. Raises InputError where two models' pairs differ.
    """
    if len(results.evidence) < 2:
        return None
    # the later model of params.yaml less the earlier one: there the baselines stand first
    found = compare_all(dict(reversed(results.evidence.items())))
    metrics = dict.fromkeys(metric for own in found.values() for metric in own)
    return {
        "metrics": [(metric, HEADINGS.get(metric, metric)) for metric in metrics],
        "differences": {f"{a} − {b}": own for (a, b), own in found.items()},
        "sentences": [
            own[metric].sentence(a, b) for metric in SPOKEN for (a, b), own in found.items() if metric in own
        ],
    }
