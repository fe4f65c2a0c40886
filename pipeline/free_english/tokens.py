"""Split free English into tokens.

A token is the longest phrase of words.yaml that begins at a word. It has a symbol such as NOUN, and a
meaning that depends on the symbol: an attribute and its value, a side, an image, or nothing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from pipeline.io.inputs import read_yaml
from pipeline.tabletop import words

TABLE, REWRITES = Path(__file__).with_name("words.yaml"), Path(__file__).with_name("rewrites.yaml")
ATTRIBUTES = ("size", "color", "material", "shape")
MACROS, IGNORED, SHAPED, OBJECT = "MACROS", "IGNORED", "SHAPED", "OBJECT"
QUOTES = str.maketrans({"’": "'", **dict.fromkeys('*"“”_#{}[]<`~|', " ")})
WORD = re.compile(r"[a-z]+|\d+(?:st|nd|rd|th)?|'s?|[.!;\n?…]|[^\s]")
STOPS = {".", "!", ";", "\n", "?", "…"}
Found = tuple[str, int, int]
"""A word, the position of its first character, and the position after its last character."""


@dataclass(frozen=True)
class Token:
    """A known phrase or an unknown word of the text.

    It begins at the character `start` and ends before the character `end`.
    """

    symbol: str
    meaning: Any
    start: int
    end: int


@cache
def table() -> Mapping[str, Mapping[str, str]]:
    """Return the content of words.yaml: a dictionary, symbol -> meaning -> phrases separated by commas."""
    found: Mapping[str, Mapping[str, str]] = read_yaml(TABLE, "restore it from git")
    return found


@cache
def lexicon() -> Mapping[tuple[str, ...], tuple[str, Any]]:
    """Return all known phrases: tuple of words -> symbol (empty for ignored phrases) and meaning."""
    entries = {name: own for name, own in table().items() if name != MACROS}
    found: dict[tuple[str, ...], tuple[str, Any]] = dict.fromkeys(
        _phrases(entries.pop(IGNORED)[""]), ("", None)
    )
    shaped, objects = entries.pop(SHAPED), entries.pop(OBJECT)[""]
    more = {attribute: entries.pop(attribute) for attribute in ATTRIBUTES}
    for symbol, meanings in entries.items():
        for meaning, texts in meanings.items():
            found |= dict.fromkeys(_phrases(texts), (symbol, meaning))
    for attribute, values in words.SYNONYMS.items():
        symbol = "NOUN" if attribute == "shape" else "ATTR"
        for value, own in values.items():
            texts = ", ".join([*own, more[attribute].get(value, "")])
            found |= dict.fromkeys(_phrases(texts), (symbol, (attribute, value)))
    found |= dict.fromkeys(_phrases(", ".join([*words.ANY_SHAPE, objects])), ("NOUN", ()))
    for value, texts in shaped.items():
        found |= dict.fromkeys(_phrases(texts), ("ATTR", ("shape", value)))
    return found


@cache
def _most_words() -> int:
    """Return the number of words of the longest known phrase."""
    return max(map(len, lexicon()))


def _phrases(texts: str) -> Iterator[tuple[str, ...]]:
    """Yield each phrase of an entry of words.yaml, as a tuple of words.

    In an entry, commas separate the phrases. [a|b|] stands for "a", "b" or nothing. {name} stands for a
    macro. A verb with a plus stands for its four forms.
    """
    for text in with_macros(texts, table()[MACROS]).split(","):
        text = re.sub(r"\b([a-z]+)(\+{1,2})", lambda found: f"[{'|'.join(_forms(*found.groups()))}]", text)
        parts = re.split(r"\[([^\]]*)\]", text)
        options = [part.split("|") if place % 2 else [part] for place, part in enumerate(parts)]
        yield from (phrase for chosen in product(*options) if (phrase := tuple("".join(chosen).split())))


def with_macros(text: str, macros: Mapping[str, str]) -> str:
    """Return a text with each {name} replaced by the macro of this name, also inside macros."""
    while macro := re.search(r"\{(\w+)\}", text):
        text = text.replace(macro[0], macros[macro[1]])
    return text


def _forms(verb: str, mark: str) -> tuple[str, ...]:
    """Return "move", "moves", "moved" and "moving". The mark ++ doubles the last letter, as in "swapped"."""
    stem = verb + verb[-1] if mark == "++" else verb.removesuffix("e")
    if re.search(r"[^aeiou]y$", verb):
        return verb, f"{verb[:-1]}ies", f"{verb[:-1]}ied", f"{verb}ing"
    third = "es" if re.search(r"(s|x|z|ch|sh|o)$", verb) else "s"
    return verb, verb + third, f"{stem}ed", f"{stem}ing"


@cache
def _rewrites() -> tuple[tuple[re.Pattern[str], str], ...]:
    rewrites = read_yaml(REWRITES, "restore it from git")
    return tuple((re.compile(pattern), plain) for pattern, plain in rewrites.items())


def plain_text(text: str) -> str:
    """Return a text in lower case, rewritten by rewrites.yaml and without quotation marks and Markdown."""
    text = text.lower().translate(QUOTES)
    for pattern, plain in _rewrites():
        text = pattern.sub(plain, text)
    return text


def sentences(plain: str) -> Iterator[list[Token]]:
    """Yield the tokens of each sentence of a text. The text is a result of `plain_text`."""
    found = [(match[0], match.start(), match.end()) for match in WORD.finditer(plain)]
    at, own = 0, list[Token]()
    while at < len(found):
        word, start, end = found[at]
        token, count = (None, 1) if word in STOPS else _token(found, at)
        if token:
            own.append(token)
        elif word in STOPS and own:
            yield [*own, Token("QUESTION", word, start, end)] if word == "?" else own
            own = []
        at += count
    if own:
        yield own


def _token(found: Sequence[Found], at: int) -> tuple[Token | None, int]:
    """Return the token that begins at word `at`, and the number of its words.

    The token is None if these words are ignored.
    """
    word, start, end = found[at]
    if word in ",:()–—-":
        return Token("COMMA" if word in ",()" else "COLON", word, start, end), 1
    after = _word(found, at + 1 + (_word(found, at + 1) == "now"))
    if word == "can" and after in table()[MACROS]["modal"].split("|"):
        return None, 1  # the verb; before other words, "can" is a cylinder
    if (word, _word(found, at + 1)) == ("a", "little") and _symbol(found, at + 2) not in ("NOUN", "ATTR"):
        return None, 2
    for count in range(min(_most_words(), len(found) - at), 0, -1):
        phrase = tuple(each[0] for each in found[at : at + count])
        if phrase in lexicon():
            symbol, meaning = lexicon()[phrase]
            attributive = symbol in ("AROUND", "IT") and count > 1
            if attributive and _symbol(found, at + count) in ("ATTR", "NOUN", "OTHER"):
                continue  # "between the two cubes", "that one cube"
            if symbol == "NOUN":  # attributes, and whether the noun is plural
                meaning = ((meaning,) if meaning else (), phrase[-1].endswith("s"))
            token = Token(symbol, meaning, start, found[at + count - 1][2])
            return (token if symbol else None), count
    if word.endswith("ly") and len(word) > 4:
        return None, 1  # an adverb of manner; those that change a claim are in words.yaml
    return Token("UNKNOWN", word, start, end), 1


def _word(found: Sequence[Found], at: int) -> str:
    return found[at][0] if at < len(found) else ""


def _symbol(found: Sequence[Found], at: int) -> str:
    return lexicon().get((_word(found, at),), ("", None))[0]
