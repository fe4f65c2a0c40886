"""Join the tokens of a sentence into noun phrases, places and properties, by the forms of forms.yaml."""

from functools import cache
from pathlib import Path

from pipeline.free_english import noun_phrases, places
from pipeline.free_english.patterns import Build, reduced
from pipeline.free_english.tokens import Token, with_macros
from pipeline.io.inputs import read_yaml

FORMS = Path(__file__).with_name("forms.yaml")
FUNCTIONS = vars(noun_phrases) | vars(places)


def phrases(tokens: list[Token]) -> list[Token]:
    """Join noun phrases to NP tokens, values ("red and shiny") to VALUE, places to PLACE, times to WHEN.

    The forms of places are applied from right to left until nothing changes. So "the cube behind the ball on
    the left" first becomes "the cube" and "behind (the ball on the left)".
    """
    forms = _forms()
    tokens = reduced(reduced(tokens, forms["marks"]), forms["neighbours"])
    tokens = noun_phrases.count_from_side(noun_phrases.no_longer(tokens))
    tokens = noun_phrases.join_values(reduced(tokens, forms["base"]))
    before: list[Token] = []
    while before != tokens:
        before = tokens
        tokens = reduced(tokens, forms["places"], backwards=True)
    return tokens


@cache
def _forms() -> dict[str, list[tuple[str, Build]]]:
    """Return the forms of forms.yaml: section -> (regular expression, function that replaces a match)."""
    sections = read_yaml(FORMS, "restore it from git")
    macros = sections.pop("macros")
    return {
        section: [(with_macros(form, macros), _replacement(text)) for form, text in forms.items()]
        for section, forms in sections.items()
    }


def _replacement(text: str) -> Build:
    symbol, _, meaning = text.partition(" ")
    if symbol.isupper():
        return lambda tokens: noun_phrases.joined(tokens, symbol, meaning)
    function: Build = FUNCTIONS[text]
    return function
