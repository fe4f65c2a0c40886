"""Change accuracy: the caption reports a change exactly where there is one."""

import re
from collections.abc import Iterable, Sequence

from pipeline.scoring.tokenizer import one_line

PHRASES = ("no change", "no difference", "nothing", "identical", "the same as before", "remains the same")
"""The value of score.no_change_phrases in params.yaml, for training and the demo, which lack this setting."""


def says_no_change(caption: str, phrases: Sequence[str]) -> bool:
    """Return True if the caption contains one of the phrases; case and white space do not matter.

    A phrase must start at a word boundary ("the piano changed" does not contain "no change"), but may
    end inside a word ("no changes" does contain it).
    """
    text = one_line(caption).lower()
    return any(re.search(rf"(?<!\w){re.escape(one_line(phrase).lower())}", text) for phrase in phrases)


def right(caption: str, changed: bool | None, phrases: Sequence[str]) -> bool | None:
    """Return True if the caption is right about change or no change; None if `changed` is unknown."""
    return None if changed is None else says_no_change(caption, phrases) != changed


def share(answers: Iterable[bool | None]) -> float | None:
    """Return the share of True (0 to 1) among the answers that are not None; None without any."""
    known = [answer for answer in answers if answer is not None]
    return sum(known) / len(known) if known else None
