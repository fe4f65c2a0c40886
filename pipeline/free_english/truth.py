"""Judge free English by the scene of a pair. The verdict has the form of pipeline/scoring/truth.py.

A text is true if it makes a claim, if no claim is wrong or unreadable, and if one claim identifies the
change: its kind, its object and no other, and its new colour or material.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.datasets.schema import NO_CHANGE, Pair
from pipeline.free_english.facts import Facts
from pipeline.free_english.phrase import REST, UNREADABLE, Claim, Phrase, Place
from pipeline.free_english.reader import read
from pipeline.scoring.truth import ALSO, FAULTS, SILENT, Verdict
from pipeline.scoring.truth import UNREADABLE as NOT_PARSED


@dataclass(frozen=True)
class JudgedClaim:
    """A claim and its judgement.

    `faults`: letters of truth.FAULTS, empty for a correct claim. `identifies`: True if the claim correctly
    says which object changed, and how.
    """

    claim: Claim
    faults: str
    identifies: bool

    @property
    def verdict(self) -> str:
        """The judgement of the claim: "correct", "wrong" or "unreadable"."""
        return "unreadable" if NOT_PARSED in self.faults else "wrong" if self.faults else "correct"


def judge_free(text: str, pair: Pair, _: Sequence[str] = ()) -> Verdict | None:
    """Return the verdict on a text by the pair's scene, or None if the scene is unknown.

    Raises InputError for a pair whose scene lacks the changed object.
    """
    if pair.scene is None or pair.change_type is None:
        return None
    return verdict(text, judged_claims(text, pair))


def judged_claims(text: str, pair: Pair) -> list[JudgedClaim]:
    """Return the judged claims of a text about a pair whose scene is known."""
    facts = Facts(pair)
    return [_judged(claim, facts) for claim in read(text)]


def verdict(text: str, judged: Sequence[JudgedClaim]) -> Verdict:
    """Return the verdict on a text, which combines the verdicts on its claims.

    If some claims are wrong, unreadable claims are ignored. Verdict.wrong has the clauses of the wrong
    claims, in lower case. Verdict.fits is True if the text has claims and all of them are correct.
    """
    wrong = [item for item in judged if item.verdict == "wrong"]
    if wrong:
        letters = {letter for item in wrong for letter in item.faults}
        clauses = dict.fromkeys(item.claim.text for item in wrong)
        return Verdict(False, False, tuple(clauses), "".join(fault for fault in FAULTS if fault in letters))
    if not judged or any(item.verdict == "unreadable" for item in judged):
        return Verdict(False, False, (text,), NOT_PARSED)
    if any(item.identifies for item in judged):
        return Verdict(True, True)
    return Verdict(False, True, (judged[0].claim.text,), ALSO)


def _judged(claim: Claim, facts: Facts) -> JudgedClaim:
    if claim.kind == UNREADABLE or _has_open_place(claim):
        return JudgedClaim(claim, NOT_PARSED, False)
    if claim.kind == REST:
        return JudgedClaim(claim, "", False)
    if claim.kind == NO_CHANGE:
        unchanged = facts.kind == NO_CHANGE
        return JudgedClaim(claim, "" if unchanged else SILENT, unchanged)
    faults = facts.faults(claim)
    return JudgedClaim(claim, faults, not faults and facts.identifies(claim))


def _has_open_place(claim: Claim) -> bool:
    return _is_open(claim.subject or Phrase()) or any(map(_is_open_place, (*claim.source, *claim.target)))


def _is_open(phrase: Phrase) -> bool:
    return phrase.pronoun or any(map(_is_open_place, phrase.places))


def _is_open_place(place: Place) -> bool:
    """Return True if a place cannot be judged: it has a pronoun, or is "second" without a side."""
    return (place.relation == "rank" and not place.side) or any(map(_is_open, place.others))
