"""Turn clauses into claims, and join the claims that several clauses make together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pipeline.datasets.schema import NO_CHANGE
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

PUT, ONLY, LEFT = (
    "put",
    "only",
    "left",
)  # kinds of rules: "was put", "only in the first image", "four are left"


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
        times = [token.meaning for token in self.tokens if token.symbol in (WHEN, "IMG")]
        return times[-1] if times else ""

    @property
    def aspect(self) -> str:
        """The property that the clause names: color, material, position or other."""
        named = [token.meaning[0] for token in self.tokens if token.symbol == "ASPECT"]
        named += [token.meaning for token in self.tokens if token.symbol == "COLOR"]
        return named[0] if named else ""


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
    if {"position", "color"} <= {*aspects}:
        return [Claim(NO_CHANGE, text=clause.text)]
    return [Claim(SAME, aspect=aspect, text=clause.text) for aspect in aspects]


def of_clause(clause: Clause, subject: Phrase | None, landmarks: Sequence[Phrase]) -> Claim:
    """Return the claim of a clause about one subject."""
    negated = bool(clause.groups.get("n") or clause.groups.get("x"))
    claim = Claim(clause.kind, subject, negated, when=clause.when, text=clause.text)
    if clause.kind in (BECOMES, STATE):
        return _named_aspect(_valued(claim, clause), clause.aspect)
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
    return "before" if clause.has("WAS") and claim.when not in AFTER else claim.when


def _add(claim: Claim, _: Clause) -> Claim:
    described = claim.when == "before" or (claim.negated and claim.when in AFTER)
    return replace(claim, kind=EXISTS) if described else claim  # "appears in the first image"


def _drop(claim: Claim, _: Clause) -> Claim:
    return replace(claim, kind="add") if claim.when == "before" else claim  # "missing in the first image"


def _same(claim: Claim, clause: Clause) -> Claim:
    subject, aspect = claim.subject, clause.aspect
    everything = not aspect if subject is None else subject.count == ALL and not subject.look
    return replace(claim, kind=NO_CHANGE if everything else SAME, aspect=aspect)


def _put(claim: Claim, _: Clause) -> Claim:
    subject = claim.subject or Phrase()
    return replace(claim, kind="add" if subject.new or subject.indefinite else "move")


def _only(claim: Claim, _: Clause) -> Claim:
    return replace(claim, kind="drop" if claim.when == "before" else "add", when="")


def _left(claim: Claim, _: Clause) -> Claim:
    return replace(claim, kind=EXISTS, when="after")


def _exists(claim: Claim, clause: Clause) -> Claim:
    subject = claim.subject or Phrase()
    if subject.fewer:
        return replace(claim, kind="drop")
    fresh = subject.new or claim.when == "now"
    if fresh and not claim.negated and claim.when != "before":
        return replace(claim, kind="add")
    return replace(claim, when=claim.when or ("before" if clause.has("WAS") else ""))


SETTLED = {
    "move": _move,
    SIT: _sit,
    "add": _add,
    "drop": _drop,
    SAME: _same,
    PUT: _put,
    ONLY: _only,
    LEFT: _left,
    EXISTS: _exists,
}


def _named_aspect(claim: Claim, aspect: str) -> Claim:
    if claim.kind == BECOMES and claim.when == "before":
        return replace(claim, kind=UNREADABLE)  # "turned red in the first image"
    if aspect == "other":
        return replace(claim, kind=OTHER)
    return replace(claim, kind="move") if aspect == "position" else replace(claim, aspect=aspect)


def _located(claim: Claim, clause: Clause, landmarks: Sequence[Phrase]) -> Claim:
    """Return the claim with the places and directions of its clause."""
    source: list[Place] = []
    target: list[Place] = []
    directions: list[str] = []
    before = ""
    for token in clause.groups.get("p", ()):
        bare = token.symbol == "DIR" or (token.symbol == "SIDE" and before not in ("PRE", "TO", "IN"))
        if bare and claim.kind not in ("add", EXISTS):
            directions += token.meaning.split()
        elif token.symbol in ("PLACE", "SIDE", "MOST", "TOSIDE", "DIR"):
            (source if before == "PRE" else target).append(_place(token))
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
        if token.meaning.new and not claim.negated:  # "the cube is a new object"
            return replace(claim, kind="add")
    (new, whole), (old, _) = (_value(clause.groups.get(group, ())) for group in "vo")
    for token in clause.tokens:
        if token.symbol == "LOSTSHINE":
            new = (("material", token.meaning),)
    if any(token.symbol == "NOLONGER" for token in clause.groups.get("n", ())):
        return replace(claim, kind=BECOMES, negated=False, old=new, new=_opposite(new), when="")
    when = _past(claim, clause) if claim.kind == STATE else claim.when
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


def together(claims: Sequence[Claim]) -> list[Claim]:
    """Join claims about both images: "was yellow" and "is cyan", "in the first" and "not in the second"."""
    found: list[Claim] = []
    for claim in claims:
        same = [place for place, own in enumerate(found) if own.subject == claim.subject]
        views = [place for place in same if found[place].kind in (STATE, EXISTS)]
        joined = _both_images(found[views[-1]], claim) if views else None
        if joined:
            found[views[-1]] = joined
        elif claim.kind == STATE and not claim.when and same and same[-1] == len(found) - 1:
            found[-1:] = _described(found[-1], claim)
        elif claim.kind == EXISTS and claim.negated and not views:
            kind = "add" if claim.when == "before" else "drop"
            found.append(replace(claim, kind=kind, negated=False, when=""))
        else:
            found.append(claim)
    return found


def _both_images(last: Claim, claim: Claim) -> Claim | None:
    """Join two claims about one subject, if one is about the first image and one about the second."""
    if last.kind == STATE and last.when == "before" and not last.negated and _new_value(claim):
        whole = claim.whole or claim.kind == STATE
        return replace(claim, kind=BECOMES, old=claim.old or last.new, whole=whole)
    if last.kind == claim.kind == STATE and last.when in AFTER and claim.when == "before":
        return replace(last, kind=BECOMES, old=claim.new, whole=True)
    if last.kind == claim.kind == EXISTS and last.negated != claim.negated and _other_image(last, claim):
        first = last if last.when == "before" or claim.when in AFTER else claim
        return replace(last, kind="add" if first.negated else "drop", negated=False, when="")
    return None


def _new_value(claim: Claim) -> bool:
    return claim.kind in (BECOMES, STATE) and is_change(claim)


def _other_image(one: Claim, other: Claim) -> bool:
    """Return True unless both claims are about the same image."""
    whens = {each.when.replace("now", "after") for each in (one, other)}
    return len(whens) > 1 or "" in whens


def _described(last: Claim, claim: Claim) -> list[Claim]:
    """Join "it is red" to the claim before: a new value after a change, else more of the object's look."""
    if last.kind == BECOMES:
        return [last, replace(claim, when="now")]
    if claim.negated:  # "brown now, not green"
        return [last, replace(claim, when="after")]
    if last.kind not in ("add", "drop", "move", EXISTS):
        return [last, claim]
    subject = claim.subject or Phrase()
    return [replace(last, subject=replace(subject, look=(*subject.look, *claim.new)))]
