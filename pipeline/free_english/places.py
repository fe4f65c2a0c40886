"""Functions for forms.py that merge a noun phrase and its places or attributes into one token.

The docstring of a function quotes example words. The function gets the tokens of such words, and returns the
tokens that replace them, or None to leave them unchanged.
"""

from collections.abc import Sequence
from dataclasses import replace

from pipeline.free_english.noun_phrases import joined, rank
from pipeline.free_english.patterns import WHEN
from pipeline.free_english.tokens import Token
from pipeline.judging.claims import AFTER, Phrase, Place

SIDES = ("left", "right", "front", "behind")


def _with_symbol(tokens: Sequence[Token], symbol: str) -> list[Token]:
    return [token for token in tokens if token.symbol == symbol]


def _times(tokens: Sequence[Token]) -> set[str]:
    return {token.meaning for token in _with_symbol(tokens, WHEN)}


def aspect(tokens: list[Token]) -> Token | list[Token]:
    """Join "the colour of the cube" to a property token; "its new colour" also gives the time "now"."""
    owner = next((token.meaning for token in _with_symbol(tokens, "NP")), Phrase(pronoun=True))
    aspect = joined(tokens, "ASPECT", (_with_symbol(tokens, "COLOR")[0].meaning, owner))
    return [aspect, joined(tokens, WHEN, "now")] if _with_symbol(tokens, "NEW") else aspect


def aspects(tokens: list[Token]) -> Token:
    """Return one token for the properties in "the colours and positions of all objects"."""
    kinds = {token.meaning for token in _with_symbol(tokens, "COLOR")}
    for token in (*_with_symbol(tokens, "ASPECT"), *_with_symbol(tokens, "ASPECTS")):
        kinds |= {token.meaning[0]} if token.symbol == "ASPECT" else {*token.meaning[0]}
    owner = tokens[-1].meaning[1] if tokens[-1].symbol == "ASPECTS" else tokens[-1].symbol
    return joined(tokens, "ASPECTS", (tuple(sorted(kinds)), owner))


def the_object_that(tokens: list[Token]) -> Token | None:
    """Join "the object that" to one token; None for a pronoun, or with attributes or places."""
    phrase = tokens[0].meaning
    return None if phrase.look or phrase.places or phrase.pronoun else joined(tokens, "WHAT", "")


def its_position(tokens: list[Token]) -> list[Token] | None:
    """Return [], which deletes "its position"; None, which keeps "its color" and the like."""
    return [] if _with_symbol(tokens, "COLOR")[0].meaning == "position" else None


def place(tokens: list[Token]) -> Token:
    others = tuple(token.meaning for token in _with_symbol(tokens, "NP"))
    relation = "between" if tokens[0].symbol == "BETWEEN" else tokens[0].meaning
    return joined(tokens, "PLACE", Place(relation, others))


def before_all(tokens: list[Token]) -> Token | None:
    """Return one place token for "behind everything else"; None without a side ("near everything")."""
    side = tokens[0].meaning
    return joined(tokens, "PLACE", Place("rank", side=side, rank=1)) if side in SIDES else None


def between_values(tokens: list[Token]) -> Token:
    """Join the words "between the red and the green cube" to one token: the place between two cubes."""
    second = tokens[-1].meaning
    shape = tuple(pair for pair in second.look if pair[0] == "shape")
    return joined(tokens, "PLACE", Place("between", (Phrase((*tokens[1].meaning, *shape)), second)))


def between_several(tokens: list[Token]) -> Token | None:
    """Return a place token for "between the two other cubes"; None for a phrase in the singular."""
    phrase = tokens[-1].meaning
    if tokens[-1].symbol == "NP" and (phrase is None or phrase.count == 1):
        return None
    object_phrase = replace(phrase or Phrase(), count=1, number=0)
    return joined(tokens, "PLACE", Place("between", (object_phrase, object_phrase)))


def not_before(tokens: list[Token]) -> Token | None:
    """Join "a red cube, not present before," to a phrase of a new object; None for another time."""
    new = _times(tokens) == {"before"}
    return joined(tokens, "NP", replace(tokens[0].meaning, new=True)) if new else None


