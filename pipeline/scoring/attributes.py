"""Accuracy of the attributes that captions name, for datasets with known scenes (`tabletop`).

Captions are parsed with the words and synonyms of tabletop's grammar. The subject ends at the first
noun (a shape, `thing` or `object`); the verb phrase is the end of the caption.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from pipeline.datasets.schema import Look, Pair
from pipeline.scoring.accuracy import share
from pipeline.scoring.tokenizer import one_line
from pipeline.tabletop.words import MEANINGS, NOUNS, VERB_PHRASES

TYPE = "type"


@dataclass(frozen=True)
class Reading:
    """A parsed caption."""

    change_type: str | None  # None: no verb phrase of the grammar
    look: Mapping[str, frozenset[str]]  # attribute -> the values that the subject names


def read(caption: str) -> Reading:
    """Parse a caption; case, white space and a final full stop do not matter."""
    text = one_line(caption).lower().rstrip(" .")
    words = text.split()
    end = next((place for place, word in enumerate(words) if word in NOUNS), -1) + 1
    look = {
        attribute: frozenset(meanings[word] for word in words[:end] if word in meanings)
        for attribute, meanings in MEANINGS.items()
    }
    kinds = [kind for phrase, kind in VERB_PHRASES.items() if f" {text}".endswith(f" {phrase}")]
    return Reading(kinds[0] if kinds else None, look)


def accuracy(captions: Mapping[str, str], pairs: Sequence[Pair]) -> dict[str, float | None]:
    """Return shares (0 to 1) over the changed pairs whose changed object is known; {} without any.

    "type": the share of these pairs whose caption has a verb phrase of the true kind of change.
    "size", "color", "material", "shape": among the captions that name the attribute in the subject,
    the share that name only the true value; None if no caption names it. A missing attribute is not
    wrong, because the grammar itself leaves out attributes that are not needed to identify the object.
    The true value is the one before the change, or after it for an added object.
    """
    known = [(read(captions[pair.pair_id]), pair, truth) for pair in pairs if (truth := _truth(pair))]
    if not known:
        return {}
    kind = share(reading.change_type == pair.change_type for reading, pair, _ in known)
    looks = [(reading, asdict(truth)) for reading, _, truth in known]
    return {TYPE: kind} | {attribute: share(_right(attribute, looks)) for attribute in MEANINGS}


def _truth(pair: Pair) -> Look | None:
    changed = pair.changed_object
    return None if changed is None else changed.before or changed.after


def _right(attribute: str, looks: Iterable[tuple[Reading, Mapping[str, str]]]) -> list[bool | None]:
    """Compare one attribute of each caption with the truth; None if the caption does not name it."""
    return [
        named == {truth[attribute]} if (named := reading.look[attribute]) else None
        for reading, truth in looks
    ]
