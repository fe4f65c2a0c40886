"""Find captions that hardly depend on the images: how often a model repeats a caption.

A model that repeats few captions may have high scores, because common words match most references.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

LARGEST_SHARE = 0.2  # of the pairs that may have the commonest caption without a warning
LEAST_DISTINCT = 0.05  # distinct captions, as a share of the pairs; fewer give a warning
LEAST_COUNT = 3  # pairs with the commonest caption; fewer give no warning, whatever their share
OVERALL, CHANGED = "repetition", "repetition_changed"  # keys of metrics.json


@dataclass(frozen=True)
class Repetition:
    """Numbers of pairs, of distinct captions, and of captions without a word.

    `commonest` is the commonest caption, with its share of the pairs.
    """

    pairs: int
    distinct: int
    commonest: str
    share: float
    without_words: int

    @property
    def fault(self) -> str | None:
        """Why the scores of these captions say little about the model; None if the captions vary enough."""
        if round(self.share * self.pairs) < LEAST_COUNT:
            return None
        if self.share > LARGEST_SHARE:
            return f"one caption has {100 * self.share:.1f} % of the pairs (limit: {100 * LARGEST_SHARE:g} %)"
        if self.distinct < LEAST_DISTINCT * self.pairs:
            percent = 100 * self.distinct / self.pairs
            return f"only {percent:.1f} % of the captions are distinct (limit: {100 * LEAST_DISTINCT:g} %)"
        return None

    @property
    def sentence(self) -> str:
        """Distinct captions, the commonest caption with its share, and captions without a word if any."""
        caption = f"“{self.commonest}”" if self.commonest else "one without a word"
        empty = f"; {self.without_words:,} without a word" if self.without_words else ""
        return (
            f"distinct captions: {self.distinct:,} of {self.pairs:,} pairs; "
            f"commonest: {caption}, {100 * self.share:.1f} % of the pairs{empty}"
        )


def of_captions(captions: Sequence[str]) -> Repetition:
    """Return how often captions are repeated. Of equally common captions, the first is the commonest."""
    ((commonest, count),) = Counter(captions).most_common(1)
    return Repetition(len(captions), len(set(captions)), commonest, count / len(captions), captions.count(""))


def described(captions: Mapping[str, str], subsets: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return metrics.json's repetition over all and, with the subset "change", over changed pairs."""
    entries = {OVERALL: asdict(of_captions([*captions.values()]))}
    if changed := subsets.get("change"):
        entries[CHANGED] = asdict(of_captions([captions[key] for key in changed]))
    return entries


def read(metrics: Mapping[str, Any]) -> list[Repetition]:
    """Return the repetitions in the content of a metrics.json: over all pairs, and over the changed pairs."""
    entries = [metrics[key] for key in (OVERALL, CHANGED) if key in metrics]
    return [
        Repetition(
            int(entry["pairs"]),
            int(entry["distinct"]),
            entry["commonest"],
            entry["share"],
            int(entry.get("without_words", 0)),
        )
        for entry in entries
    ]


def warnings(metrics: Mapping[str, Any]) -> list[str]:
    """Return a warning if captions of the changed pairs (or of all) are repeated too often."""
    if not (repetitions := read(metrics)) or not (fault := repetitions[-1].fault):
        return []
    among = "among the changed pairs, " if CHANGED in metrics else ""
    return [f"{among}{fault}; such captions may have high scores whatever the images show"]
