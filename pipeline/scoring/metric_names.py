"""Names of all metrics, as keys in files and as headings of tables, and groups of metrics.

The columns of learning curves are in pipeline/training/validation.py.
"""

from collections.abc import Mapping
from typing import Any

BLEU_4, METEOR, ROUGE_L, CIDER, SPICE = "BLEU-4", "METEOR", "ROUGE-L", "CIDEr-D", "SPICE"
CORPUS = (BLEU_4, METEOR, ROUGE_L, CIDER)  # every scored corpus has these
PRINTED = (*CORPUS, SPICE)  # metrics that papers print; SPICE only if it could run
TRUE = "true"  # true by the scene that the images were drawn from
FITS = "fits"  # true, or ambiguous: the caption may fit other objects, too
AGREES = "agrees"  # agrees with the references, if no scene is published
FAULTS = "faults"  # the false parts of a pair's caption, as letters of truth.FAULTS
JUDGED = (TRUE, FITS, AGREES)  # of a pair: a truth value; of a subset: the share
IS_UNREADABLE = "unreadable"  # of a pair: True if its caption is not parseable; of a subset: the share
REVERSED = "reversed_"  # prefix of names in reversal.Agreement: both image orders agree
RIGHT, ACCURACY = "right", "change_accuracy"  # correct about change or no change: of a pair, and the share
TRUE_CHANGES, TRUE_NO_CHANGE = "true_changes", "true_no_change"
AGREES_CHANGES, AGREES_NO_CHANGE = "agrees_changes", "agrees_no_change"
REVERSED_EXACT = f"{REVERSED}exact"
REVERSED_CHANGES, REVERSED_NO_CHANGE = "reversed_changes", "reversed_no_change"
PLACES = {  # name -> subset and score in metrics.json
    TRUE_CHANGES: ("change", TRUE),
    TRUE_NO_CHANGE: ("no_change", TRUE),
    AGREES_CHANGES: ("change", AGREES),
    AGREES_NO_CHANGE: ("no_change", AGREES),
    REVERSED_CHANGES: ("change", REVERSED_EXACT),
    REVERSED_NO_CHANGE: ("no_change", REVERSED_EXACT),
}
SHOWN = (TRUE_CHANGES, *PRINTED, ACCURACY)  # summary of a run; the most important metric comes first
CLAIMED = (TRUE_CHANGES, ACCURACY, CIDER)  # metrics that papers' claims are checked against
HEADINGS = {
    TRUE_CHANGES: "true, changed",
    TRUE_NO_CHANGE: "true, unchanged",
    AGREES_CHANGES: "agrees, changed",
    AGREES_NO_CHANGE: "agrees, unchanged",
    ACCURACY: "change accuracy",
    REVERSED_CHANGES: "reversed, changed",
    REVERSED_NO_CHANGE: "reversed, unchanged",
}


def of_parts(subsets: Mapping[str, Any]) -> dict[str, float]:
    """Return scores of single subsets of the test pairs, such as the changed pairs: name -> score.

    `subsets` is from a metrics.json: name of a subset -> its scores. The table PLACES defines which
    scores are returned, and their new names. For example, the share of true captions ("true") of the
    subset "change" is returned as "true_changes". Scores that `subsets` lacks are left out.
    """
    shares = {name: subsets.get(subset, {}).get(score) for name, (subset, score) in PLACES.items()}
    return {name: share for name, share in shares.items() if share is not None}


def summary(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of summary.json for `metrics`, the content of a metrics.json.

    It has the scores in SHOWN, except unknown ones, the numbers of pairs and of distinct captions, and the
    hash of the references.
    """
    scores = {**metrics, **metrics["total"], **of_parts(metrics)}
    shown = {name: scores[name] for name in SHOWN if scores.get(name) is not None}
    scored, repeated = metrics["scored"], metrics.get("repetition_changed", metrics["repetition"])
    return shown | {
        "pairs": scored["pairs"],
        "left_out": scored["left_out"],
        "references_sha256": scored["references_sha256"][:16],
        "distinct_captions": metrics["distinct_captions"],
        "commonest_share": repeated["share"],
    }
