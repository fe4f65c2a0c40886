"""Judge free English, by the scene of a pair or by its references.

The result is a Verdict, as in pipeline/scoring/truth.py, which judges captions of tabletop's
grammar.

By the scene: a text is true if it makes a claim, if no claim is wrong or unreadable, and if one
claim identifies the change: its kind, its object and no other, and its new colour or material.

By the references, for datasets without scenes (CLEVR-Change, CLEVR-DC): a text agrees with the
references if it names the same kind of change, the same attributes of the object, and the same old
and new value. Positions are not compared. A claim such as "the cube is behind the sphere" counts as
correct, but does not state the change.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.datasets.schema import CHANGE, NO_CHANGE, Pair
from pipeline.free_english.facts import Facts
from pipeline.free_english.phrase import (
    BECOMES,
    EXISTS,
    REST,
    SAME,
    SIT,
    STATE,
    UNREADABLE,
    Claim,
    Phrase,
    Place,
    Values,
)
from pipeline.free_english.reader import read
from pipeline.scoring.sentences import NONE, Claims, Sentence, of_pair
from pipeline.scoring.truth import ALSO, ATTRIBUTES, FAULTS, INVENTED, KIND, SILENT, VALUE, Verdict
from pipeline.scoring.truth import UNREADABLE as NOT_PARSED
from pipeline.tabletop.words import NEW_VALUE


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
        return "unreadable" if NOT_PARSED in self.faults else "wrong" if self.faults else "correct"


def judge_free(text: str, pair: Pair) -> Verdict | None:
    """Return the verdict on a text by the pair's scene, or None if the scene is unknown."""
    if pair.scene is None or pair.change_type is None:
        return None
    return verdict(text, judged_claims(text, pair))


def judged_claims(text: str, pair: Pair) -> list[JudgedClaim]:
    """Return the claims of a text, each with its judgement by the scene of `pair`, which must be known."""
    facts = Facts(pair)
    return [_by_scene(claim, facts) for claim in read(text)]


def verdict(text: str, judged: Sequence[JudgedClaim]) -> Verdict:
    """Return the verdict on a text, combined from the verdicts on its claims.

    If a claim is wrong, the text is wrong. Verdict.wrong then has the clauses of the wrong claims, in
    lower case. Otherwise, a text without claims or with an unreadable claim is not parseable. In all
    other cases, Verdict.fits is True. Verdict.true is also True if a claim identifies the change;
    else the text counts as ambiguous.
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


def _by_scene(claim: Claim, facts: Facts) -> JudgedClaim:
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
    """Return True for a place that is unclear: "the second" of no side, or "behind it"."""
    return (place.relation == "rank" and not place.side) or any(map(_is_open, place.others))


def agreement(text: str, pair: Pair) -> Verdict | None:
    """Return the verdict on a text by the pair's references; None if these name no kind of change."""
    truth = of_pair(pair, [Sentence.of(caption) for caption in pair.captions])
    if not truth.kinds:
        return None
    return verdict(text, [_by_references(claim, truth) for claim in read(text)])


FREE = (judge_free, agreement)
"""Functions that judge free English: by the scene (first), by the references (second). See also STRICT."""


def _by_references(claim: Claim, truth: Claims) -> JudgedClaim:
    unchanged = NO_CHANGE in truth.kinds
    if claim.kind == UNREADABLE:
        return JudgedClaim(claim, NOT_PARSED, False)
    if claim.kind == NO_CHANGE:
        return JudgedClaim(claim, "" if unchanged else SILENT, unchanged)
    if claim.kind in (REST, EXISTS, SAME) or (claim.kind in (STATE, SIT) and not _tells_change(claim, truth)):
        return JudgedClaim(claim, "", False)
    if unchanged:
        return JudgedClaim(claim, "" if claim.negated else INVENTED, False)
    faults = _faults(claim, truth)
    if claim.negated:
        return JudgedClaim(claim, "" if faults else KIND, False)
    names_value = claim.kind not in (BECOMES, STATE) or bool(_named(claim, truth))
    return JudgedClaim(claim, faults, not faults and claim.kind != CHANGE and names_value)


def _tells_change(claim: Claim, truth: Claims) -> bool:
    """Return True if a claim about the second image states the change: "is now red", or a new value."""
    values = claim.subject.look if claim.subject else ()
    fits_subject = all(value in truth.look.get(name, NONE) for name, value in values)
    after = claim.kind == STATE and claim.when == "after" and fits_subject and bool(_named(claim, truth))
    return claim.when == "now" or after


def _faults(claim: Claim, truth: Claims) -> str:
    subject = claim.subject.look if claim.subject else ()
    faults = {ATTRIBUTES[name] for name, value in subject if truth.look.get(name, NONE) != {value}}
    is_plural = claim.subject is not None and claim.subject.count > 1
    if is_plural or not _kinds(claim) & {*truth.kinds, CHANGE}:
        faults.add(KIND)
    else:
        new_agrees = all(value in truth.value.get(name, NONE) for name, value in _named(claim, truth))
        old_agrees = all(value in truth.look.get(name, {value}) for name, value in claim.old)
        faults |= {VALUE} if not (new_agrees and old_agrees) else set()
    return "".join(letter for letter in FAULTS if letter in faults)


def _named(claim: Claim, truth: Claims) -> Values:
    """Return the new values of the attribute that changed: only red of "is now red metal"."""
    kinds = {NEW_VALUE.get(name) for name, _ in claim.new} & truth.kinds
    return tuple(pair for pair in claim.new if NEW_VALUE.get(pair[0]) in kinds)


def _kinds(claim: Claim) -> set[str]:
    if claim.kind == SIT:
        return {"move"}
    if claim.kind not in (BECOMES, STATE):
        return {claim.kind}
    attributes = [name for name, _ in (claim.new or claim.old)] or [claim.aspect]
    kinds = {NEW_VALUE[name] for name in attributes if name in NEW_VALUE}
    is_full = claim.is_full or claim.kind == STATE
    return kinds if is_full or len(kinds) == len({*attributes}) == 1 else {"other"}
