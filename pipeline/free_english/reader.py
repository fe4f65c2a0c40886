"""Read free English: turn a text into its claims."""

from pipeline.free_english.clauses import Reading
from pipeline.free_english.joining import together
from pipeline.free_english.noun_phrases import noun_phrases
from pipeline.free_english.phrase import Claim
from pipeline.free_english.places import places
from pipeline.free_english.tokens import plain_text, sentences

CONTENT = {"NP", "VALUE", "ASPECT", "ASPECTS", "PLACE", "COLOR", "ATTR", "NOUN", "NOT", "NO", "NOTHING"}
CONTENT |= {"EVERYTHING", "SAME", "ELSE", "REST", "DIFFERENCE", "MOVED", "ADDED", "DROPPED", "GONE", "PUT"}
CONTENT |= {"LABELADD", "LABELDROP", "LABELMOVE", "EVENTADD", "EVENTDROP", "EVENTMOVE", "EVENTCOLOR", "TALLY"}
CONTENT |= {"CAST", "RESULT", "MAKING", "LOSTSHINE", "CONCERNS", "REPLACES", "VETO"}
CONTENT |= {"CHANGED", "BECAME", "PAINTED", "REPLACED", "OTHERWISE", "NOLONGER", "LACKS", "GAINED", "OCCUR"}
"""A sentence without any of these symbols, such as "let me compare the images", claims nothing."""


def read(text: str) -> list[Claim]:
    """Return the claims of a text, which may have several sentences, in the order of the text."""
    reading, text = Reading(), plain_text(text)
    for tokens in sentences(text):
        found = places(noun_phrases(tokens))
        if any(token.symbol in CONTENT for token in found):
            reading.sentence(found, text)
    return together(reading.claims)
