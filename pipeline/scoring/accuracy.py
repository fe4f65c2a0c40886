"""Whether a caption says, rightly, that something changed."""

import re
from collections.abc import Iterable, Sequence

from pipeline.scoring.tokenizer import one_line

PHRASES = ("no change", "no difference", "nothing", "identical", "the same as before", "remains the same")
"""What params.yaml's score.no_change_phrases holds, for training and the demo, which have no such setting."""


def says_no_change(caption: str, phrases: Sequence[str]) -> bool:
    """Whether the caption holds one of the phrases, whatever the case and the white space.

    A phrase begins where a word begins ("the piano changed" does not hold "no change"), and may
    end inside one ("no changes" does).
    """
    text = one_line(caption).lower()
    return any(re.search(rf"(?<!\w){re.escape(one_line(phrase).lower())}", text) for phrase in phrases)


def right(caption: str, changed: bool | None, phrases: Sequence[str]) -> bool | None:
    """Whether the caption is right on whether something changed; None where that is not known."""
    return None if changed is None else says_no_change(caption, phrases) != changed


def share(answers: Iterable[bool | None]) -> float | None:
    """The share, 0 to 1, of True among what is known; None where nothing is."""
    known = [answer for answer in answers if answer is not None]
    return sum(known) / len(known) if known else None
