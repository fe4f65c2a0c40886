"""Names of all metrics, as keys in files and as headings of tables, and groups of metrics.

The columns of learning curves are in pipeline/training/validation.py.
"""

from collections.abc import Mapping
from typing import Any

from pipeline.scoring.mean_metrics import MEANS

TOTAL = "total"  # subset of all test pairs
BLEU_4, METEOR, ROUGE_L, CIDER, SPICE = "BLEU-4", "METEOR", "ROUGE-L", "CIDEr-D", "SPICE"
CORPUS = (BLEU_4, METEOR, *MEANS, CIDER)  # every scored corpus has these; a new metric is in MEANS
PRINTED = (BLEU_4, METEOR, ROUGE_L, CIDER, SPICE)  # metrics that papers print; SPICE only if it could run
TRUE = "true"  # true by the scene that the images were drawn from
FITS = "fits"  # true, or ambiguous: the caption may fit other objects, too
AGREES = "agrees"  # agrees with the references, if no scene is published
FAULTS = "faults"  # the false parts of a pair's caption, as letters of verdicts.FAULTS
JUDGED = (TRUE, FITS, AGREES)  # of a pair: a truth value; of a subset: the share
IS_UNREADABLE = "unreadable"  # of a pair: True if its caption is not parseable; of a subset: the share
REVERSED = "reversed_"  # prefix of names in reversal.Agreement: both image orders agree
REVERSED_EXACT = f"{REVERSED}exact"
RIGHT, ACCURACY = "right", "change_accuracy"  # correct about change or no change: of a pair, and the share
TRUE_CHANGED, TRUE_UNCHANGED = f"{TRUE}/changed", f"{TRUE}/unchanged"  # share over changed, unchanged pairs
AGREES_CHANGED = f"{AGREES}/changed"
BY_CHANGE = {  # share over changed pairs, or over unchanged pairs -> share, and `changed` of the pairs
    f"{share}/{name}": (share, changed)
    for share in (TRUE, AGREES, REVERSED_EXACT)
    for name, changed in (("changed", True), ("unchanged", False))
}
SHOWN = (TRUE_CHANGED, *CORPUS, SPICE, ACCURACY)  # summary of a run; the most important metric comes first
CLAIMED = (TRUE_CHANGED, ACCURACY, CIDER)  # metrics that papers' claims are checked against
COUNTS = ("distinct_captions", "mean_length")  # not fractions
HEADINGS = {
    ACCURACY: "change accuracy",
    REVERSED_EXACT: "reversed",
    "exact_match": "exact match",
    "distinct_captions": "distinct captions",
    "mean_length": "words a caption",
}


def heading(metric: str) -> str:
    """Return the heading of a metric's column: its name in files, or plain words."""
    name, slash, part = metric.partition("/")
    return HEADINGS.get(name, name) + slash + part


def summary(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of summary.json for `metrics`, the content of a metrics.json.

    It has the scores in SHOWN, except unknown ones, the hash of the references, and the numbers of pairs, of
    distinct captions and of captions without words.
    """
    scores = {**metrics, **metrics[TOTAL]}
    shown = {name: scores[name] for name in SHOWN if scores.get(name) is not None}
    scored, repeated = metrics["scored"], metrics.get("repetition_changed", metrics["repetition"])
    return shown | {
        "pairs": scored["pairs"],
        "left_out": scored["left_out"],
        "references_sha256": scored["references_sha256"][:16],
        "distinct_captions": metrics["distinct_captions"],
        "commonest_share": repeated["share"],
        "without_words": metrics["repetition"]["without_words"],
        **({"gate": scored["gate"]} if scored.get("gate") else {}),
    }
