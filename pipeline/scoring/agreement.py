"""Agreement of captions with CLEVR-style references, for datasets without published scenes.

pipeline/negatives/solid_claims.py parses caption and references into kind of change, attributes of the
subject, and new value. Positions are not compared, because the references do not describe them in full.
A caption that agrees may therefore be untrue (pipeline/scoring/truth.py). A true caption always agrees, as
far as the references name what it says.
"""

import re
from collections.abc import Sequence

from pipeline.datasets.schema import NO_CHANGE, Pair
from pipeline.negatives.solid_claims import Sentence, of_pair
from pipeline.scoring.accuracy import says_no_change


def agrees(caption: str, pair: Pair, phrases: Sequence[str]) -> bool | None:
    """Return True if the caption agrees with the pair's references; None if they name no kind of change.

    The kind of change must be the dataset's, or the references' if the dataset names none. Each attribute of
    the subject must be in a reference and contradict none. The new value must be the references'. For a pair
    without a change, the caption must contain one of `phrases`.
    """
    truth = of_pair(pair, [_read(text) for text in pair.captions])
    if not truth.kinds:
        return None
    if NO_CHANGE in truth.kinds:
        return says_no_change(caption, phrases)
    sentence = _read(caption)
    said = sentence.claims
    if not sentence.subject or not said.kinds or not said.kinds <= truth.kinds:
        return False
    looks = all(values == truth.look.get(name) for name, values in said.look.items())
    return looks and all(values <= truth.value.get(name, frozenset()) for name, values in said.value.items())


def readable(caption: str, phrases: Sequence[str]) -> bool:
    """Return True if the caption says "no change", or names a kind of change and a changed object."""
    sentence = _read(caption)
    return says_no_change(caption, phrases) or bool(sentence.subject and sentence.claims.kinds)


def _read(caption: str) -> Sentence:
    return Sentence(tuple(re.findall(r"[a-z]+", caption.lower())))
