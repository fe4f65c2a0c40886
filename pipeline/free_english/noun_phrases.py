"""Functions for forms.yaml that join tokens to noun phrases and values.

A function gets the tokens of the words that its docstring quotes, or of similar words. It returns the tokens
in their place, or None to leave them unchanged.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pipeline.free_english.patterns import COMMA, UNKNOWN, WHEN
from pipeline.free_english.phrase import ALL, Phrase, Place
from pipeline.free_english.tokens import Token

OPPOSITE = {"left": "right", "right": "left"}


def joined(tokens: Sequence[Token], symbol: str, meaning: Any) -> Token:
    """Return one token with this symbol and meaning, which replaces `tokens`."""
    return Token(symbol, meaning, tokens[0].start, tokens[-1].end)


def drop(_: list[Token]) -> list[Token]:
    return []


def time(tokens: list[Token]) -> Token:
    """Return a token of time for "in the first image"."""
    (meaning,) = (token.meaning for token in tokens if token.symbol in ("IMG", WHEN))
    return joined(tokens, WHEN, meaning)


def forward(tokens: list[Token]) -> Token | list[Token]:
    """Return [] for "from the first image to the second", so that these words are dropped.

    For the opposite order, return an unknown token.
    """
    images = [token.meaning for token in tokens if token.symbol in ("IMG", WHEN)]
    return [] if images in (["before", "after"], ["before"]) else joined(tokens, UNKNOWN, None)


def ordinal_image(tokens: list[Token]) -> Token | None:
    """Return an image token for "the second" in "the second has a red cube"; None for "the third"."""
    meaning = {"1": "before", "2": "after"}.get(tokens[1].meaning)
    return joined(tokens, "IMG", meaning) if meaning else None


def change_noun(tokens: list[Token]) -> Token:
    """Join words such as "the most obvious change" to one noun token; return a single token unchanged."""
    return joined(tokens, "DIFFERENCE", "") if len(tokens) > 1 else tokens[0]


def one_of(tokens: list[Token]) -> list[Token]:
    """Split the token "one of" (in "the middle one of the cubes") into the noun "one" and the word "of"."""
    return [any_object(tokens), joined(tokens, "OF", "")]


def no_longer(tokens: list[Token]) -> list[Token]:
    """Return the tokens with "not ... anymore" replaced by "no longer ..."."""
    symbols = [token.symbol for token in tokens]
    at = symbols.index("ANYMORE") if "ANYMORE" in symbols else 0
    at = at or next((n for n, own in enumerate(symbols) if own == "NOLONGER" and "NOT" in symbols[:n]), 0)
    nots = [place for place in range(at) if symbols[place] in ("NOT", "NO")]
    if not nots:
        return tokens
    own = replace(tokens[nots[-1]], symbol="NOLONGER")
    return no_longer([*tokens[: nots[-1]], own, *tokens[nots[-1] + 1 : at], *tokens[at + 1 :]])


def count_from_side(tokens: list[Token]) -> list[Token]:
    """Apply words such as "from left to right" to the sentence that contains them.

    If the sentence has ordinals ("the second cube, from left to right"), each ordinal is counted from the
    left, and the words are dropped. Otherwise, the words become a token for the direction, here to the
    right.
    """
    symbols = [token.symbol for token in tokens]
    if "COUNTED" not in symbols:
        return tokens
    at = symbols.index("COUNTED")
    side = tokens[at].meaning
    if "NTH" not in symbols:
        return [*tokens[:at], replace(tokens[at], symbol="DIR", meaning=OPPOSITE[side]), *tokens[at + 1 :]]
    framed = symbols[max(0, at - 1) : at + 2] == [COMMA, "COUNTED", COMMA]
    kept = [*tokens[: at - framed], *tokens[at + 1 + framed :]]
    return [
        replace(each, meaning=f"{each.meaning} {side}") if each.symbol == "NTH" else each for each in kept
    ]


def noun_phrase(tokens: list[Token]) -> Token | list[Token]:
    symbols = {token.symbol for token in tokens}
    shape, plural = tokens[-1].meaning
    look = (*(token.meaning for token in tokens if token.symbol == "ATTR"), *(shape or ()))
    counts = [token.meaning for token in tokens if token.symbol == "COUNT"]
    several = counts or (plural and not symbols & {"ONEOF", "FEWER"})
    count = ALL if any(each.startswith("all") for each in counts) else 2 if several else 1
    indefinite = "ONEOF" in symbols or any(token.symbol == "DET" and token.meaning == "a" for token in tokens)
    places = [rank(token) for token in tokens if token.symbol in ("SIDE", "MOST", "NTH")]
    fresh = [place for place in places if indefinite and place.rank and not place.side]
    counted = [Place("count", (Phrase(look),), rank=place.rank) for place in fresh if "ONEOF" not in symbols]
    phrase = Phrase(
        look,
        (*(place for place in places if place not in fresh), *counted),
        1 if "ONEOF" in symbols else count,
        next((int(each[-1]) for each in counts if each[-1].isdigit()), 0),
        "NEW" in symbols or bool(counted),  # "a fourth cube"
        "FEWER" in symbols,
        indefinite,
        one=shape is None,
    )
    twice = len({name for name, _ in look}) < len(look)
    return _several(tokens, phrase) if plural and twice else joined(tokens, "NP", phrase)


def _several(tokens: list[Token], phrase: Phrase) -> Token | list[Token]:
    """Split a phrase such as "the red and green cubes" into two noun phrases.

    If this is impossible, return one unknown token.
    """
    names = [name for name, _ in phrase.look]
    twice = next(name for name in names if names.count(name) > 1)
    values = [pair for pair in phrase.look if pair[0] == twice]
    joint = next((token for token in tokens if token.symbol == "AND"), None)
    if len(values) != 2 or joint is None:
        return joined(tokens, UNKNOWN, None)
    rest = [pair for pair in phrase.look if pair[0] != twice]
    one, other = (replace(phrase, look=(pair, *rest), count=1, number=0) for pair in values)
    return [joined(tokens, "NP", one), joint, joined(tokens, "NP", other)]


def rank(token: Token) -> Place:
    """Return the place that a word before a noun means: "second", "leftmost" or "left"."""
    if token.symbol == "NTH":
        number, _, side = token.meaning.partition(" ")
        return Place("rank", side=side, rank=int(number))
    if token.symbol == "MOST":
        return Place("rank", side=token.meaning, rank=1)
    return Place("side", side=token.meaning)


def any_object(tokens: list[Token]) -> Token:
    return joined(tokens, "NOUN", (None, False))


def pronoun(tokens: list[Token]) -> Token:
    return joined(tokens, "NP", Phrase(pronoun=True))


def something(tokens: list[Token]) -> Token:
    return joined(tokens, "NP", Phrase(indefinite=True, new=len(tokens) > 1))


def one_more(tokens: list[Token]) -> Token:
    return joined(tokens, "NP", Phrase(indefinite=True, new=True))


def one_fewer(tokens: list[Token]) -> Token:
    return joined(tokens, "NP", Phrase(indefinite=True, fewer=True))


def number_change(tokens: list[Token]) -> list[Token]:
    """Replace "the number of objects rose from 3 to 4" by tokens of "a new object was added, there are 4"."""
    numbers = [token for token in tokens if token.symbol == "COUNT"]
    if tokens[0].symbol in ("TALLY", "COUNT") and not (numbers[0].meaning + numbers[1].meaning).isdigit():
        return [joined(tokens, UNKNOWN, None)]
    more = tokens[0].symbol == "GREW" or (len(numbers) == 2 and numbers[0].meaning < numbers[1].meaning)
    phrase = Phrase(indefinite=True, new=more)
    found = [joined(tokens, "NP", phrase), joined(tokens, "ADDED" if more else "DROPPED", "")]
    if numbers:
        total = Phrase(count=2, number=int(numbers[-1].meaning))
        found += [joined(tokens, symbol, "") for symbol in ("AND", "THERE", "BE")]
        found += [joined(tokens, "NP", total), joined(tokens, WHEN, "after")]
    return found


def number(tokens: list[Token]) -> Token | None:
    """Return a noun phrase for "four" in "there are four"; None if the word is no number."""
    number = tokens[0].meaning
    return joined(tokens, "NP", Phrase(count=2, number=int(number))) if number.isdigit() else None


def instead_number(tokens: list[Token]) -> Token:
    """Return a number token for "three" in "four objects instead of three"."""
    return joined(tokens, "NUMBER", int(tokens[0].meaning) if tokens[0].meaning.isdigit() else 0)


def same_objects(tokens: list[Token]) -> Token | None:
    """Join "the same four objects" to one token; its meaning is the number, or 0 if none is said.

    Return None for the singular, as in "the same cube".
    """
    counts = [token.meaning for token in tokens if token.symbol == "COUNT"]
    number = next((int(each[-1]) for each in counts if each[-1].isdigit()), 0)
    return joined(tokens, "CAST", number) if counts or tokens[-1].meaning[1] else None


def other_objects(tokens: list[Token]) -> Token:
    """Join "the other cubes" to one token, whose meaning is the noun phrase of one such object, "a cube"."""
    look = tuple(token.meaning for token in tokens if token.symbol == "ATTR")
    shape = (tokens[-1].meaning[0] or ()) if tokens[-1].symbol == "NOUN" else ()
    none = any(token.symbol == "OTHER" and token.meaning == "none" for token in tokens)
    return joined(tokens, "ELSE" if none else "REST", Phrase((*look, *shape)))


def join_values(tokens: list[Token]) -> list[Token]:
    """Return the tokens, with attributes without a noun ("small and red") joined to one VALUE token."""
    found: list[Token] = []
    place = 0
    while place < len(tokens):
        if tokens[place].symbol != "ATTR":
            found.append(tokens[place])
            place += 1
            continue
        own = [tokens[place]]
        while following := _next_attribute(tokens, place + 1, own):
            own.append(tokens[following])
            place = following
        place += 1
        if place < len(tokens) and tokens[place].symbol == "COLOR":
            place += 1
        finish = [each.symbol for each in found[-2:]] == ["WITH", "NEW"]  # "with a new metallic finish"
        if found and found[-1].symbol in ("DET", "NEW") and not finish:
            found.pop()
        found.append(joined(own, "VALUE", tuple(dict.fromkeys(token.meaning for token in own))))
    return found


def _next_attribute(tokens: Sequence[Token], place: int, own: Sequence[Token]) -> int | None:
    """Return the position of the next attribute from `place` on; None if it cannot be joined to `own`.

    Commas and "and" before the attribute are skipped. After them, an attribute cannot be joined if `own`
    has another value of the same attribute.
    """
    start = place
    while place < len(tokens) and tokens[place].symbol in (COMMA, "AND"):
        place += 1
    if place == len(tokens) or tokens[place].symbol != "ATTR":
        return None
    again = any(
        tokens[place].meaning[0] == token.meaning[0]
        for token in own
        if token.meaning != tokens[place].meaning
    )
    return None if again and place > start else place
