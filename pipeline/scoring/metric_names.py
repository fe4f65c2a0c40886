"""The one table of metrics: what each is called in every file and to people, and which belong together.

A learning curve has columns of its own (pipeline/training/validation.py).
"""

from collections.abc import Mapping
from typing import Any

BLEU_4, METEOR, ROUGE_L, CIDER, SPICE = "BLEU-4", "METEOR", "ROUGE-L", "CIDEr-D", "SPICE"
CORPUS = (BLEU_4, METEOR, ROUGE_L, CIDER)  # of every corpus that was scored
PRINTED = (*CORPUS, SPICE)  # those that papers print; SPICE where it could run
TRUE = "true"  # judged by the scene that the pictures were drawn from
FITS = "fits"  # the same, where other things may fit as well
AGREES = "agrees"  # read against the references, where no scene is published
FAULTS = "faults"  # of a pair what of its caption is false, letters of truth.FAULTS
JUDGED = (TRUE, FITS, AGREES)  # of a pair whether it is so, of a subset the share
NOT_JUDGED = "not_judged"  # how many captions are no sentences; of a pair, that its caption is none
RIGHT, ACCURACY = "right", "change_accuracy"  # whether a change is told rightly: of a pair, the share
TRUE_CHANGES, TRUE_NO_CHANGE = "true_changes", "true_no_change"
AGREES_CHANGES, AGREES_NO_CHANGE = "agrees_changes", "agrees_no_change"
PLACES = {  # where a metrics.json has them: subset, score
    TRUE_CHANGES: ("change", TRUE),
    TRUE_NO_CHANGE: ("no_change", TRUE),
    AGREES_CHANGES: ("change", AGREES),
    AGREES_NO_CHANGE: ("no_change", AGREES),
}
SHOWN = (TRUE_CHANGES, *PRINTED, ACCURACY)  # of a run in few words: what counts most stands first
CLAIMED = (TRUE_CHANGES, ACCURACY, CIDER)  # what papers' claims are held against
HEADINGS = {
    TRUE_CHANGES: "true, changed",
    TRUE_NO_CHANGE: "true, unchanged",
    AGREES_CHANGES: "agrees, changed",
    AGREES_NO_CHANGE: "agrees, unchanged",
    ACCURACY: "change accuracy",
}


def of_parts(subsets: Mapping[str, Any]) -> dict[str, float]:
    """The scores of PLACES that a metrics.json has."""
    found = {name: subsets.get(subset, {}).get(score) for name, (subset, score) in PLACES.items()}
    return {name: share for name, share in found.items() if share is not None}


def summary(metrics: Mapping[str, Any]) -> dict[str, float]:
    """True captions of changes, scores of all test pairs, change accuracy; what is not known is left out."""
    known = {**metrics, **metrics["total"], **of_parts(metrics)}
    return {name: known[name] for name in SHOWN if known.get(name) is not None}
