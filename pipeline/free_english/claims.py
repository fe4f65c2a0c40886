"""Turn clauses into claims, and join the claims that several clauses make together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from pipeline.datasets.schema import CHANGE, NO_CHANGE
from pipeline.free_english.noun_phrases import rank
from pipeline.free_english.patterns import WHEN
from pipeline.free_english.phrase import (
    AFTER,
    ALL,
    BECOMES,
    EXISTS,
    OTHER,
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
from pipeline.free_english.tokens import Token
from pipeline.tabletop.words import MATERIALS

PUT, ONLY, LEFT, AWAY = "put", "only", "left", "away"
"""Kinds of rules: "was put", "only in the first image", "four are left", "no longer behind the ball"."""


@dataclass(frozen=True)
class Clause:
    """The tokens of a clause, and those of its rule's groups."""

    kind: str
    tokens: Sequence[Token]
    groups: Mapping[str, Sequence[Token]]
    text: str

    def of(self, group: str, symbol: str) -> list[Token]:
        """Return the tokens of a group with this symbol."""
        return [token for token in self.groups.get(group, ()) if token.symbol == symbol]

    def has(self, *symbols: str) -> bool:
        """Return True if a token has one of the symbols."""
        return any(token.symbol in symbols for token in self.tokens)

    @property
    def when(self) -> str:
        """The last mark of time, or the image that is the subject."""
        own = takewhile(lambda token: token.symbol not in ("INSTEAD", "COMPARED", "WHERE"), self.tokens)
        times = [token.meaning for token in own if token.symbol in (WHEN, "IMG")]
        return times[-1] if times else ""

    @property
    def aspect(self) -> str:
        """The property that the clause names: color, material, position or other."""
        named = [token.meaning[0] for token in self.tokens if token.symbol == "ASPECT"]
        named += [token.meaning for token in self.tokens if token.symbol == "COLOR"]
        return named[0] if named and named[0] != "look" else ""


def unnamed(clause: Clause) -> Claim:
    """Return the claim of "a change in colour can be seen"."""
    kind = "move" if clause.aspect == "position" else BECOMES
    return Claim(kind, Phrase(), aspect=clause.aspect, text=clause.text)


def same_aspects(clause: Clause) -> list[Claim]:
    """Return the claims of "the positions of all objects are the same", "all kept their colours"."""
    aspects = [token.meaning for token in clause.tokens if token.symbol == "COLOR"]
    aspects += [token.meaning[0] for token in clause.tokens if token.symbol == "ASPECT"]
    for kinds, owner in (token.meaning for token in clause.tokens if token.symbol == "ASPECTS"):
        if owner == "REST":
            return [Claim(REST, text=clause.text)]
        aspects += kinds
    if ("all" in aspects or {"position", "color"} <= {*aspects}) and not clause.has("ITS"):
        return [Claim(NO_CHANGE, text=clause.text)]
    return [Claim(SAME, aspect=aspect, text=clause.text) for aspect in aspects]


VERBS = {"MOVED": "position", "ADDED": "presence", "DROPPED": "presence", "GONE": "presence"}


def none_changed(clause: Clause) -> Claim:
    """Return the claim of "nothing was added or moved", with the aspects if it names some only."""
    verbs = {token.symbol for token in clause.tokens} & {
        *VERBS,
        "CHANGED",
        "PAINTED",
        "REPLACED",
        "OCCUR",
        "SAME",
    }
    some = bool(verbs) and verbs <= {*VERBS} and not clause.has("DIFFERENCE")
    aspects = sorted({VERBS[verb] for verb in verbs}) if some else []
    return Claim(NO_CHANGE, aspect=" ".join(aspects), text=clause.text)


def same_cast(clause: Clause) -> list[Claim]:
    """Return the claims of "both images show the same four objects (in the same places)"."""
    named = {token.meaning for token in clause.tokens if token.symbol == "COLOR"}
    aspects = named or ({"position"} if clause.has("SAME") else set())
    some = "" if "all" in named else " ".join(sorted({*aspects, "presence"}))
    numbers = [token.meaning for token in clause.tokens if token.symbol == "CAST" and token.meaning]
    counted = [Claim(EXISTS, Phrase(count=2, number=each), when="both", text=clause.text) for each in numbers]
    return [*counted, Claim(NO_CHANGE, aspect=some, text=clause.text)]


def of_clause(clause: Clause, subject: Phrase | None, landmarks: Sequence[Phrase], image: str) -> Claim:
    """Return the claim of a clause about one subject. `image`: the image that the sentence describes."""
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
    past = clause.has("WAS") or any(token.meaning == "past" for token in clause.tokens)
    return "before" if past and claim.when not in AFTER else claim.when


def _add(claim: Claim, _: Clause) -> Claim:
    described = claim.when == "before" or (claim.negated and claim.when in AFTER)
    return replace(claim, kind=EXISTS) if described else claim  # "appears in the first image"


def _drop(claim: Claim, _: Clause) -> Claim:
    return replace(claim, kind="add") if claim.when == "before" else claim  # "missing in the first image"


def _same(claim: Claim, clause: Clause) -> Claim:
    subject, aspect = claim.subject, clause.aspect
    everything = not aspect if subject is None else subject.count == ALL and not subject.look
    return replace(claim, kind=NO_CHANGE if everything else SAME, aspect=aspect)


def _change(claim: Claim, _: Clause) -> Claim:
    subject = claim.subject
    everything = claim.negated and subject is not None and subject.count > 1 and not subject.look
    if subject is not None and subject.new and not claim.negated:
        return replace(claim, kind="add")  # "the difference is an added cube"
    return Claim(NO_CHANGE, subject, text=claim.text) if everything else claim


