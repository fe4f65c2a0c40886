"""Read free English: turn a text into its claims.

Two claims that state a change only in combination are joined to one claim. Examples are "was yellow"
and "is cyan", or "in the first image" and "not in the second".
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from pipeline.datasets.schema import NO_CHANGE
from pipeline.free_english.claims import is_change
from pipeline.free_english.clauses import Reading
from pipeline.free_english.forms import phrases
from pipeline.free_english.tokens import plain_text, sentences
from pipeline.judging.claims import AFTER, BECOMES, EXISTS, REST, SAME, SIT, STATE, Claim, Phrase, Place

CONTENT = {"NP", "VALUE", "ASPECT", "ASPECTS", "PLACE", "COLOR", "ATTR", "NOUN", "NOT", "NO", "NOTHING"}
CONTENT |= {"EVERYTHING", "SAME", "ELSE", "REST", "DIFFERENCE", "MOVED", "ADDED", "DROPPED", "GONE", "PUT"}
CONTENT |= {"LABELADD", "LABELDROP", "LABELMOVE", "EVENTADD", "EVENTDROP", "EVENTMOVE", "EVENTCOLOR", "TALLY"}
CONTENT |= {"CAST", "RESULT", "MAKING", "LOSTSHINE", "CONCERNS", "REPLACES", "VETO"}
CONTENT |= {"CHANGED", "BECAME", "PAINTED", "REPLACED", "OTHERWISE", "NOLONGER", "LACKS", "GAINED", "OCCUR"}
"""A sentence without any of these symbols, such as "let me compare the images", claims nothing."""


OTHERS = re.compile(r"\b(?:else|others?|otherwise|rest|remaining|remainder|further|more|nearly|almost)\b")
"""Words of a claim about the other objects: "everything else is there"."""


def read(text: str) -> list[Claim]:
    """Return the claims of a text, which may have several sentences, in the order of the text."""
    reading, text = Reading(), plain_text(text)
    for tokens in sentences(text):
        joined_tokens = phrases(tokens)
        if any(token.symbol in CONTENT for token in joined_tokens):
            reading.sentence(joined_tokens, text)
    return _together(reading.claims)


def _together(claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims; claims that describe parts of the same change are joined into one claim.

    For example, a claim about an object in the first image and a claim about it in the second image
    become one claim about its change.
    """
    result: list[Claim] = []
    if any(is_change(claim) for claim in claims):
        claims = [earlier for claim in claims for earlier in _aspects(claim)]
    for claim in claims:
        match = next((i for i, earlier in enumerate(result) if _compared(earlier, claim)), None)
        if match is not None:
            before, after = sorted((result[match], claim), key=lambda image: image.when != "before")
            result[match] = _difference(before, after)
            continue
        same = [i for i, earlier in enumerate(result) if earlier.subject == claim.subject]
        views = [i for i in same if result[i].kind in (STATE, EXISTS)]
        both = _both_images(result[views[-1]], claim) if views else None
        if claim.kind == "add" and same and result[same[-1]].kind in ("move", "drop"):
            result[same[-1]] = replace(claim, kind="move", source=result[same[-1]].source)
        elif both:
            result[views[-1]] = both
        elif claim.kind in (STATE, SIT) and not claim.when and same and same[-1] == len(result) - 1:
            result[-1:] = _described(result[-1], claim)
        elif claim.kind == EXISTS and claim.when == "before" and same and result[same[-1]].new:
            # "shiny now and it was not before"
            result.append(replace(claim, kind=STATE, new=result[same[-1]].new))
        elif claim.kind == EXISTS and claim.negated and not views and claim.when != "both":
            kind = "add" if claim.when == "before" else "drop"
            result.append(replace(claim, kind=kind, negated=False, when=""))
        else:
            result.append(claim)
    return _denied(result) or result


