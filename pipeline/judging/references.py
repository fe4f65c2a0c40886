"""Judge claims by the references of a pair, for datasets without scenes (CLEVR-Change, CLEVR-DC).

A claim agrees with the references if it names the same kind of change, the same attributes of the object, and
the same old and new value. Positions are not compared, because references do not describe them in full. A
claim such as "the cube is behind the sphere" counts as correct, but does not state the change.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pipeline.datasets.schema import CHANGE, CHANGE_TYPES, NO_CHANGE, Pair
from pipeline.judging.claims import BECOMES, EXISTS, REST, SAME, SIT, STATE, UNREADABLE, Claim, Values
from pipeline.judging.verdicts import (
    ATTRIBUTES,
    INVENTED,
    KIND,
    SILENT,
    UNPARSED,
    VALUE,
    JudgedClaim,
    in_order,
)
from pipeline.tabletop.words import NEW_VALUE

NONE: frozenset[str] = frozenset()
ValueSets = Mapping[str, frozenset[str]]
"""Attribute -> its values that a text names."""


@dataclass(frozen=True)
class JointClaims:
    """Union of several claims about one change. A field that no claim mentions is empty."""

    kinds: frozenset[str]  # kinds of change: CHANGE_TYPES or NO_CHANGE
    look: ValueSets  # attributes of the subject
    value: ValueSets  # new colour or material


def joint(claims: Iterable[Claim]) -> JointClaims:
    """Return the union of the claims."""
    claims = list(claims)
    return JointClaims(
        frozenset(kind for claim in claims for kind in claim.changes),
        _sets(pair for claim in claims if claim.subject for pair in claim.subject.look),
        _sets(pair for claim in claims for pair in claim.new),
    )


def of_pair(pair: Pair, claims: Iterable[Claim]) -> JointClaims:
    """Return what the references of a pair say together; `claims` are those of all references.

    If the dataset states the pair's kind of change, this kind replaces the kinds that the references
    name.
    """
    said = joint(claims)
    is_stated = pair.change_type in (*CHANGE_TYPES, NO_CHANGE)
    kinds = frozenset([str(pair.change_type)]) if is_stated else said.kinds
    return JointClaims(kinds, said.look, said.value)


def contradicts(candidate: JointClaims, truth: JointClaims) -> bool:
    """Return True if both claims name kinds, or values of an attribute, but none in common.

    It is False for nonsense such as "the rubber ball became rubber", whatever `truth` claims.
    """
    if any(candidate.look.get(name, NONE) & values for name, values in candidate.value.items()):
        return False
    return (
        _differ(candidate.kinds, truth.kinds)
        or any(_differ(values, truth.look.get(name, NONE)) for name, values in candidate.look.items())
        or any(_differ(values, truth.value.get(name, NONE)) for name, values in candidate.value.items())
    )


def judged_by_references(claims: Iterable[Claim], truth: JointClaims) -> list[JudgedClaim]:
    """Return the claims, each with its judgement; `truth` is what the references say (of_pair)."""
    return [_judged(claim, truth) for claim in claims]


def _judged(claim: Claim, truth: JointClaims) -> JudgedClaim:
    unchanged = NO_CHANGE in truth.kinds
    if claim.kind == UNREADABLE:
        return JudgedClaim(claim, UNPARSED)
    if claim.kind == NO_CHANGE:
        return JudgedClaim(claim, "" if unchanged else SILENT, unchanged)
    if claim.kind in (REST, EXISTS, SAME) or (claim.kind in (STATE, SIT) and not _tells_change(claim, truth)):
        return JudgedClaim(claim, "")
    if unchanged:
        return JudgedClaim(claim, "" if claim.negated else INVENTED)
    faults = faults_of(claim, truth)
    if claim.negated:
        return JudgedClaim(claim, "" if faults else KIND)
    names_value = claim.kind not in (BECOMES, STATE) or bool(_named(claim, truth))
    return JudgedClaim(claim, faults, not faults and claim.kind != CHANGE and names_value)


def faults_of(claim: Claim, truth: JointClaims) -> str:
    """Return the faults of a claim that states a change, as letters of verdicts.FAULTS."""
    look = _sets(claim.subject.look if claim.subject else ())
    faults = {ATTRIBUTES[name] for name, values in look.items() if truth.look.get(name) != values}
    is_plural = claim.subject is not None and claim.subject.count > 1
    if is_plural or not claim.changes & {*truth.kinds, CHANGE}:
        faults.add(KIND)
    else:
        new_agrees = all(value in truth.value.get(name, NONE) for name, value in _named(claim, truth))
        old_agrees = all(value in truth.look.get(name, {value}) for name, value in claim.old)
        faults |= {VALUE} if not (new_agrees and old_agrees) else set()
    return in_order(faults)


def _tells_change(claim: Claim, truth: JointClaims) -> bool:
    """Return True if a claim about the second image states the change: "is now red", or a new value."""
    values = claim.subject.look if claim.subject else ()
    fits_subject = all(value in truth.look.get(name, NONE) for name, value in values)
    after = claim.kind == STATE and claim.when == "after" and fits_subject and bool(_named(claim, truth))
    return claim.when == "now" or after


def _named(claim: Claim, truth: JointClaims) -> Values:
    """Return the new values of the attribute that changed: only red of "is now red metal"."""
    kinds = {NEW_VALUE.get(name) for name, _ in claim.new} & truth.kinds
    return tuple(pair for pair in claim.new if NEW_VALUE.get(pair[0]) in kinds)


def _differ(a: frozenset[str], b: frozenset[str]) -> bool:
    return bool(a) and bool(b) and not a & b


def _sets(values: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    sets: dict[str, frozenset[str]] = {}
    for name, value in values:
        sets[name] = sets.get(name, NONE) | {value}
    return sets
