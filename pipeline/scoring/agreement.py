"""Does a caption agree with its references, where they are CLEVR's sentences and no scene is published?

Both are read as the negatives of such datasets are made (pipeline/negatives/solid_claims.py): kind of change,
what the subject is named, new value. Where a thing lies is not asked: the references do not tell it in full.
So a caption that agrees may still be untrue (pipeline/scoring/truth.py), never the other way round as far as
the references name what it says.
"""

import re
from collections.abc import Sequence

from pipeline.datasets.schema import NO_CHANGE, Pair
from pipeline.negatives.solid_claims import Sentence, of_pair
from pipeline.scoring.accuracy import says_no_change


def agrees(caption: str, pair: Pair, phrases: Sequence[str]) -> bool | None:
    """Whether the caption says what the pair's references say; None where they name no kind of change.

    It names the kind of change that the dataset names, else the references do; of its subject nothing that no
    reference names, or that one contradicts; and the new value that they name. Of a pair without a change it
    holds one of `phrases`.
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
    """Whether the caption says that nothing changed, or names a kind of change and what changed."""
    sentence = _read(caption)
    return says_no_change(caption, phrases) or bool(sentence.subject and sentence.claims.kinds)


def _read(caption: str) -> Sentence:
    return Sentence(tuple(re.findall(r"[a-z]+", caption.lower())))
