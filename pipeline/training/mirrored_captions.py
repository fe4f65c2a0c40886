"""Exchange "left" and "right" in the captions of mirrored images, where the words name a side.

"The car on the left has left" becomes "the car on the right has left". Some captions have a word in a sense
that the rules do not decide, for example "two cars are left". Such a caption is refused, not guessed.
"""

import re
from collections.abc import Iterable
from typing import Literal

from pipeline.datasets.schema import Pair
from pipeline.io.errors import InputError, listed

Sense = Literal["side", "other", "unclear"]
OTHER = {"left": "right", "right": "left"}
SIDE = re.compile(r"(?<![^\W_])(left|right)(most|wards?|hand(?:ed)?)?(?![^\W_])", re.IGNORECASE)
TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*|[.,;:!?()]")
END = "|"  # token in place of punctuation, and of the beginning and the end of a caption
REMEDY = "write the side as `on the left`, or set train.mirror: false"


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# `the left image` of a pair is not a side of an image
IMAGES = words(
    """
    image images picture pictures photo photos photograph photographs pic pics frame frames shot
    """
)
HAVE = words("has have had having hasn't haven't hadn't 've")
BE = words(
    """
    is are was were be been being am isn't aren't wasn't weren't it's he's she's they're there's what's
    """
)
SUBJECTS = words("who which that he she they we it i you everyone everybody someone somebody nobody")
ADVERBS = words("already never also just now recently since probably all then later finally")
REMAINS = words("nothing what what's whatever little none much few anything something all")
OBJECTS = words("the a an his her its their my your our this that these those for town home work")
STATES = words(
    """
    behind over alone out open blank unchanged untouched intact empty standing parked off overs
    unattended
    """
)
PLACES = words("on in at by with under near outside inside here there beside next behind against for to")
CONJUNCTIONS = words("and but so before after when while from since because then as without again early")
NEARBY = PLACES | words(
    "now away before after above below underneath beneath up down through past where when as into onto over"
    " across between along around alongside off out back then beyond opposite about"
)
CORRECT = words(
    """
    angle angles angled answer triangle click clicked size way time moment thing order reason word
    """
)
# `the right place` is a side, or correct
EITHER = words("place spot position direction color colour one number track")
OF_A_SIDE = words(
    """
    side sides hand corner corners edge edges half part portion third quarter quadrant border margin
    most lane end area section foreground background bottom top center centre middle column arm leg foot
    wall turn sidewalk
    """
)
PREPOSITIONS = words("on at to from in toward towards into onto by near facing off along")
OWNERS = words("its their his her my your our both")
UPPER = words("far upper lower top bottom extreme immediate mid uppermost lowermost")
MIDDLE = words("middle center centre back front rear near ground foreground background")
MOTIONS = words(
    """
    turn turns turned turning move moves moved moving shift shifts shifted shifting slide slides slid
    sliding go goes going went head heads heading headed point points pointing pointed lean leans
    leaning veer veered step stepped stepping rotated panned pushed facing faces looking further farther
    more slightly walking
    """
)
DETERMINERS = words("a an another this second third first last no any each every")


def mirrored(caption: str) -> str:
    """Return the caption of a mirrored image. Raises InputError if the sense of a word is unclear."""

    def exchanged(match: re.Match[str]) -> str:
        sense = sense_of(caption, match)
        if sense == "unclear":
            raise InputError(f"the caption {caption!r} has {match[0]!r} in an unclear sense; {REMEDY}")
        return match[0] if sense == "other" else _in_case_of(match[1]) + (match[2] or "")

    return SIDE.sub(exchanged, caption)


def check(pairs: Iterable[Pair]) -> None:
    """Raise InputError that names each caption with `left` or `right` in an unclear sense."""
    problems = [
        f"{pair.pair_id}: {match[0]!r} in {caption!r}"
        for pair in pairs
        for caption in pair.captions
        for match in SIDE.finditer(caption)
        if sense_of(caption, match) == "unclear"
    ]
    if problems:
        raise listed(problems, "train.mirror: captions whose sides are unclear", REMEDY)


def _in_case_of(word: str) -> str:
    other = OTHER[word.lower()]
    return other.upper() if word.isupper() else other.capitalize() if word[0].isupper() else other


def sense_of(caption: str, match: re.Match[str]) -> Sense:
    """Return the sense of a word that SIDE found in a caption."""
    if match[2]:
        return "side"
    word = match[1].lower()
    before = [END] * 3 + _tokens(caption[: match.start()])
    after = _tokens(caption[match.end() :]) + [END] * 3
    if (word == "left" and before[-1] in HAVE) or after[:2] == ["side", "up"]:
        return "other"
    following = after[1] if after[0] in ("hand", "side", "most") else after[0]
    if following in IMAGES or (after[0] in ("and", "or") and after[2 if after[1] in OTHER else 1] in IMAGES):
        return "other"
    if IMAGES & set(before[-3:]):  # `the photo on the right` is one of two photos, or a side
        return "unclear"
    if after[0] == "of":
        is_rest = word == "left" and REMAINS & set(before[-4:])
        return "other" if is_rest or after[1] == "way" else "side"
    return _of_left(before, after) if word == "left" else _of_right(before, after)


def _tokens(text: str) -> list[str]:
    tokens = (token.lower().replace("’", "'") for token in TOKEN.findall(text))
    return [token if token[0].isalnum() else END for token in tokens]


def _of_left(before: list[str], after: list[str]) -> Sense:
    last, first = before[-1], after[0]
    if last in SUBJECTS or (last in ADVERBS and first not in OF_A_SIDE):
        return "other"  # who left, has already left
    if (sense := _of_both(before, after)) is not None:
        return sense
    if last in MIDDLE:
        return "side" if first in OF_A_SIDE else "unclear"
    if first in OF_A_SIDE:
        return "side"
    if first in OBJECTS or first in STATES or (last in BE and first in PLACES):
        return "other"  # left the road, left over, was left on the table
    if last in BE:
        return "unclear"  # two are left
    if last == END:
        return "side"  # Left car is gone
    is_verb = first == END or first in CONJUNCTIONS or first in PLACES or first in ADVERBS
    return "other" if is_verb and not MOTIONS & set(before[-6:]) else "unclear"


def _of_right(before: list[str], after: list[str]) -> Sense:
    last, first = before[-1], after[0]
    if first in CORRECT or (last == "all" and first not in OF_A_SIDE):
        return "other"  # the right size, all right
    if first in EITHER:
        return "unclear"
    if last in MOTIONS and first in NEARBY and not (last.startswith("turn") and first in ("into", "onto")):
        return "unclear"  # moved right in front of it
    if (sense := _of_both(before, after)) is not None:
        return sense
    if first in OF_A_SIDE or last in MIDDLE:
        return "side"
    if first in NEARBY:
        return "other"  # right next to
    return "unclear" if first == END or last in BE else "side"  # the blue right car


def _of_both(before: list[str], after: list[str]) -> Sense | None:
    """Return "side" for words that are a side for `left` and for `right`; None if other rules decide."""
    last, first = before[-1], after[0]
    is_listed = (first in ("and", "or", "to") and after[1] in OTHER) or (
        last in ("and", "or", "to") and before[-2] in OTHER and first not in NEARBY
    )
    leads = {"the"} | OWNERS | PREPOSITIONS | UPPER | DETERMINERS | MOTIONS
    return "side" if is_listed or last in leads else None
