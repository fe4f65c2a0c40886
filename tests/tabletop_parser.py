"""A second parser of tabletop's captions, for comparison with that of the project."""

from functools import cache

from pipeline.tabletop.words import MEANINGS, NOUNS, VERB_PHRASES


@cache
def parsed(caption: str) -> tuple[str | None, dict[str, set[str]]]:
    """Return (kind of change, attributes) of a caption: its ending, and the words up to the first noun."""
    words = caption.split()
    end = next((position for position, word in enumerate(words) if word in NOUNS), -1) + 1
    looks = {name: {own[word] for word in words[:end] if word in own} for name, own in MEANINGS.items()}
    kinds = (kind for phrase, kind in VERB_PHRASES.items() if f" {caption}".endswith(f" {phrase}"))
    return next(kinds, None), looks
