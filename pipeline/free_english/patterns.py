"""Match tokens by regular expressions over their symbols.

The form "NP BE MOVED" matches three tokens. For this, a sentence is encoded as a string with one character
per token. A position in the string is then a position in the list of tokens.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache

from pipeline.free_english.tokens import ATTRIBUTES, IGNORED, MACROS, OBJECT, SHAPED, Token, table

WHEN, COMMA, COLON, UNKNOWN = "WHEN", "COMMA", "COLON", "UNKNOWN"
PHRASES = ("NP", "VALUE", "PLACE", "ASPECT", "ASPECTS", "CAST", "NUMBER")
READER_SYMBOLS = ("NOUN", "ATTR", *PHRASES, "QUESTION", COMMA, COLON, UNKNOWN)
"""Symbols that the reader gives to tokens and that are not in words.yaml."""
Build = Callable[[list[Token]], Token | list[Token] | None]
"""A function that gets the tokens of a match and returns their replacement; None leaves them unchanged."""


@cache
def _codes() -> dict[str, str]:
    symbols = [name for name in table() if name not in (*ATTRIBUTES, IGNORED, MACROS, OBJECT, SHAPED)]
    return {symbol: chr(0xE000 + index) for index, symbol in enumerate([*symbols, *READER_SYMBOLS])}


def coded(tokens: Sequence[Token]) -> str:
    return "".join(_codes()[token.symbol] for token in tokens)


@cache
def pattern(text: str, times: bool = True) -> re.Pattern[str]:
    """Compile a form, such as "NP BE MOVED", to a regular expression that matches encoded tokens.

    A form is a regular expression. Its words in capitals are symbols of tokens. If `times` is true,
    tokens of time (WHEN) may stand before, between and after the symbols. A form may use a group name
    several times. The compiled expression numbers the uses: two groups `v` become `v1` and `v2`.
    """
    any_times = f"{_codes()[WHEN]}*" if times else ""
    numbers: dict[str, int] = {}

    def numbered(match: re.Match[str]) -> str:
        numbers[match[1]] = numbers.get(match[1], 0) + 1
        return f"(?P<{match[1]}{numbers[match[1]]}>"

    text = re.sub(r"\(\?P<(\w+)>", numbered, text)
    text = re.sub(r"\b[A-Z]{2,}\b", lambda match: f"(?:{_codes()[match[0]]}{any_times})", text)
    return re.compile(any_times + "".join(text.split()))


def reduced(tokens: list[Token], forms: Sequence[tuple[str, Build]], backwards: bool = False) -> list[Token]:
    """Replace all tokens that match a form by what its function returns; None: unchanged.

    With `backwards`, "behind the ball" is replaced first in "near the cube behind the ball".
    """
    symbols = coded(tokens)
    for form, build in forms:
        regex = pattern(form, times=False)
        if regex.search(symbols):
            tokens = _replaced(tokens, regex, build, backwards)
            symbols = coded(tokens)
    return tokens


def _replaced(tokens: list[Token], regex: re.Pattern[str], build: Build, backwards: bool) -> list[Token]:
    position = len(tokens) - 1 if backwards else 0
    symbols = coded(tokens)
    while 0 <= position < len(tokens):
        match = regex.match(symbols, position)
        length = match.end() - position if match else 0
        replacement = build(tokens[position : position + length]) if length else None
        if replacement is None:
            position += -1 if backwards else 1
            continue
        new_tokens = replacement if isinstance(replacement, list) else [replacement]
        tokens = [*tokens[:position], *new_tokens, *tokens[position + length :]]
        symbols = coded(tokens)
        position += -1 if backwards else len(new_tokens)
    return tokens
