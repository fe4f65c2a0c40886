"""Read free English: turn a text into its claims.

Claims that state a change only together are joined, for example "was yellow" and "is cyan", or "in the
first" and "not in the second".
"""

from collections.abc import Sequence
from dataclasses import replace

from pipeline.datasets.schema import NO_CHANGE
from pipeline.free_english.claims import is_change
from pipeline.free_english.clauses import Reading
from pipeline.free_english.forms import phrases
from pipeline.free_english.phrase import AFTER, BECOMES, EXISTS, SAME, SIT, STATE, Claim, Phrase, Place
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
        found = phrases(tokens)
        if any(token.symbol in CONTENT for token in found):
            reading.sentence(found, text)
    return _together(reading.claims)


def _together(claims: Sequence[Claim]) -> list[Claim]:
    """Join claims that state the change of one object only together. Return all claims."""
    found: list[Claim] = []
    if any(is_change(claim) for claim in claims):
        claims = [own for claim in claims for own in _aspects(claim)]
    for claim in claims:
        other = next((place for place, own in enumerate(found) if _compared(own, claim)), None)
        if other is not None:
            found[other] = _difference(*sorted((found[other], claim), key=lambda own: own.when != "before"))
            continue
        same = [place for place, own in enumerate(found) if own.subject == claim.subject]
        views = [place for place in same if found[place].kind in (STATE, EXISTS)]
        both = _both_images(found[views[-1]], claim) if views else None
        if claim.kind == "add" and same and found[same[-1]].kind in ("move", "drop"):
            found[same[-1]] = replace(claim, kind="move", source=found[same[-1]].source)
        elif both:
            found[views[-1]] = both
        elif claim.kind in (STATE, SIT) and not claim.when and same and same[-1] == len(found) - 1:
            found[-1:] = _described(found[-1], claim)
        elif claim.kind == EXISTS and claim.when == "before" and same and found[same[-1]].new:
            # "shiny now and it was not before"
            found.append(replace(claim, kind=STATE, new=found[same[-1]].new))
        elif claim.kind == EXISTS and claim.negated and not views:
            kind = "add" if claim.when == "before" else "drop"
            found.append(replace(claim, kind=kind, negated=False, when=""))
        else:
            found.append(claim)
    return found


def _aspects(claim: Claim) -> list[Claim]:
    """Split a claim such as "nothing was added or moved" into one claim per property.

    Other claims are returned unchanged, in a list.
    """
    if claim.kind != NO_CHANGE or not claim.aspect:
        return [claim]
    return [replace(claim, kind=SAME, aspect=aspect) for aspect in claim.aspect.split()]


def _both_images(last: Claim, claim: Claim) -> Claim | None:
    """Join two claims about one object, each about one image, to one claim that the object changed.

    Return None if the two claims do not state a change.
    """
    value = claim.kind in (BECOMES, STATE) and is_change(claim)
    if value and last.kind == STATE and last.when == "before" and not last.negated:
        whole = claim.whole or claim.kind == STATE
        return replace(claim, kind=BECOMES, old=claim.old or last.new, whole=whole)
    reverse = last.when in AFTER and claim.when == "before" and not claim.negated
    if reverse and last.kind == claim.kind == STATE:
        return replace(last, kind=BECOMES, old=claim.new, whole=True)
    whens = {each.when.replace("now", "after") for each in (last, claim)}
    one_image = len(whens) == 1 and "" not in whens
    if last.kind == claim.kind == EXISTS and last.negated != claim.negated and not one_image:
        first = last if last.when == "before" or claim.when in AFTER else claim
        return replace(last, kind="add" if first.negated else "drop", negated=False, when="")
    return None


def _compared(one: Claim, other: Claim) -> bool:
    """Return True if the two claims show one object in different images, and the object differs.

    One claim must be about the first image, and the other claim about the second. The object must differ in
    its colour, its material or its place.
    """
    if {one.when.replace("now", "after"), other.when.replace("now", "after")} != {"before", "after"}:
        return False
    if not (_shows(one) and _shows(other)):
        return False
    before, after = (dict(each.subject.look) for each in (one, other) if each.subject)
    unlike = [name for name in before.keys() & after.keys() if before[name] != after[name]]
    sites = [_sited(one), _sited(other)]
    return unlike in (["color"], ["material"]) or (not unlike and all(sites) and sites[0] != sites[1])


def _shows(claim: Claim) -> bool:
    subject = claim.subject or Phrase()
    single = bool(subject.look) and subject.count == 1 and not subject.new
    return claim.kind in (EXISTS, "add") and single and not claim.negated


def _sited(claim: Claim) -> tuple[Place, ...]:
    return (*(claim.subject.places if claim.subject else ()), *claim.target)


def _difference(before: Claim, after: Claim) -> Claim:
    """Return the claim of a change, from the description of an object in each image."""
    assert before.subject
    assert after.subject
    if dict(before.subject.look).items() ^ dict(after.subject.look).items() and not _sited(after):
        old, new = before.subject.look, after.subject.look
        return replace(before, kind=BECOMES, old=old, new=new, whole=True, when="")
    subject = replace(before.subject, places=())
    return replace(before, kind="move", subject=subject, source=_sited(before), target=_sited(after), when="")


def _described(last: Claim, claim: Claim) -> list[Claim]:
    """Add a description ("it is red") to the claim `last`.

    Return the extended claim, or both claims if the description is a claim of its own.
    """
    if last.kind == BECOMES:
        return [last, replace(claim, when="now")]
    if claim.negated or claim.kind == SIT:  # "brown now, not green", "it moved: it is on the left"
        return [last, replace(claim, when="after")]
    if last.kind not in ("add", "drop", "move", EXISTS):
        return [last, claim]
    subject = claim.subject or Phrase()
    return [replace(last, subject=replace(subject, look=(*subject.look, *claim.new)))]