def both_places(tokens: list[Token]) -> list[Token] | None:
    """Return two place tokens for "behind and to the right of the cube"; None if no object is named."""
    others = tokens[-1].meaning.others
    return [joined(tokens[:1], "PLACE", Place(tokens[0].meaning, others)), tokens[-1]] if others else None


def side(tokens: list[Token]) -> Token | None:
    """Return a place token for "on the left" or "at the very back"; None for relations such as "near"."""
    word = next(token for token in tokens if token.symbol in ("REL", "SIDE", "MOST"))
    if word.symbol == "REL" and word.meaning not in SIDES:
        return None
    return joined(tokens, "PLACE", rank(word))


def from_side(tokens: list[Token]) -> list[Token]:
    """Turn the tokens of a text such as "left -> right" into the tokens of "from left to right"."""
    side = replace(tokens[-1], symbol="SIDE")
    return [replace(side, symbol="PRE"), tokens[0], replace(side, symbol="TO"), side]


def in_brackets(tokens: list[Token]) -> Token | None:
    """Join "the red cube (front)" to one token, a noun phrase with a place; return None for "it (front)"."""
    return with_place([tokens[0], joined(tokens[2:3], "PLACE", rank(tokens[2]))])


def near_side(tokens: list[Token]) -> Token | None:
    return joined(tokens, "PLACE", rank(tokens[1])) if tokens[0].meaning in ("near", "toward") else None


def side_of(tokens: list[Token]) -> Token | None:
    return replace(tokens[0], symbol="REL") if tokens[0].meaning in SIDES else None


def to_side_of(tokens: list[Token]) -> Token | None:
    """Return a place token for "to the right side of the cube"; None if the side is not in SIDES."""
    side_name = tokens[0].meaning
    return joined(tokens, "PLACE", Place(side_name, (tokens[-1].meaning,))) if side_name in SIDES else None


def nth_from(tokens: list[Token]) -> Token | None:
    """Join tokens such as "the second cube from the left" to one NP token; None without ordinal or side."""
    phrase, side = tokens[0].meaning, tokens[-1].meaning
    ranks = [place for place in phrase.places if place.relation == "rank" and not place.side]
    if not ranks or side not in SIDES:
        return None
    places = tuple(replace(place, side=side) if place in ranks else place for place in phrase.places)
    return joined(tokens, "NP", replace(phrase, places=places))


def nth_after(tokens: list[Token]) -> Token | None:
    """Join "the blue cube, the second from the left," to one NP token; None if the side is not in SIDES."""
    alone = nth_alone(tokens[2:])
    phrase = tokens[0].meaning
    return alone and joined(tokens, "NP", replace(phrase, places=(*phrase.places, *alone.meaning.places)))


def nth_alone(tokens: list[Token]) -> Token | None:
    """Return one token for a noun phrase without a noun, such as "the second from the left".

    The result is None if the side ("left" in the example) is not in SIDES.
    """
    (nth,), (side,) = _with_symbol(tokens, "NTH"), _with_symbol(tokens, "SIDE")
    if side.meaning not in SIDES:
        return None
    place = replace(rank(nth), side=side.meaning)
    return joined(tokens, "NP", Phrase(places=(place,), one=True))


def with_place(tokens: list[Token]) -> Token | None:
    """Return the noun phrase with the place that follows; None if the place is a separate claim.

    The place is a separate claim in three cases: the phrase is a pronoun, the relation is toward, away or
    past, or the words name the second image.
    """
    phrase, times = tokens[0].meaning, _times(tokens)
    place = _with_symbol(tokens, "PLACE")[0].meaning
    if times & {*AFTER} or phrase.pronoun or place.relation in ("toward", "away", "past"):
        return None
    past = "before" in times or bool(_with_symbol(tokens, "WAS"))
    place = replace(place, when="before" if past else "")
    return joined(tokens, "NP", replace(phrase, places=(*phrase.places, place)))


def with_value(tokens: list[Token]) -> Token | None:
    """Join "the cube made of rubber" to one phrase; None for "it", "now" and a second colour."""
    phrase, value = tokens[0].meaning, _with_symbol(tokens, "VALUE")[0].meaning
    if _times(tokens) & {*AFTER} or phrase.pronoun or dict(value).keys() & dict(phrase.look).keys():
        return None
    return joined(tokens, "NP", replace(phrase, look=(*phrase.look, *value)))


