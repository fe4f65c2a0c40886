"""Read sentences clause by clause.

The rules of rules.yaml find clauses and their kinds. A `Reading` turns them into claims, and finds the object
that a pronoun or "the red one" means.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path

from pipeline.datasets.schema import CHANGE, NO_CHANGE
from pipeline.free_english import claims, general_claims
from pipeline.free_english.claims import Clause
from pipeline.free_english.patterns import COLON, COMMA, UNKNOWN, WHEN, coded, pattern
from pipeline.free_english.tokens import Token, with_macros
from pipeline.io.inputs import read_yaml
from pipeline.judging.claims import ALL, BECOMES, EXISTS, REST, SAME, UNREADABLE, Claim, Phrase

RULES = Path(__file__).with_name("rules.yaml")
BOUNDS = (COMMA, COLON, "AND", "BUT", "WHICH", "EXCEPT", "CAUSE")
CHATTER = {"SOMEONE", UNKNOWN, "HAVE", "DO", "BE", "WAS", "SEE", "TO", "OF", "IN", "DET", WHEN}
"""Symbols of "I had to rub my eyes", which claims nothing about the images."""
UNNAMED = ("DIFFERENCE", "CHANGED", "PAINTED", "EVENTCOLOR")
"""Symbols that are the subject of "a change in colour can be seen", which does not name the object."""
LEAD, SKIP, VIEW, AMONG, REFINE, CAST = "lead", "skip", "view", "among", "refine", "cast"
VIEWPOINT = "VIEWPOINT"
# symbols of a sentence such as "the only difference is the camera", and symbols that it must not have
ALTERED, DENIED = {"DIFFERENCE", "CHANGED", "MOVED"}, {"NOT", "NO", "NOTHING", "NOLONGER", "SAME", "REMAIN"}
ONLY = re.compile(r"\b(?:only|sole|single)\b")
"""Words that mean "only". They are searched in the text, because not every "only" becomes a token."""
NO_OTHERS = {
    "left": re.compile(r"\b(?:only|just|solely|merely|nothing but)\b"),
    EXISTS: re.compile(r"\b(?:only|just|solely|merely|nothing but) (?:the|these|those|an?)\b"),
}
"""Kind of clause -> words that deny other objects ("only a cube remains"). Such a clause is not judged."""


@cache
def _rules() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return what a clause claims and the expression that finds it, for each rule of rules.yaml.

    Except for the kind "lead", a match ends where another clause can begin.
    """
    tree = read_yaml(RULES, "restore it from git")
    rules = []
    for kind, form in (pair for rule in tree["rules"] for pair in rule.items()):
        form = form if kind == LEAD else f"(?:{form}) (?=$|{{bound}})"
        rules.append((kind, pattern(with_macros(form, tree["macros"]), times=kind != LEAD)))
    return tuple(rules)


