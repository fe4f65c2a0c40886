"""Turn the clauses of a text into claims (phrase.Claim)."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile, takewhile

from pipeline.datasets.schema import CHANGE, NO_CHANGE
from pipeline.free_english.noun_phrases import rank
from pipeline.free_english.patterns import WHEN
from pipeline.free_english.tokens import Token
from pipeline.judging.claims import (
    AFTER,
    ALL,
    BECOMES,
    EXISTS,
    OTHER,
    SAME,
    SIT,
    STATE,
    UNREADABLE,
    Claim,
    Phrase,
    Place,
    Values,
)
from pipeline.tabletop.words import MATERIALS

PUT, ONLY, LEFT, AWAY, VIEWS = "put", "only", "left", "away", "views"
"""Kinds of rules, not of claims. Examples, in this order: "was put", "only in the first", "four are left",
"no longer behind", "is on the left in the first image and on the right in the second"."""


@dataclass(frozen=True)
class Clause:
    """A clause that a rule of rules.yaml matched."""

    kind: str  # kind of the rule
    tokens: Sequence[Token]
    groups: Mapping[str, Sequence[Token]]  # name of a group in the rule -> its tokens
    text: str

    def of(self, group: str, symbol: str) -> list[Token]:
        return [token for token in self.groups.get(group, ()) if token.symbol == symbol]

    def has(self, *symbols: str) -> bool:
        return any(token.symbol in symbols for token in self.tokens)

    @property
    def when(self) -> str:
        """Last time of the clause: "before", "after", "now" (after a change), "both" or "" (none named)."""
        words = takewhile(lambda word: word.symbol not in ("INSTEAD", "COMPARED", "WHERE"), self.tokens)
        times = [word.meaning for word in words if word.symbol in (WHEN, "IMG", "SCENES") and word.meaning]
        return times[-1] if times else ""

    @property
    def aspect(self) -> str:
        return self.aspects[0] if self.aspects else ""

    @property
    def aspects(self) -> list[str]:
        """All properties that the clause names."""
        aspects = [token.meaning[0] for token in self.tokens if token.symbol == "ASPECT"]
        return aspects + [token.meaning for token in self.tokens if token.symbol == "COLOR"]


def of_clause(clause: Clause, subject: Phrase | None, landmarks: Sequence[Phrase], image: str) -> Claim:
    """Return the claim that a clause makes about the object `subject`.

    landmarks: the objects that the word "it" may mean in a place such as "to the right of it"
    image: the image meant by a clause that names no image, such as "but with a red cube"
    """
    negated = bool(clause.groups.get("n") or clause.groups.get("x"))
    when = clause.when or (image if clause.has("WITH", "WITHOUT", "PLUS") else "")
    claim = Claim(clause.kind, subject, negated, when=when, text=clause.text)
    if clause.kind in (BECOMES, STATE):
        return _named_aspect(_valued(claim, clause), clause.aspect)
    if claim.when == "both" and claim.kind in ("move", "add", "drop", PUT, ONLY):
        return replace(claim, kind=UNREADABLE)  # "moved in both images"
    claim = _located(claim, clause, landmarks)
    settle = SETTLED.get(claim.kind)
    return settle(claim, clause) if settle else claim


def _move(claim: Claim, clause: Clause) -> Claim:
    if claim.when == "before" and not clause.has("NEWPLACE"):
        return replace(claim, kind=UNREADABLE)  # "moved in the first image"
    if clause.aspect in ("", "position"):
        return claim
    return _named_aspect(replace(claim, kind=BECOMES), clause.aspect)


def _sit(claim: Claim, clause: Clause) -> Claim:
    if claim.directions:
        return replace(claim, kind="move", when="")
    return replace(claim, when=_past(claim, clause))


def _past(claim: Claim, clause: Clause) -> str:
    is_past = clause.has("WAS") or any(token.meaning == "past" for token in clause.tokens)
    return "before" if is_past and claim.when not in AFTER else claim.when


def _same(claim: Claim, clause: Clause) -> Claim:
    subject, aspect = claim.subject, " ".join(clause.aspects)
    symbols = " ".join(token.symbol for token in clause.tokens if token.symbol != WHEN)
    if re.search(r"SAME (WITH|AND|COMMA|HAVE).* COLOR|SAME .*COLOR.* SAME$", symbols):
        aspect += " position presence"  # "in the same place with the same color"
    is_about_all = not aspect if subject is None else subject.count == ALL and not subject.look
    return replace(claim, kind=NO_CHANGE if is_about_all else SAME, aspect=aspect)


def _change(claim: Claim, _: Clause) -> Claim:
    subject = claim.subject
    is_about_all = claim.negated and (subject is None or (subject.count > 1 and not subject.look))
    if subject is not None and subject.new and not claim.negated:
        return replace(claim, kind="add")  # "the difference is an added cube"
    return Claim(NO_CHANGE, subject, text=claim.text) if is_about_all else claim


def _views(claim: Claim, clause: Clause) -> Claim:
    places, times = claim.target, [token.meaning for token in clause.tokens if token.symbol == WHEN]
    if len(places) != 2 or len(times) != 2 or times[0] != "before":
        return replace(claim, kind=UNREADABLE)
    return replace(claim, kind="move", source=places[:1], target=places[1:], when="")


def _exists(claim: Claim, clause: Clause) -> Claim:
    subject = claim.subject or Phrase()
    if claim.negated and subject.count == 2 and not subject.number:  # "there were not any cubes"
        claim = replace(claim, subject=replace(subject, count=1))
    if subject.fewer:
        return replace(claim, kind="drop")
    if claim.when in AFTER and claim.target and not (subject.new or subject.indefinite):
        return replace(claim, kind=SIT)  # "the cube can now be found behind the ball"
    if subject.count == ALL and not claim.when:
        return replace(claim, when="after")  # "all four are still there"
    is_new = subject.new or (claim.when == "now" and not subject.number)
    if is_new and not claim.negated and claim.when != "before":
        return replace(claim, kind="add")
    return replace(claim, when=_past(claim, clause))


def _put(claim: Claim, _: Clause) -> Claim:
    subject = claim.subject or Phrase()
    if claim.when == "before":
        return replace(claim, kind=SIT)
    return replace(claim, kind="add" if subject.new or subject.indefinite else "move")


def _add(claim: Claim, _: Clause) -> Claim:
    describes_image = claim.when == "before" or (claim.negated and claim.when in AFTER)
    return replace(claim, kind=EXISTS) if describes_image else claim  # "appears in the first image"


SETTLED: dict[str, Callable[[Claim, Clause], Claim]] = {
    "move": _move,
    SIT: _sit,
    "add": _add,
    # "missing in the first image"
    "drop": lambda claim, _: replace(claim, kind="add") if claim.when == "before" else claim,
    SAME: _same,
    CHANGE: _change,
    PUT: _put,
    ONLY: lambda claim, _: replace(claim, kind="drop" if claim.when == "before" else "add", when=""),
    LEFT: lambda claim, _: replace(claim, kind=EXISTS, when="after"),
    # "is no longer behind the ball"
    AWAY: lambda claim, _: replace(
        claim, kind="move", source=claim.target, target=(), departed=True, when=""
    ),
    VIEWS: _views,
    EXISTS: _exists,
}


def _named_aspect(claim: Claim, aspect: str) -> Claim:
    if claim.kind == BECOMES and claim.when in ("before", "both"):
        return replace(claim, kind=UNREADABLE)  # "turned red in the first image"
    if aspect == "other":
        return replace(claim, kind=OTHER)
    aspect = "" if aspect == "look" else aspect  # "its appearance changed"
    return replace(claim, kind="move") if aspect == "position" else replace(claim, aspect=aspect)


def number_before(clause: Clause, claim: Claim) -> list[Claim]:
    """Return the claims about the number of objects in the first image.

    In "four instead of three", this number is three.
    """
    subject = claim.subject or Phrase()
    if subject.count == ALL and subject.number:
        return [Claim(EXISTS, replace(subject, count=2), when="before", text=clause.text)]
    if claim.kind not in (EXISTS, "add"):
        return []
    later = dropwhile(lambda token: token.symbol not in ("INSTEAD", "COMPARED"), clause.tokens)
    phrases = [replace(subject, number=token.meaning) for token in later if token.symbol == "NUMBER"]
    return [Claim(EXISTS, phrase, when="before", text=clause.text) for phrase in phrases]


def _located(claim: Claim, clause: Clause, landmarks: Sequence[Phrase]) -> Claim:
    source: list[Place] = []
    target: list[Place] = []
    directions: list[str] = []
    previous = ""
    for token in clause.groups.get("p", ()):
        is_bare = token.symbol == "DIR" or (token.symbol == "SIDE" and previous not in ("PRE", "TO", "IN"))
        if is_bare and claim.kind not in ("add", "drop", EXISTS):
            directions += token.meaning.split()
        elif token.symbol in ("PLACE", "SIDE", "MOST", "TOSIDE", "DIR"):
            (source if previous == "PRE" or claim.kind == "drop" else target).append(_place(token))
        previous = token.symbol if token.symbol not in (WHEN, "ASPECT", "BE") else previous
    own_places = [*(claim.subject.places if claim.subject else ()), *source]
    objects = [*landmarks, *(landmark for place in own_places for landmark in place.others)]
    filled_target = with_landmark(Phrase(places=tuple(target)), objects).places
    return replace(claim, source=tuple(source), target=filled_target, directions=tuple(directions))


def _place(token: Token) -> Place:
    place: Place = token.meaning if token.symbol == "PLACE" else rank(token)
    return place


def with_landmark(phrase: Phrase, landmarks: Sequence[Phrase]) -> Phrase:
    """Return the phrase with pronouns ("the ball next to it") replaced by the last of `landmarks`."""
    if not landmarks:
        return phrase
    others = [[landmarks[-1] if item.pronoun else item for item in place.others] for place in phrase.places]
    pairs = zip(phrase.places, others, strict=True)
    return replace(phrase, places=tuple(replace(place, others=tuple(new)) for place, new in pairs))


def _valued(claim: Claim, clause: Clause) -> Claim:
    for token in clause.of("v", "NP"):
        subject = claim.subject or Phrase()
        if (token.meaning.new or subject.new) and not claim.negated:  # "the new object is a cube"
            look = dict(subject.look) | dict(token.meaning.look)
            return replace(claim, kind="add", subject=replace(subject, look=tuple(look.items())))
    (new, is_full), (old, _) = (_value(clause.groups.get(group, ())) for group in "vo")
    for token in clause.tokens:
        if token.symbol == "LOSTSHINE":
            new = (("material", token.meaning),)
    names_new_object = any(token.meaning.new for token in clause.of("s", "NP"))
    if claim.kind == STATE and claim.subject and names_new_object and new and not claim.negated:
        look = dict(claim.subject.look) | dict(new)  # "the new object is red"
        return replace(claim, kind="add", subject=replace(claim.subject, look=tuple(look.items())))
    if any(token.symbol == "NOLONGER" for token in clause.groups.get("n", ())):
        return replace(claim, kind=BECOMES, negated=False, old=new, new=_opposite(new), when="")
    if claim.kind == BECOMES and not new:
        new = _opposite(old)  # "the metallic sheen is gone"
    when = "both" if clause.has("REMAIN") else _past(claim, clause) if claim.kind == STATE else claim.when
    return replace(claim, new=new, old=old, is_full=is_full, when=when)


def _value(tokens: Sequence[Token]) -> tuple[Values, bool]:
    for token in tokens:
        if token.symbol in ("NP", "VALUE"):
            return (token.meaning.look, True) if token.symbol == "NP" else (token.meaning, False)
    return (), False


def _opposite(old: Values) -> Values:
    """Return the other material for a single one ("no longer shiny" means matte), else ()."""
    opposites = [other for name, value in old for other in MATERIALS if name == "material" and other != value]
    return (("material", opposites[0]),) if len(opposites) == len(old) == 1 else ()


def is_change(claim: Claim) -> bool:
    """Return True if a claim says that something changed."""
    if claim.negated or (claim.kind == STATE and claim.when == "before"):
        return False
    return claim.kind in (BECOMES, STATE, "add", "drop", "move")
