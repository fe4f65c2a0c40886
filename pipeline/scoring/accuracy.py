"""Whether a caption says, rightly, that something changed."""

import re
from collections.abc import Mapping, Sequence

from pipeline.scoring.tokenizer import one_line


def says_no_change(caption: str, phrases: Sequence[str]) -> bool:
    """Whether the caption holds one of the phrases, whatever the case and the white space.

    A phrase begins where a word begins ("the piano changed" does not hold "no change"), and may
    end inside one ("no changes" does).
    """
    text = one_line(caption).lower()
    return any(re.search(rf"(?<!\w){re.escape(one_line(phrase).lower())}", text) for phrase in phrases)


def change_accuracy(
    captions: Mapping[str, str], changed: Mapping[str, bool | None], phrases: Sequence[str]
) -> float | None:
    """The share, 0 to 1, of captions that are right on whether something changed.

    `changed` is id -> the truth, None where unknown; None is returned where it is nowhere known.
    """
    right = [
        says_no_change(captions[key], phrases) != truth for key, truth in changed.items() if truth is not None
    ]
    return sum(right) / len(right) if right else None