def _put(claim: Claim, _: Clause) -> Claim:
    subject = claim.subject or Phrase()
    if claim.when == "before":
        return replace(claim, kind=SIT)
    return replace(claim, kind="add" if subject.new or subject.indefinite else "move")


def _only(claim: Claim, _: Clause) -> Claim:
    return replace(claim, kind="drop" if claim.when == "before" else "add", when="")


def _left(claim: Claim, _: Clause) -> Claim:
    return replace(claim, kind=EXISTS, when="after")


def _away(claim: Claim, _: Clause) -> Claim:
    """Return the claim of "is no longer behind the ball"."""
    return replace(claim, kind="move", source=claim.target, target=(), left=True, when="")


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
    fresh = subject.new or (claim.when == "now" and not subject.number)
    if fresh and not claim.negated and claim.when != "before":
        return replace(claim, kind="add")
    return replace(claim, when=_past(claim, clause))


SETTLED = {
    "move": _move,
    SIT: _sit,
    "add": _add,
    "drop": _drop,
    SAME: _same,
    CHANGE: _change,
    PUT: _put,
    ONLY: _only,
    LEFT: _left,
    AWAY: _away,
    EXISTS: _exists,
}


def _named_aspect(claim: Claim, aspect: str) -> Claim:
    if claim.kind == BECOMES and claim.when in ("before", "both"):
        return replace(claim, kind=UNREADABLE)  # "turned red in the first image"
    if aspect == "other":
        return replace(claim, kind=OTHER)
    return replace(claim, kind="move") if aspect == "position" else replace(claim, aspect=aspect)


def number_before(clause: Clause, claim: Claim) -> list[Claim]:
    """Return the claim about the first image of "four instead of three", "all four are still there"."""
    subject = claim.subject or Phrase()
    if subject.count == ALL and subject.number:
        return [Claim(EXISTS, replace(subject, count=2), when="before", text=clause.text)]
    at = next(
        (place for place, token in enumerate(clause.tokens) if token.symbol in ("INSTEAD", "COMPARED")), None
    )
    if at is None or claim.kind not in (EXISTS, "add"):
        return []
    named = [token.meaning for token in clause.tokens[at:] if token.symbol == "NP"]
    numbers = [phrase.number or 1 for phrase in named if phrase.number or phrase.one]
    return [
        Claim(EXISTS, replace(subject, number=number), when="before", text=clause.text) for number in numbers
    ]


def _located(claim: Claim, clause: Clause, landmarks: Sequence[Phrase]) -> Claim:
    """Return the claim with the places and directions of its clause."""
    source: list[Place] = []
    target: list[Place] = []
    directions: list[str] = []
    before = ""
    for token in clause.groups.get("p", ()):
        bare = token.symbol == "DIR" or (token.symbol == "SIDE" and before not in ("PRE", "TO", "IN"))
        if bare and claim.kind not in ("add", "drop", EXISTS):
            directions += token.meaning.split()
        elif token.symbol in ("PLACE", "SIDE", "MOST", "TOSIDE", "DIR"):
            (source if before == "PRE" or claim.kind == "drop" else target).append(_place(token))
        before = token.symbol if token.symbol not in (WHEN, "ASPECT") else before
    own = [*(claim.subject.places if claim.subject else ()), *source]
    known = [*landmarks, *(other for place in own for other in place.others)]
    filled = [
        replace(place, others=tuple(_filled(other, known) for other in place.others)) for place in target
    ]
    return replace(claim, source=tuple(source), target=tuple(filled), directions=tuple(directions))


def _place(token: Token) -> Place:
    if token.symbol == "PLACE":
        place: Place = token.meaning
        return place
    return rank(token) if token.symbol == "MOST" else Place("side", side=token.meaning)


def _filled(other: Phrase, landmarks: Sequence[Phrase]) -> Phrase:
    return landmarks[-1] if other.pronoun and landmarks else other


def _valued(claim: Claim, clause: Clause) -> Claim:
    """Return the claim with the old and new value of its clause."""
    for token in clause.of("v", "NP"):
        subject = claim.subject or Phrase()
        if (token.meaning.new or subject.new) and not claim.negated:  # "the new object is a cube"
            look = dict(subject.look) | dict(token.meaning.look)
            return replace(claim, kind="add", subject=replace(subject, look=tuple(look.items())))
    (new, whole), (old, _) = (_value(clause.groups.get(group, ())) for group in "vo")
    for token in clause.tokens:
        if token.symbol == "LOSTSHINE":
            new = (("material", token.meaning),)
    if any(token.symbol == "NOLONGER" for token in clause.groups.get("n", ())):
        return replace(claim, kind=BECOMES, negated=False, old=new, new=_opposite(new), when="")
    if claim.kind == BECOMES and not new:
        new = _opposite(old)  # "the metallic sheen is gone"
    when = "both" if clause.has("REMAIN") else _past(claim, clause) if claim.kind == STATE else claim.when
    return replace(claim, new=new, old=old, whole=whole, when=when)


def _value(tokens: Sequence[Token]) -> tuple[Values, bool]:
    for token in tokens:
        if token.symbol in ("NP", "VALUE"):
            return (token.meaning.look, True) if token.symbol == "NP" else (token.meaning, False)
    return (), False


def _opposite(old: Values) -> Values:
    """Return the other material, since there are two: "no longer shiny" is matte."""
    others = [each for name, value in old for each in MATERIALS if name == "material" and each != value]
    return (("material", others[0]),) if len(others) == len(old) == 1 else ()


def is_change(claim: Claim) -> bool:
    """Return True if a claim says that something changed."""
    if claim.negated or (claim.kind == STATE and claim.when == "before"):
        return False
    return claim.kind in (BECOMES, STATE, "add", "drop", "move")