class Reading:
    """The claims of a text so far, and the objects that were named last."""

    def __init__(self) -> None:
        self.claims: list[Claim] = []
        self.subject: Phrase | None = None
        self.image = ""  # "the second image is the same" before "but with a red cube added"
        self.landmarks: list[Phrase] = []  # objects of places: "it" in "to the right of it"

    def sentence(self, tokens: list[Token], text: str) -> None:
        """Read one sentence, and append its claims to the attribute `claims`.

        `tokens` are the tokens of the sentence. `text` is the whole text; the tokens have positions in
        `text`.
        """
        symbols, i, earlier = coded(tokens), 0, len(self.claims)
        self.image = ""
        while i < len(tokens):
            kind, match = _longest(symbols[i:])
            if match is not None:
                end = i + len(match[0])
                self._clause(_clause(kind, match, tokens[i:], text), _excepted(tokens, end))
            elif tokens[i].symbol in (*BOUNDS, WHEN):
                end = i + 1
            else:
                end = next((j for j in range(i + 1, len(tokens)) if tokens[j].symbol in BOUNDS), len(tokens))
                unread = tokens[i:end]
                is_bounded = end == len(tokens) or tokens[end].symbol in (COMMA, COLON, "BUT")
                is_chatter = unread[0].symbol == "SOMEONE" and {token.symbol for token in unread} <= CHATTER
                if not (is_bounded and is_chatter):
                    self._unreadable(text[unread[0].start : unread[-1].end])
            i = end
        own_text = text[max(0, tokens[0].start - len("only ")) : tokens[-1].end]
        if len(self.claims) == earlier and ONLY.search(own_text) and _is_change_of_view(tokens):
            # "the only difference is the camera"
            self.claims.append(Claim(REST if self._changed() else NO_CHANGE, text=own_text))

    def _unreadable(self, text: str) -> None:
        self.claims.append(Claim(UNREADABLE, text=text))

    def _clause(self, clause: Clause, excepted: bool) -> None:
        """Add the claims of a clause.

        `excepted` is True if the sentence says "except" or "but". Then "nothing changed" is a claim about the
        other objects only.
        """
        kind = clause.kind
        self.image = next((token.meaning for token in clause.tokens if token.symbol == "IMG"), self.image)
        if kind in (LEAD, SKIP, VIEW):
            return
        if kind == UNREADABLE:
            self._unreadable(clause.text)
            return
        # "the colors are the same", "no change in its size"
        names_aspects = clause.has("ASPECTS", "COLOR") or (clause.has("DIFFERENCE") and clause.has("ASPECT"))
        if kind == AMONG:
            self._among(clause)
        elif kind in (NO_CHANGE, SAME) and names_aspects and not clause.of("s", "NP"):
            self.claims += general_claims.same_aspects(clause, self._changed())
        elif kind in (NO_CHANGE, REST):
            # "nothing else changed", and "all is the same" after a change was named
            is_about_others = clause.has("ELSE") or (clause.has("EVERYTHING") and self._changed())
            is_rest = kind == REST or excepted or is_about_others
            claim = Claim(REST, text=clause.text) if is_rest else general_claims.none_changed(clause)
            self.claims.append(claim)
        elif kind == CAST:
            self.claims += [_rest(claim, excepted) for claim in general_claims.same_objects(clause)]
        elif kind == REFINE:
            self._refine(clause)
        elif kind == BECOMES and any(clause.of("s", symbol) for symbol in UNNAMED):
            self.claims.append(general_claims.unnamed(clause))
        else:
            self._about(clause, excepted)

    def _changed(self) -> bool:
        return any(claims.is_change(claim) for claim in self.claims)

    def _among(self, clause: Clause) -> None:
        """Read a clause that only names objects, such as "of the three cubes": claim that they exist.

        They become the subject of a preceding change without a subject, if there is one.
        """
        if self.claims and not self.claims[-1].subject and claims.is_change(self.claims[-1]):
            self._refine(clause)  # "type: removal; object: the cube"
            return
        self.subject = next((token.meaning for token in clause.of("s", "NP")), None)
        if self.subject:
            self.claims.append(Claim(EXISTS, self.subject, when=clause.when, text=clause.text))

    def _about(self, clause: Clause, excepted: bool) -> None:
        subjects = self._subjects(clause)
        may_lack_subject = clause.kind in (CHANGE, SAME) or clause.has("TYPE", "DIFFERENCE", "WHAT")
        if None in subjects and not may_lack_subject:
            self._unreadable(clause.text)
            return
        for subject in subjects:
            claim = _rest(claims.of_clause(clause, subject, self.landmarks, self.image), excepted)
            self.claims += [claim, *claims.number_before(clause, claim)]
            places = [*(subject.places if subject else ()), *claim.source, *claim.target]
            self.landmarks += [other for place in places for other in place.others if not other.pronoun]
        self.subject = subjects[-1] or self.subject

    def _subjects(self, clause: Clause) -> list[Phrase | None]:
        phrases = [token.meaning for token in clause.of("s", "NP")]
        phrases = phrases or [token.meaning[1] for token in clause.tokens if token.symbol == "ASPECT"][:1]
        subjects: list[Phrase | None] = []
        landmarks = [self.subject] if self.subject else []
        for phrase in (claims.with_landmark(unresolved, landmarks) for unresolved in phrases):
            subjects.append(self._referred(phrase))
            self.subject = subjects[-1] or self.subject
        return subjects or [self.subject]

    def _referred(self, phrase: Phrase) -> Phrase | None:
        """Return the phrase of the object that `phrase` means; None if this object is unknown.

        For "it", this is the object that was named last. For "the red one", missing attributes are taken from
        the object that was named last.
        """
        if phrase.pronoun:
            return self.subject
        if phrase.one and self.subject and self.subject.count > 1:  # "of the two cubes, the left one"
            look = dict(self.subject.look) | dict(phrase.look)
            return replace(phrase, look=tuple(look.items()))
        if phrase.one and self.subject and "shape" not in dict(phrase.look):
            shape = [pair for pair in self.subject.look if pair[0] == "shape"]
            return replace(phrase, look=(*phrase.look, *shape))
        return phrase

    def _refine(self, clause: Clause) -> None:
        """Add claims for a clause that only names objects, as "the cube" in "one was removed: the cube".

        Usually, the last claim is repeated for each named object, with this object as the subject. In the
        example, the new claim is that the cube was removed. If the last claim cannot be repeated, an
        unreadable claim is added.
        """
        subjects = [phrase for token in clause.of("s", "NP") if (phrase := self._referred(token.meaning))]
        last = self.claims[-1] if self.claims else None
        are_new = [phrase.new for phrase in subjects]
        if last is None and subjects and all(are_new):
            last = Claim("add")  # "new object: a small cube"
        if last is None and len(subjects) == 1:
            last = Claim(EXISTS)  # "Big brown cube: ..."
        if last and last.kind == NO_CHANGE and len(subjects) > 1 and not any(are_new):
            self.claims += [Claim(EXISTS, phrase, when="both", text=clause.text) for phrase in subjects]
            return  # "all objects are the same: a cube and a ball"
        moves = last is not None and last.kind == "move"
        is_vague = any(phrase.count == ALL and not phrase.look for phrase in subjects)
        is_vague = is_vague or (moves and any(phrase.one for phrase in subjects))
        if last is None or not subjects or is_vague or last.kind in (UNREADABLE, NO_CHANGE):
            self._unreadable(clause.text)
            return
        if last.kind == REST:  # "everything is the same except the cube"
            last = Claim(CHANGE)
        self.claims += [replace(last, subject=phrase, text=clause.text) for phrase in subjects]
        self.subject = subjects[-1]