def _denied(claims: Sequence[Claim]) -> list[Claim]:
    """Return claims of no change for "all objects are still there, and none has changed its colour"; else [].

    These words deny that objects were removed, and that a property changed, and claim nothing else.
    """
    present = [claim for claim in claims if claim.kind == REST and not OTHERS.search(claim.text)]
    same = [claim for claim in claims if claim.kind == SAME and claim.subject is None and not claim.negated]
    if present and same and len(present) + len(same) == len(claims):
        return [Claim(NO_CHANGE, text=claim.text) for claim in claims]
    return []


def _aspects(claim: Claim) -> list[Claim]:
    """Split a claim such as "no colours or positions changed" into one claim per property."""
    if claim.kind != NO_CHANGE or not claim.aspect:
        return [claim]
    return [replace(claim, kind=SAME, aspect=aspect) for aspect in claim.aspect.split()]


def _both_images(last: Claim, claim: Claim) -> Claim | None:
    """Join two claims about one object, each about one image, to one claim that the object changed.

    Return None if the two claims do not state a change.
    """
    gives_value = claim.kind in (BECOMES, STATE) and is_change(claim)
    if gives_value and last.kind == STATE and last.when == "before" and not last.negated:
        is_full = claim.is_full or claim.kind == STATE
        return replace(claim, kind=BECOMES, old=claim.old or last.new, is_full=is_full)
    is_reversed = last.when in AFTER and claim.when == "before" and not claim.negated
    if is_reversed and last.kind == claim.kind == STATE:
        return replace(last, kind=BECOMES, old=claim.new, is_full=True)
    whens = {part.when.replace("now", "after") for part in (last, claim)}
    same_image = len(whens) == 1 and "" not in whens
    if last.kind == claim.kind == EXISTS and last.negated != claim.negated and not same_image:
        first = last if last.when == "before" or claim.when in AFTER else claim
        return replace(last, kind="add" if first.negated else "drop", negated=False, when="")
    return None


def _compared(first: Claim, second: Claim) -> bool:
    """Return True if one claim shows an object before the change, and the other shows it after the change.

    For example: "there is a red cube in the first image" and "there is a blue cube in the second". The
    object must differ in its colour, its material or its place.
    """
    if {first.when.replace("now", "after"), second.when.replace("now", "after")} != {"before", "after"}:
        return False
    if not (_shows(first) and _shows(second)):
        return False
    before, after = (dict(claim.subject.look) for claim in (first, second) if claim.subject)
    differing = [name for name in before.keys() & after.keys() if before[name] != after[name]]
    sites = [_sited(first), _sited(second)]
    return differing in (["color"], ["material"]) or (not differing and all(sites) and sites[0] != sites[1])


def _shows(claim: Claim) -> bool:
    subject = claim.subject or Phrase()
    is_single = bool(subject.look) and subject.count == 1 and not subject.new
    return claim.kind in (EXISTS, "add") and is_single and not claim.negated


def _sited(claim: Claim) -> tuple[Place, ...]:
    return (*(claim.subject.places if claim.subject else ()), *claim.target)


def _difference(before: Claim, after: Claim) -> Claim:
    """Return the claim that an object changed.

    `before` and `after` describe the object in the two images.
    """
    assert before.subject
    assert after.subject
    if dict(before.subject.look).items() ^ dict(after.subject.look).items() and not _sited(after):
        old, new = before.subject.look, after.subject.look
        return replace(before, kind=BECOMES, old=old, new=new, is_full=True, when="")
    subject = replace(before.subject, places=())
    return replace(before, kind="move", subject=subject, source=_sited(before), target=_sited(after), when="")


def _described(last: Claim, claim: Claim) -> list[Claim]:
    """Combine the claim `last` with the next claim, `claim`, which is a description such as "it is red".

    Return [`last` with the described attributes], or both claims if they cannot be combined.
    """
    if last.kind == BECOMES:
        return [last, replace(claim, when="now")]
    if claim.negated or claim.kind == SIT:  # "brown now, not green", "it moved: it is on the left"
        return [last, replace(claim, when="after")]
    if last.kind not in ("add", "drop", "move", EXISTS):
        return [last, claim]
    subject = claim.subject or Phrase()
    return [replace(last, subject=replace(subject, look=(*subject.look, *claim.new)))]