def before_phrase(tokens: list[Token]) -> Token | None:
    """Join a place or value to the phrase behind it: "originally on the right, the red ball"."""
    return (with_place if _with_symbol(tokens, "PLACE") else with_value)([tokens[-1], *tokens[:-1]])


def seen(tokens: list[Token]) -> Token | None:
    """Join "the cube that was in the first image" to a phrase with the image as a place, or None."""
    phrase, times = tokens[0].meaning, [token.meaning for token in _with_symbol(tokens, WHEN)]
    if len(times) != 1 or times[0] == "now" or phrase.pronoun:
        return None
    return joined(tokens, "NP", replace(phrase, places=(*phrase.places, Place("seen", when=times[0]))))


def value_of(tokens: list[Token]) -> Token | None:
    """Join "the larger of the two spheres" to one noun phrase; None if the objects are not plural."""
    phrase = tokens[-1].meaning
    if phrase.count != 2:
        return None
    return joined(tokens, "NP", replace(phrase, look=(*tokens[0].meaning, *phrase.look), count=1, number=0))


def ranked_of(tokens: list[Token]) -> Token | None:
    """Return a noun phrase token for words such as "the leftmost of the three cubes": the leftmost cube.

    Return None if the noun phrase after "of" is in the singular.
    """
    phrase, place = tokens[2].meaning, rank(tokens[0])
    if phrase.count == 1:
        return None
    if not place.side:  # "the second of the cubes"
        place = replace(place, side=tokens[-1].meaning if tokens[-1].symbol == "SIDE" else "left")
    places = (*phrase.places, place)
    return joined(tokens, "NP", replace(phrase, places=places, count=1, number=0))


def one_of_them(tokens: list[Token]) -> Token | None:
    """Return a noun phrase for "the middle one of the three cubes" or "the middle cube of the three".

    Return None if the words have neither of these two forms.
    """
    item, group = tokens[0].meaning, tokens[-1].meaning
    if group.number and not group.look and not item.one:  # "the middle cube of the three"
        return tokens[0]
    if not item.one or group.count == 1:
        return None
    phrase = replace(item, look=(*item.look, *group.look), places=(*group.places, *item.places), one=False)
    return joined(tokens, "NP", phrase)


def cleft(tokens: list[Token]) -> Token | None:
    """Return the noun phrase of "it is the cube" or "the cube is the one", before "that moved"."""
    if not tokens[-1].meaning.look and not tokens[-1].meaning.places:
        return tokens[0]
    return tokens[-1] if tokens[0].meaning.pronoun and not tokens[-1].meaning.pronoun else None


def cleft_aspect(tokens: list[Token]) -> Token | None:
    """Return "the colour of the cube" in "it is the colour of the cube" (that changed)."""
    return tokens[-1] if tokens[0].meaning.pronoun else None


def topic(tokens: list[Token]) -> Token | None:
    """Return "the ball" for "the ball, it" (was moved); None for other phrases."""
    return tokens[0] if tokens[-1].meaning.pronoun and not tokens[0].meaning.pronoun else None


def named_after(tokens: list[Token]) -> list[Token] | None:
    """Join "one more object, a small red cube" to a phrase and its times; None if they do not fit."""
    first = tokens[0].meaning
    phrase = apposition(tokens) if first.new else None
    return [phrase, *_with_symbol(tokens, WHEN)] if phrase else None


def apposition(tokens: list[Token]) -> Token | None:
    """Join two noun phrases of one object, as in "a new object, a small red cube,".

    Return None if the phrases contradict each other, or if one of them is a pronoun.
    """
    first, second = (token.meaning for token in _with_symbol(tokens, "NP"))
    look = dict(first.look) | dict(second.look)
    if look != dict(second.look) | dict(first.look) or first.pronoun or second.pronoun:
        return None
    new, count = first.new or second.new, max(first.count, second.count)
    places = (*first.places, *second.places)
    phrase = replace(second, look=tuple(look.items()), places=places, new=new, count=count)
    return joined(tokens, "NP", phrase)
