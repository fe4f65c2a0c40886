"""Verdicts on claims and captions: the letters of faults, and which words of a caption are false."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipeline.judging.claims import Claim

ATTRIBUTES = {"size": "z", "color": "c", "material": "m", "shape": "s"}  # letters of FAULTS
RELATION, KIND, VALUE, ANOTHER, ALSO, SILENT, INVENTED, UNPARSED = "rkvoantg"
FAULTS = {
    SILENT: "missed change",
    INVENTED: "false alarm",
    UNPARSED: "not parseable",
    KIND: "kind of change",
    ATTRIBUTES["color"]: "colour",
    ATTRIBUTES["material"]: "material",
    ATTRIBUTES["shape"]: "shape",
    ATTRIBUTES["size"]: "size",
    RELATION: "relation",
    VALUE: "new value",
    ANOTHER: "another object",  # it fits another object of the image; the wrong attributes are faults, too
    ALSO: "ambiguous",
}  # letter -> the false part of a caption


@dataclass(frozen=True)
class Verdict:
    """Judgement of a caption: whether it is true, and its faults."""

    true: bool
    fits: bool  # true, or ambiguous without another fault
    # false phrases in their order; the whole caption if the judge does not find them; () if it is true
    wrong: tuple[str, ...] = ()
    faults: str = ""  # letters of all faults, in the order of FAULTS; empty if the judge names none


@dataclass(frozen=True)
class JudgedClaim:
    """A claim and its judgement.

    `faults`: letters of FAULTS, empty for a correct claim. `identifies`: True if the claim correctly says
    which object changed, and how.
    """

    claim: Claim
    faults: str
    identifies: bool = False

    @property
    def verdict(self) -> str:
        return "unreadable" if UNPARSED in self.faults else "wrong" if self.faults else "correct"


def in_order(faults: Iterable[str]) -> str:
    """Return the letters of faults in the order of FAULTS, each once."""
    letters = {letter for fault in faults for letter in fault}
    return "".join(letter for letter in FAULTS if letter in letters)


def verdict(text: str, judged: Sequence[JudgedClaim]) -> Verdict:
    """Return the verdict on a text, combined from the verdicts on its claims.

    If a claim is wrong, the text is wrong. Otherwise, a text without claims or with an unreadable claim is
    not parseable. In all other cases, Verdict.fits is True. Verdict.true is also True if a claim identifies
    the change; else the text counts as ambiguous.
    """
    if wrong := [item for item in judged if item.verdict == "wrong"]:
        phrases = dict.fromkeys(phrase for item in wrong for phrase in item.claim.said(item.faults))
        return Verdict(False, False, tuple(phrases), in_order(item.faults for item in wrong))
    if not judged or any(item.verdict == "unreadable" for item in judged):
        return Verdict(False, False, (text,), UNPARSED)
    if any(item.identifies for item in judged):
        return Verdict(True, True)
    return Verdict(False, True, judged[0].claim.said(ALSO), ALSO)


def marks(words: Sequence[str], wrong: Iterable[str]) -> list[bool]:
    """Return a boolean for each word: True if the word belongs to a false phrase of `wrong`.

    Only the first occurrence of each false phrase is marked.
    """
    marked: set[int] = set()
    for phrase in (text.split() for text in wrong if text.strip()):
        starts = range(len(words) - len(phrase) + 1)
        first = next((start for start in starts if list(words[start : start + len(phrase)]) == phrase), None)
        if first is not None:
            marked |= {*range(first, first + len(phrase))}
    return [position in marked for position in range(len(words))]


def quoted(wrong: Iterable[str]) -> str:
    return ", ".join(f"“{phrase}”" for phrase in wrong if phrase.strip())