def _is_change_of_view(tokens: Sequence[Token]) -> bool:
    """Return True if a sentence without claims says that the camera or the light changed."""
    symbols = {token.symbol for token in tokens}
    return VIEWPOINT in symbols and bool(symbols & ALTERED) and not symbols & DENIED


def _rest(claim: Claim, excepted: bool) -> Claim:
    return replace(claim, kind=REST) if excepted and claim.kind == NO_CHANGE else claim


@lru_cache(maxsize=10_000)
def _longest(symbols: str) -> tuple[str, re.Match[str] | None]:
    best: tuple[str, re.Match[str] | None] = ("", None)
    for kind, regex in _rules():
        match = regex.match(symbols)
        if match and len(match[0]) > (len(best[1][0]) if best[1] else 0):
            best = kind, match
    return best


def _clause(kind: str, match: re.Match[str], tokens: Sequence[Token], text: str) -> Clause:
    groups: dict[str, list[Token]] = {}
    for name in (name for name in match.groupdict() if match[name]):
        groups.setdefault(name.rstrip("0123456789"), []).extend(tokens[match.start(name) : match.end(name)])
    clause_tokens = tokens[match.start() : match.end()]
    start, end = clause_tokens[0].start, clause_tokens[-1].end
    if kind in NO_OTHERS and NO_OTHERS[kind].search(text[max(0, start - len("nothing but ")) : end]):
        kind = UNREADABLE
    return Clause(kind, clause_tokens, groups, text[start:end])


def _excepted(tokens: Sequence[Token], end: int) -> bool:
    """Return True if the sentence makes an exception with "except" or "but".

    `end` is the position of the first token after a clause. "but" counts only as this token or the
    next one, as in "nothing changed, but the cube moved". "except" counts anywhere in the sentence. An
    exception for the camera, as in "except for the viewpoint", does not count.
    """
    symbols = [token.symbol for token in tokens]
    if "BUT" in symbols[end : end + 2] and VIEWPOINT not in symbols[end : end + 4]:
        return True
    for index in (index for index, symbol in enumerate(symbols) if symbol == "EXCEPT"):
        following = symbols[index + 1 :]
        stop = next((i for i, symbol in enumerate(following) if symbol in (COMMA, COLON)), len(following))
        if VIEWPOINT not in following[:stop]:
            return True
    return False
