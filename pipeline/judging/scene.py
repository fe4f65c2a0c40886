"""Judge the claims of a caption by the scene of its pair. All readers of captions use this judge.

A caption is true if it makes a claim, if no claim is wrong or unreadable, and if one claim identifies the
change: its kind, its object and no other, and its new colour or material. The object is searched in the
after image if it was added, else in the before image. A caption of an unchanged pair is true if it claims
that nothing changed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pipeline.datasets.schema import CHANGE, NO_CHANGE, Pair, Placed, changed_objects
from pipeline.io.errors import InputError
from pipeline.judging.claims import (
    ALL,
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
from pipeline.judging.positions import AXES, Sight, beside, distance, holds, looks, matching
from pipeline.judging.verdicts import (
    ANOTHER,
    ATTRIBUTES,
    INVENTED,
    KIND,
    RELATION,
    SILENT,
    UNPARSED,
    VALUE,
    JudgedClaim,
    in_order,
)
from pipeline.tabletop.words import CHANGED, NEAREST, offsets

DYNAMIC = ("toward", "away", "past")  # relations of a move, not of a place
ASPECTS = {"color": "color", "texture": "material", "move": "position"}  # kind of change -> what changes


def judged_by_scene(claims: Iterable[Claim], pair: Pair) -> list[JudgedClaim] | None:
    """Return the claims, each with its judgement; None if the pair's scene is unknown.

    Raises InputError for a pair whose scene lacks the changed object.
    """
    if pair.scene is None or pair.change_type is None:
        return None
    facts = Facts(pair)
    return [_judged(claim, facts) for claim in claims]


def _judged(claim: Claim, facts: "Facts") -> JudgedClaim:
    if claim.kind == UNREADABLE or _has_open_place(claim):
        return JudgedClaim(claim, UNPARSED)
    if claim.kind == REST:
        return JudgedClaim(claim, "")
    if claim.kind != NO_CHANGE:
        faults = facts.faults(claim)
        return JudgedClaim(claim, faults, not faults and facts.identifies(claim))
    if facts.kind != NO_CHANGE:
        return JudgedClaim(claim, SILENT)
    # "no change was made to the red cube" leaves open whether another object changed
    is_limited = claim.subject is not None and bool(claim.subject.look)
    return JudgedClaim(claim, UNPARSED) if is_limited else JudgedClaim(claim, "", identifies=True)


def _has_open_place(claim: Claim) -> bool:
    return _is_open(claim.subject or Phrase()) or any(map(_is_open_place, (*claim.source, *claim.target)))


def _is_open(phrase: Phrase) -> bool:
    return phrase.pronoun or any(map(_is_open_place, phrase.places))


def _is_open_place(place: Place) -> bool:
    """Return True for a place that is unclear: "the second" of no side, or "behind it"."""
    return (place.relation == "rank" and not place.side) or any(map(_is_open, place.others))


class Facts:
    """The objects of a pair's images, and the changed object before and after.

    Raises InputError if the scene lacks the changed object.
    """

    def __init__(self, pair: Pair):
        assert pair.scene is not None
        self.kind = str(pair.change_type)
        self.before = Sight(pair.scene.before, pair.scene.before_camera)
        self.after = Sight(pair.scene.after, pair.scene.after_camera)
        self.old, self.new = (None, None) if self.kind == NO_CHANGE else _changed_of(pair)
        self.described = self.after if self.kind == "add" else self.before

    @property
    def changed(self) -> Placed | None:
        return self.old or self.new

    def faults(self, claim: Claim) -> str:
        """Return the faults of a claim as letters of verdicts.FAULTS; "" for a correct claim."""
        if claim.kind == EXISTS:
            return self._view_faults(claim)
        if claim.kind == SAME:
            return self._same_faults(claim)
        if claim.kind in (STATE, SIT) and not self._tells_change(claim):
            return self._view_faults(claim)
        if self.kind == NO_CHANGE:
            return "" if claim.negated else INVENTED
        faults = self._change_faults(claim)
        if claim.negated:
            exists = claim.kind not in ("move", CHANGE) or matching(claim.subject or Phrase(), self.described)
            return "" if faults and exists else KIND
        return faults

    def identifies(self, claim: Claim) -> bool:
        """Return True if a claim, which must be correct, says which object changed, and how.

        The claim's description of the changed object must fit no other object. If the colour or material has
        changed, the claim must also name the new value.
        """
        if self.kind == NO_CHANGE or claim.negated or claim.kind in (EXISTS, SAME, CHANGE):
            return False
        if claim.kind in (STATE, SIT) and not self._tells_change(claim):
            return False
        attribute = CHANGED.get(self.kind)
        names_value = attribute is None or any(name == attribute for name, _ in claim.new)
        fitting = matching(claim.subject or Phrase(), self.described)
        return names_value and sum(_agrees(item, claim.old) for item in fitting) == 1

    def _view_faults(self, claim: Claim) -> str:
        """Return KIND (the letter for a wrong kind of change) if a claim about an image is false, else "".

        Examples of such claims are "there is a cube behind the ball" and "the cube is not red".
        """
        subject = claim.subject or Phrase()
        phrase = replace(subject, look=(*subject.look, *claim.new), places=(*subject.places, *claim.target))
        if claim.when in ("", "both"):
            sights = [self.before, self.after]
        else:
            sights = [self.before if claim.when == "before" else self.after]
        fits = [_enough(phrase, len(matching(phrase, sight))) for sight in sights]
        is_true = all(fits) if claim.when == "both" and not claim.negated else any(fits)
        return "" if is_true != claim.negated else KIND

    def _same_faults(self, claim: Claim) -> str:
        """Return KIND (wrong kind of change) if a claim that something is the same is false, else "".

        Examples of such claims are "the cube is the same" and "the colour of the cube is the same".
        """
        fitting = matching(claim.subject or Phrase(), self.described)
        changed = self.changed is not None and (claim.subject is None or self.changed in fitting)
        if claim.aspect:
            names_look = "look" in claim.aspect and self.kind in ("color", "texture")
            is_wrong = changed and (names_look or ASPECTS.get(self.kind, "presence") in claim.aspect.split())
        else:
            is_plural = claim.subject is not None and claim.subject.count > 1
            is_wrong = not fitting or (changed and (len(fitting) == 1 or is_plural))
        return KIND if is_wrong != claim.negated else ""

    def _tells_change(self, claim: Claim) -> bool:
        """Return True if a claim about the second image states the change, as in "the cube is now red"."""
        if claim.when == "now":
            return True
        if claim.kind == SIT:
            has_moved = self.kind == "move" and claim.when == "after" and bool(claim.target)
            has_moved = has_moved and self.changed in matching(claim.subject or Phrase(), self.before)
            return has_moved and not self._placed(self.old, claim.target, self.before)
        if claim.when in ("before", "both") or self.new is None:
            return False
        return any(
            CHANGED.get(self.kind) == name and getattr(self.new, name) == value for name, value in claim.new
        )

    def _change_faults(self, claim: Claim) -> str:
        subject = claim.subject or Phrase()
        faults = {*self._subject_faults(subject)}
        if subject.count > 1 or (subject.new and self.kind != "add") or not self._right_kind(claim):
            faults.add(KIND)
        elif not (_agrees(self.new, claim.new) and _agrees(self.old, claim.old)):
            faults.add(VALUE)
        if not self._right_path(claim):
            faults.add(RELATION)
        if faults & {*ATTRIBUTES.values(), RELATION} and matching(subject, self.described):
            faults.add(ANOTHER)
        return in_order(faults)

    def _subject_faults(self, subject: Phrase) -> Iterable[str]:
        """Yield the faults of a noun phrase about the changed object: wrong attributes and places."""
        changed = self.changed
        assert changed is not None
        yield from (ATTRIBUTES[name] for name, value in subject.look if getattr(changed, name) != value)
        alike = matching(replace(subject, places=()), self.described)
        candidates = [*(item for item in alike if item != changed), changed]
        if not all(holds(place, changed, candidates, self.described) for place in subject.places):
            yield RELATION
        for place in subject.places:
            item = self.old if place.when == "before" else self.new
            if place.relation == "seen" and (item is None or not looks(item, subject)):
                yield KIND

    def _right_kind(self, claim: Claim) -> bool:
        if claim.kind in (BECOMES, STATE):
            aspect = ASPECTS.get(self.kind)
            if aspect == "position" or aspect is None or claim.aspect not in ("", aspect):
                return False
            attributes = {name for name, _ in (claim.new or claim.old)} or {claim.aspect or aspect}
            return aspect in attributes if claim.is_full or claim.kind == STATE else attributes == {aspect}
        if claim.kind == SIT:
            is_new = claim.subject is not None and claim.subject.indefinite
            return self.kind == "move" or (self.kind == "add" and is_new)
        return claim.kind in (self.kind, CHANGE)

    def _right_path(self, claim: Claim) -> bool:
        """Return True if the claim's old place, new place and movement are right for the changed object.

        Only the places and movements that the claim states are compared with the scene.
        """
        still = [place for place in claim.target if place.relation not in DYNAMIC]
        moving = [place for place in claim.target if place.relation in DYNAMIC]
        if claim.kind == "add" or (claim.kind == SIT and self.old is None):
            return not moving and (not still or self._placed(self.new, still, self.after))
        if claim.kind == "drop":
            return not claim.source or self._placed(self.old, claim.source, self.before)
        if claim.departed and any(self._placed(self.new, [place], self.after) for place in claim.source):
            return False
        if claim.kind not in ("move", SIT) or not (claim.source or claim.target or claim.directions):
            return True
        if self.old is None or self.new is None:
            return False
        return (
            self._placed(self.old, claim.source, self.before)
            and self._placed(self.new, still, self.after)
            and all(self._moved(direction) for direction in claim.directions)
            and all(self._approached(place) for place in moving)
        )

    def _placed(self, item: Placed | None, places: Sequence[Place], sight: Sight) -> bool:
        return item is not None and all(holds(place, item, sight.objects, sight) for place in places)

    def _moved(self, direction: str) -> bool:
        """Return True if the changed object moved in this direction, as both cameras see it."""
        assert self.old is not None
        assert self.new is not None
        cameras = (self.before.camera, self.after.camera)
        return direction in AXES and all(beside(direction, self.new, self.old, camera) for camera in cameras)

    def _approached(self, place: Place) -> bool:
        """Return True if the changed object moved relative to the objects of `place`, as the claim says.

        `place.relation` is "toward" ("closer to"), "away" ("away from") or "past". The movement must hold
        for all objects of the place. The result is False if no object fits the place's description.
        """
        landmarks = [
            item
            for phrase in place.others
            for item in matching(phrase, self.before)
            if self.old is None or item.number != self.old.number
        ]
        return bool(landmarks) and all(self._passed(place.relation, landmark) for landmark in landmarks)

    def _passed(self, relation: str, landmark: Placed) -> bool:
        assert self.old is not None
        assert self.new is not None
        if relation == "past":
            before, after = (offsets(item, landmark, self.before.camera) for item in (self.old, self.new))
            sides = zip(before, after, strict=True)
            return any(min(abs(a), abs(b)) >= NEAREST and a * b < 0 for a, b in sides)
        nearer = distance(self.old, landmark) - distance(self.new, landmark)
        return nearer >= NEAREST if relation == "toward" else -nearer >= NEAREST


def _changed_of(pair: Pair) -> tuple[Placed | None, Placed | None]:
    """Return the changed object in the before and in the after image; None where it is absent."""
    assert pair.scene is not None
    try:
        return changed_objects(pair.scene, str(pair.change_type))
    except ValueError as error:
        raise InputError(f"pair {pair.pair_id}: {error}; run `dvc repro prepare` again") from None


def _agrees(item: Placed | None, values: Values) -> bool:
    return not values or (item is not None and all(getattr(item, name) == value for name, value in values))


def _enough(phrase: Phrase, number: int) -> bool:
    """Return True if a number is what the phrase says; "four" is exactly, "all four" at least four."""
    if phrase.number:
        return number >= phrase.number if phrase.count == ALL else number == phrase.number
    return number >= min(phrase.count, 2)
