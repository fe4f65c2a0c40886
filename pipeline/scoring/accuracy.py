"""Accuracy of captions: change or no change, and the attributes of the changed object."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from pipeline.datasets.schema import Pair
from pipeline.scoring.tokenizer import one_line
from pipeline.tabletop.words import MEANINGS, NOUNS, VERB_PHRASES

PHRASES = ("no change", "no difference", "nothing", "identical", "the same as before", "remains the same")
"""Phrases that report no change: the value of score.no_change_phrases in params.yaml.

Training and the demo use this constant, because they do not have that setting.
"""
ADJECTIVES = "visible|obvious|apparent|noticeable|significant|clear|real"


def says_no_change(caption: str, phrases: Sequence[str]) -> bool:
    """Return True if the caption contains one of `phrases`.

    Upper and lower case are equal. A match must begin at the start of a word. A phrase "no X" also matches
    "no visible X" and "not see any X", with any word in place of "see".
    """
    text = one_line(caption).lower()
    return any(re.search(_pattern(one_line(phrase).lower()), text) for phrase in phrases)


def _pattern(phrase: str) -> str:
    if not phrase.startswith("no "):
        return rf"(?<!\w){re.escape(phrase)}"
    noun = re.escape(phrase.removeprefix("no "))
    negation = r"(?<!\w)no|(?:(?<!\w)not|(?<!\w)cannot|n['’]t) \w+ any"
    return rf"(?:{negation}) (?:(?:{ADJECTIVES}) )?{noun}"


def right(caption: str, changed: bool | None, phrases: Sequence[str]) -> bool | None:
    """Return True if the caption says correctly whether something changed; None if `changed` is unknown."""
    return None if changed is None else says_no_change(caption, phrases) != changed


def share(answers: Iterable[bool | None]) -> float | None:
    """Return the share of True (0 to 1) among the answers that are not None; None if all answers are None."""
    known = [answer for answer in answers if answer is not None]
    return sum(known) / len(known) if known else None


def attributes(captions: Mapping[str, str], pairs: Sequence[Pair]) -> dict[str, float | None]:
    """Return the shares (0 to 1) of captions with the true kind of change, and with each true attribute.

    Only pairs with a known changed object are counted. Without such a pair, the result is {}.

    - "type": the share of captions that end in a verb phrase of the true kind of change.
    - "size", "color", "material", "shape": the share of captions that name only the true value. Captions
      that do not name the attribute in the subject are not counted; None if no caption names it. The true
      value is the value before the change, or for an added object the value after it.
    """
    known = [
        (pair.change_type, asdict(truth), *read(captions[pair.pair_id]))
        for pair in pairs
        if pair.changed_object and (truth := pair.changed_object.before or pair.changed_object.after)
    ]
    if not known:
        return {}
    return {"type": share(said == kind for kind, _, said, _ in known)} | {
        name: share(look[name] == {truth[name]} if look[name] else None for _, truth, _, look in known)
        for name in MEANINGS
    }


def read(caption: str) -> tuple[str | None, dict[str, set[str]]]:
    """Return a caption's kind of change (None: unknown), and the attributes of its subject: name -> values.

    The subject ends at the first noun. Case, white space and a final full stop do not matter.
    """
    text = one_line(caption).lower().rstrip(" .")
    words = text.split()
    end = next((place for place, word in enumerate(words) if word in NOUNS), -1) + 1
    look = {name: {own[word] for word in words[:end] if word in own} for name, own in MEANINGS.items()}
    kinds = (kind for phrase, kind in VERB_PHRASES.items() if f" {text}".endswith(f" {phrase}"))
    return next(kinds, None), look
