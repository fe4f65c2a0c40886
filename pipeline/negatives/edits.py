"""Nearly right captions of coloured solids: words exchanged, or the parts of a sentence.

Each gives the new words, or None where the sentence has nothing to exchange. Whether they are wrong of the
pair is asked afterwards (solid_claims.py).
"""

from collections.abc import Mapping, Sequence

import numpy as np

from pipeline.negatives.solid_claims import GROUPS, MEANING, Claims, Sentence

Words = tuple[str, ...]


def replaced(
    sentence: Sentence, truth: Claims, weights: Mapping[str, float], count: int, rng: np.random.Generator
) -> Words | None:
    """`count` words of the subject and the new value, the heaviest that have another value to take."""
    words = list(sentence.words)
    places = sentence.attributes + ([] if sentence.value is None else [sentence.value])
    changed = 0
    for place in sorted(places, key=lambda place: (-weights[sentence.words[place]], place)):
        attribute, own = MEANING[words[place]]
        barred = _barred(sentence, words, place, attribute, truth) | {own}
        left = [words_ for number, words_ in enumerate(GROUPS[attribute]) if number not in barred]
        if left and changed < count:
            group = left[int(rng.integers(len(left)))]
            words[place] = group[int(rng.integers(len(group)))]
            changed += 1
    return tuple(words) if changed else None


def _barred(sentence: Sentence, words: Sequence[str], place: int, attribute: str, truth: Claims) -> set[int]:
    """The values that a word must not take: old and new must stay two, a new colour unheard of."""
    if place != sentence.value:
        same = sentence.value is not None and MEANING[words[sentence.value]][0] == attribute
        return {MEANING[words[sentence.value]][1]} if same and sentence.value is not None else set()
    subject = {MEANING[words[p]][1] for p in sentence.attributes if MEANING[words[p]][0] == attribute}
    if attribute != "color":
        return subject
    return subject | set(truth.look.get(attribute, ())) | set(truth.value.get(attribute, ()))


def exchanged_landmark(sentence: Sentence) -> Words | None:
    """Subject and landmark, each behind its article, in each other's place."""
    one, other = sentence.subject, sentence.landmark
    if not one or not other:
        return None
    words = sentence.words
    between = words[one.stop : other.start]
    return (
        *words[: one.start],
        *words[other.start : other.stop],
        *between,
        *words[one.start : one.stop],
        *words[other.stop :],
    )


def exchanged_values(sentence: Sentence) -> Words | None:
    """The old value, where the subject names it, and the new one in each other's place."""
    if sentence.value is None:
        return None
    words = list(sentence.words)
    attribute = MEANING[words[sentence.value]][0]
    old = [place for place in sentence.attributes if MEANING[words[place]][0] == attribute]
    if not old:
        return None
    words[old[0]], words[sentence.value] = words[sentence.value], words[old[0]]
    return tuple(words)


def exchanged_ending(
    sentence: Sentence, endings: Mapping[str, Sequence[Words]], rng: np.random.Generator
) -> Words | None:
    """What follows the last noun, of something added as of something gone, or the other way round."""
    other = {"add": "drop", "drop": "add"}.get(next(iter(sentence.claims.kinds), ""), "")
    if not endings.get(other):
        return None
    ending = endings[other][int(rng.integers(len(endings[other])))]
    return (*sentence.words[: sentence.nouns[-1] + 1], *ending)


def ending(sentence: Sentence) -> Words:
    """What follows the last noun."""
    return sentence.words[sentence.nouns[-1] + 1 :] if sentence.nouns else ()
