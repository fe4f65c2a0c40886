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
Span = tuple[str, int, int]
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
    symbols: Mapping[str, Mapping[str, str]] = read_yaml(TABLE, "restore it from git")
    return symbols


@cache
def lexicon() -> Mapping[tuple[str, ...], tuple[str, Any]]:
    """Return all known phrases: tuple of words -> symbol (empty for ignored phrases) and meaning."""
    entries = {name: synonyms for name, synonyms in table().items() if name != MACROS}
    ignored = _phrases(entries.pop(IGNORED)[""])
    phrases: dict[tuple[str, ...], tuple[str, Any]] = dict.fromkeys(ignored, ("", None))
    shaped, objects = entries.pop(SHAPED), entries.pop(OBJECT)[""]
    attribute_phrases = {attribute: entries.pop(attribute) for attribute in ATTRIBUTES}
    for symbol, meanings in entries.items():
        for meaning, texts in meanings.items():
            phrases |= dict.fromkeys(_phrases(texts), (symbol, meaning))
    for attribute, values in words.SYNONYMS.items():
        symbol = "NOUN" if attribute == "shape" else "ATTR"
        for value, synonyms in values.items():
            texts = ", ".join([*synonyms, attribute_phrases[attribute].get(value, "")])
            phrases |= dict.fromkeys(_phrases(texts), (symbol, (attribute, value)))
    phrases |= dict.fromkeys(_phrases(", ".join([*words.ANY_SHAPE, objects])), ("NOUN", ()))
    for value, texts in shaped.items():
        phrases |= dict.fromkeys(_phrases(texts), ("ATTR", ("shape", value)))
    return phrases


@cache
def _counts() -> dict[str, list[int]]:
    """Return, for the first word of each phrase of the lexicon, the numbers of words, most first."""
    counts: dict[str, set[int]] = {}
    for phrase in lexicon():
        counts.setdefault(phrase[0], set()).add(len(phrase))
    return {word: sorted(numbers, reverse=True) for word, numbers in counts.items()}


def _phrases(texts: str) -> Iterator[tuple[str, ...]]:
    """Yield the phrases of an entry of words.yaml: [a|b|] is a choice, {name} a macro, + a verb's forms."""
    for text in with_macros(texts, table()[MACROS]).split(","):
        text = re.sub(r"\b([a-z]+)(\+{1,2})", lambda match: f"[{'|'.join(_forms(*match.groups()))}]", text)
        parts = re.split(r"\[([^\]]*)\]", text)
        options = [part.split("|") if index % 2 else [part] for index, part in enumerate(parts)]
        yield from (phrase for chosen in product(*options) if (phrase := tuple("".join(chosen).split())))


def with_macros(text: str, macros: Mapping[str, str]) -> str:
    """Return a text with each {name} replaced by the macro of this name, also inside macros."""
    while macro := re.search(r"\{(\w+)\}", text):
        text = text.replace(macro[0], macros[macro[1]])
    return text


def _forms(verb: str, mark: str) -> tuple[str, ...]:
    """Return four forms of a verb, such as "move", "moves", "moved" and "moving".

    `mark` is "++" if the last letter is doubled, as in "swapped"; any other value has no effect.
    """
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
    spans = [(match[0], match.start(), match.end()) for match in WORD.finditer(plain)]
    i, sentence = 0, list[Token]()
    while i < len(spans):
        word, start, end = spans[i]
        token, count = (None, 1) if word in STOPS else _token(spans, i)
        if token:
            sentence.append(token)
        elif word in STOPS and sentence:
            yield [*sentence, Token("QUESTION", word, start, end)] if word == "?" else sentence
            sentence = []
        i += count
    if sentence:
        yield sentence


def _token(spans: Sequence[Span], i: int) -> tuple[Token | None, int]:
    """Return the token that begins at word `i`, and the number of its words.

    The token is None if these words are ignored.
    """
    word, start, end = spans[i]
    if word in ",:()–—-":
        return Token("COMMA" if word in ",()" else "COLON", word, start, end), 1
    after = _word(spans, i + 1 + (_word(spans, i + 1) == "now"))
    if word == "can" and after in table()[MACROS]["modal"].split("|"):
        return None, 1  # the verb; before other words, "can" is a cylinder
    if (word, _word(spans, i + 1)) == ("a", "little") and _symbol(spans, i + 2) not in ("NOUN", "ATTR"):
        return None, 2
    for count in _counts().get(word, ()):
        phrase = tuple(span[0] for span in spans[i : i + count])
        if len(phrase) == count and phrase in lexicon():  # at the end of the text, it is shorter
            symbol, meaning = lexicon()[phrase]
            attributive = symbol in ("AROUND", "IT") and count > 1
            if attributive and _symbol(spans, i + count) in ("ATTR", "NOUN", "OTHER"):
                continue  # "between the two cubes", "that one cube"
            if symbol == "NOUN":  # attributes, and whether the noun is plural
                meaning = ((meaning,) if meaning else (), phrase[-1].endswith("s"))
            token = Token(symbol, meaning, start, spans[i + count - 1][2])
            return (token if symbol else None), count
    if word.endswith("ly") and len(word) > 4:
        return None, 1  # an adverb of manner; those that change a claim are in words.yaml
    return Token("UNKNOWN", word, start, end), 1


def _word(spans: Sequence[Span], i: int) -> str:
    return spans[i][0] if i < len(spans) else ""


def _symbol(spans: Sequence[Span], i: int) -> str:
    return lexicon().get((_word(spans, i),), ("", None))[0]
