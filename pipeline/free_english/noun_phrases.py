"""Functions for forms.py that join tokens to noun phrases and values.

The docstring of a function quotes example words. The function gets the tokens of such words, and
returns the tokens that replace them. If it returns None, the tokens stay unchanged.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pipeline.free_english.patterns import COMMA, UNKNOWN, WHEN
from pipeline.free_english.tokens import Token
from pipeline.judging.claims import ALL, Phrase, Place

OPPOSITE = {"left": "right", "right": "left"}


def joined(tokens: Sequence[Token], symbol: str, meaning: Any) -> Token:
    return Token(symbol, meaning, tokens[0].start, tokens[-1].end)


def forward(tokens: list[Token]) -> Token | list[Token]:
    """Remove "compared to the first image" and the like; the opposite direction is UNKNOWN."""
    images = [token.meaning for token in tokens if token.symbol in ("IMG", WHEN)]
    return [] if images in (["before", "after"], ["before"]) else joined(tokens, UNKNOWN, None)


def ordinal_image(tokens: list[Token]) -> Token | None:
    """Join "the first" (before) or "the second" (after) to an image token; None for others."""
    meaning = {"1": "before", "2": "after"}.get(tokens[1].meaning)
    return joined(tokens, "IMG", meaning) if meaning else None


def change_noun(tokens: list[Token]) -> Token:
    return joined(tokens, "DIFFERENCE", "") if len(tokens) > 1 else tokens[0]


def one_of(tokens: list[Token]) -> list[Token]:
    return [joined(tokens, "NOUN", (None, False)), joined(tokens, "OF", "")]


def no_longer(tokens: list[Token]) -> list[Token]:
    """Return the tokens with "not ... anymore" replaced by "no longer ..."."""
    symbols = [token.symbol for token in tokens]
    end = symbols.index("ANYMORE") if "ANYMORE" in symbols else 0
    later = (i for i, symbol in enumerate(symbols) if symbol == "NOLONGER" and "NOT" in symbols[:i])
    end = end or next(later, 0)
    negations = [i for i in range(end) if symbols[i] in ("NOT", "NO")]
    if not negations:
        return tokens
    start = negations[-1]
    negation = replace(tokens[start], symbol="NOLONGER")
    return no_longer([*tokens[:start], negation, *tokens[start + 1 : end], *tokens[end + 1 :]])


def count_from_side(tokens: list[Token]) -> list[Token]:
    """Interpret words such as "from left to right" in a sentence, and return the changed tokens.

    With an ordinal ("the second cube, from left to right"), these words say where counting starts. So
    each ordinal is counted from the left, and the words are removed. Without an ordinal ("it moved from
    left to right"), these words are a direction. So one token for the direction "right" replaces them.
    """
    symbols = [token.symbol for token in tokens]
    if "COUNTED" not in symbols:
        return tokens
    i = symbols.index("COUNTED")
    side = tokens[i].meaning
    if "NTH" not in symbols:
        return [*tokens[:i], replace(tokens[i], symbol="DIR", meaning=OPPOSITE[side]), *tokens[i + 1 :]]
    has_commas = symbols[max(0, i - 1) : i + 2] == [COMMA, "COUNTED", COMMA]
    others = [*tokens[: i - has_commas], *tokens[i + 1 + has_commas :]]
    return [
        replace(word, meaning=f"{word.meaning} {side}") if word.symbol == "NTH" else word for word in others
    ]


def noun_phrase(tokens: list[Token]) -> Token | list[Token]:
    symbols = {token.symbol for token in tokens}
    shape, plural = tokens[-1].meaning
    look = (*(token.meaning for token in tokens if token.symbol == "ATTR"), *(shape or ()))
    counts = [token.meaning for token in tokens if token.symbol == "COUNT"]
    is_plural = counts or (plural and not symbols & {"ONEOF", "FEWER"})
    count = ALL if any(text.startswith("all") for text in counts) else 2 if is_plural else 1
    indefinite = "ONEOF" in symbols or any(token.symbol == "DET" and token.meaning == "a" for token in tokens)
    places = [rank(token) for token in tokens if token.symbol in ("SIDE", "MOST", "NTH")]
    ordinals = [place for place in places if indefinite and place.rank and not place.side]
    others = [Place("count", (Phrase(look),), rank=nth.rank) for nth in ordinals if "ONEOF" not in symbols]
    phrase = Phrase(
        look,
        (*(place for place in places if place not in ordinals), *others),
        1 if "ONEOF" in symbols else count,
        next((int(text[-1]) for text in counts if text[-1].isdigit()), 0),
        "NEW" in symbols or bool(others),  # "a fourth cube"
        "FEWER" in symbols,
        indefinite,
        one=shape is None,
    )
    repeats_attribute = len({name for name, _ in look}) < len(look)
    return _several(tokens, phrase) if plural and repeats_attribute else joined(tokens, "NP", phrase)


def _several(tokens: list[Token], phrase: Phrase) -> Token | list[Token]:
    """Split a phrase such as "the red and green cubes" into [noun phrase, conjunction, noun phrase].

    `phrase` is the meaning of all `tokens`. One of its attributes has several values. If there are not
    exactly two values, or if there is no "and", return one UNKNOWN token.
    """
    names = [name for name, _ in phrase.look]
    repeated = next(name for name in names if names.count(name) > 1)
    values = [pair for pair in phrase.look if pair[0] == repeated]
    conjunction = next((token for token in tokens if token.symbol == "AND"), None)
    if len(values) != 2 or conjunction is None:
        return joined(tokens, UNKNOWN, None)
    other_values = [pair for pair in phrase.look if pair[0] != repeated]
    first, second = (replace(phrase, look=(pair, *other_values), count=1, number=0) for pair in values)
    return [joined(tokens, "NP", first), conjunction, joined(tokens, "NP", second)]


def rank(token: Token) -> Place:
    """Return the place that a word before a noun means: "second", "leftmost" or "left"."""
    if token.symbol == "NTH":
        number, _, side = token.meaning.partition(" ")
        return Place("rank", side=side, rank=int(number))
    if token.symbol == "MOST":
        return Place("rank", side=token.meaning, rank=1)
    return Place("side", side=token.meaning)


def something(tokens: list[Token]) -> Token:
    return joined(tokens, "NP", Phrase(indefinite=True, new=len(tokens) > 1))


def number_change(tokens: list[Token]) -> list[Token]:
    """Replace "the number of objects rose from 3 to 4" by tokens of "a new object was added, there are 4"."""
    numbers = [token for token in tokens if token.symbol == "COUNT"]
    if tokens[0].symbol in ("TALLY", "COUNT") and not (numbers[0].meaning + numbers[1].meaning).isdigit():
        return [joined(tokens, UNKNOWN, None)]
    has_grown = tokens[0].symbol == "GREW" or (len(numbers) == 2 and numbers[0].meaning < numbers[1].meaning)
    phrase = Phrase(indefinite=True, new=has_grown)
    sentence = [joined(tokens, "NP", phrase), joined(tokens, "ADDED" if has_grown else "DROPPED", "")]
    if numbers:
        total = Phrase(count=2, number=int(numbers[-1].meaning))
        sentence += [joined(tokens, symbol, "") for symbol in ("AND", "THERE", "BE")]
        sentence += [joined(tokens, "NP", total), joined(tokens, WHEN, "after")]
    return sentence


def number(tokens: list[Token]) -> Token | None:
    """Return a noun phrase for "four" in "there are four"; None if the word is no number."""
    number = tokens[0].meaning
    return joined(tokens, "NP", Phrase(count=2, number=int(number))) if number.isdigit() else None


def instead_number(tokens: list[Token]) -> Token:
    """Join a number after "instead of" to one NUMBER; 0 for a vague one such as "several"."""
    return joined(tokens, "NUMBER", int(tokens[0].meaning) if tokens[0].meaning.isdigit() else 0)


def same_objects(tokens: list[Token]) -> Token | None:
    """Join "the same four objects" to a token of their number (0: none); None for a singular."""
    counts = [token.meaning for token in tokens if token.symbol == "COUNT"]
    number = next((int(text[-1]) for text in counts if text[-1].isdigit()), 0)
    return joined(tokens, "CAST", number) if counts or tokens[-1].meaning[1] else None


def other_objects(tokens: list[Token]) -> Token:
    """Join a phrase such as "the other cubes" to one token, which means a phrase for each, "cube"."""
    look = tuple(token.meaning for token in tokens if token.symbol == "ATTR")
    shape = (tokens[-1].meaning[0] or ()) if tokens[-1].symbol == "NOUN" else ()
    is_negated = any(token.symbol == "OTHER" and token.meaning == "none" for token in tokens)
    return joined(tokens, "ELSE" if is_negated else "REST", Phrase((*look, *shape)))


def join_values(tokens: list[Token]) -> list[Token]:
    """Join attributes without a noun, as in "it is small and red", to one VALUE token; return all tokens."""
    result: list[Token] = []
    index = 0
    while index < len(tokens):
        if tokens[index].symbol != "ATTR":
            result.append(tokens[index])
            index += 1
            continue
        group = [tokens[index]]
        while next_index := _next_attribute(tokens, index + 1, group):
            group.append(tokens[next_index])
            index = next_index
        index += 1
        if index < len(tokens) and tokens[index].symbol == "COLOR":
            index += 1
        is_finish = [token.symbol for token in result[-2:]] == ["WITH", "NEW"]  # "with a new metallic finish"
        if result and result[-1].symbol in ("DET", "NEW") and not is_finish:
            result.pop()
        result.append(joined(group, "VALUE", tuple(dict.fromkeys(token.meaning for token in group))))
    return result


def _next_attribute(tokens: Sequence[Token], index: int, group: Sequence[Token]) -> int | None:
    """Return the position of the next attribute that can join the attributes `group`, or None.

    Commas and "and" from `index` on are skipped. Example: for the group "red" and the tokens
    ", and shiny", the position of "shiny" is returned. None is returned in two cases: no attribute
    follows; or a comma or "and" was skipped and the attribute contradicts the group, as in "red, blue".
    """
    start = index
    while index < len(tokens) and tokens[index].symbol in (COMMA, "AND"):
        index += 1
    if index == len(tokens) or tokens[index].symbol != "ATTR":
        return None
    attribute, value = tokens[index].meaning
    contradicts = any(token.meaning[0] == attribute and token.meaning[1] != value for token in group)
    return None if contradicts and index > start else index
