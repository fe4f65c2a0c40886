"""Whether captions name the truth about the object that changed, where the scenes are known (`tabletop`).

A caption is read by the words of tabletop's own grammar, in any of their synonyms. Its subject is
what stands up to its first noun (a shape, `thing` or `object`); its verb phrase is what it ends with.
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
    """What a caption says of the change; None where it says nothing that the grammar could have said."""

    change_type: str | None
    look: Mapping[str, frozenset[str]]  # attribute -> the values that the subject names


def read(caption: str) -> Reading:
    """Read a caption, whatever its case, white space and final full stop."""
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
    """Shares, 0 to 1, over the change pairs whose changed object is known; {} where none is.

    "type": of all these pairs, those whose caption's verb phrase is of the true kind. "size",
    "color", "material", "shape": of the pairs whose caption names the attribute in its subject,
    those that name the true value and no other; None where no caption names it. An attribute
    left out is not wrong: the grammar too leaves out what is not needed to tell the object apart.
    The true values are those before the change, or after it where the object was added.
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
    """Whether each caption is right on an attribute; None where it does not name it."""
    return [
        named == {truth[attribute]} if (named := reading.look[attribute]) else None
        for reading, truth in looks
    ]
