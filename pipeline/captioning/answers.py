"""Answers about pairs: a caption with the probability that it is correct, or a reason why there is none."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.confidence.calibration import Calibration
from pipeline.confidence.signals import Signalled
from pipeline.decoding.attention_maps import Attended
from pipeline.scoring.accuracy import says_no_change

UNSURE_WHAT = "something changed; not sure what"
UNSURE_WHETHER = "not sure whether anything changed"
DIGITS = 4  # decimal places of a probability


@dataclass(frozen=True)
class Limits:
    """Conditions under which a pair gets a caption. Otherwise, its caption is withheld."""

    at_least: float = 0.0  # minimum probability of a caption; below it, the caption is withheld
    any_images: bool = False  # also caption images that are unlike the training images


ALL = Limits()


@dataclass(frozen=True)
class Answer:
    """Answer about one pair. If there is no calibration, `probability` and `reason` are None."""

    caption: str | None
    probability: float | None = None  # that the caption is correct; also known if the caption is withheld
    reason: str | None = None  # why there is no caption
    attended: Attended | None = None  # the caption's words with their attention

    @property
    def record(self) -> dict[str, Any]:
        """Answer as a JSON object; `probability` and `reason` are left out if they are None."""
        known = {"probability": self.probability, "reason": self.reason}
        return {"caption": self.caption} | {name: own for name, own in known.items() if own is not None}

    @property
    def text(self) -> str:
        """Answer as a line of text: the caption or the reason, and the probability if it is known."""
        said = self.reason if self.caption is None else self.caption
        chance = "" if self.probability is None else f"  (probability {self.probability:.2f})"
        return f"{said}{chance}"


def answer(
    own: Calibration,
    attended: Attended,
    caption: Signalled | None,
    distances: Sequence[float] | None,
    limits: Limits,
) -> Answer:
    """Return the answer about one pair: its caption, or the reason why the caption is withheld.

    own: the calibration
    attended: the caption with its attention
    caption: the same caption with its signals; None if the calibration was made with another search. Then
        the answer has no probability.
    distances: `unlike` and `scenes` of the pair (pipeline/confidence/familiarity.py); None if all images are
        accepted
    """
    if own.familiarity and distances is not None and (reason := own.familiarity.reason(distances)):
        return Answer(None, None, reason)
    if caption is None:
        return Answer(attended.caption, attended=attended)
    found = own.probability(caption.numbers[None], np.array([caption.reports_change]))
    chance = round(float(found[0]), DIGITS)
    if chance < limits.at_least:
        return Answer(None, chance, _unsure(caption, own.phrases))
    return Answer(attended.caption, chance, None, attended)


def _unsure(caption: Signalled, phrases: Sequence[str]) -> str:
    """Return the reason why a caption with a small probability is withheld.

    The reason says that something changed if the captions of both image orders report a change.
    """
    both = caption.reports_change and not says_no_change(caption.exchanged, phrases)
    return UNSURE_WHAT if both else UNSURE_WHETHER
