"""Turn clauses that name no single object into claims: "nothing changed", "all colours are the same"."""

import re

from pipeline.datasets.schema import NO_CHANGE
from pipeline.free_english.claims import Clause
from pipeline.judging.claims import BECOMES, EXISTS, REST, SAME, Claim, Phrase

VERBS = {"MOVED": "position"} | dict.fromkeys(("ADDED", "DROPPED", "GONE", "LACKS"), "presence")
"""Symbol of a verb -> the aspect of an object that changes."""


def unnamed(clause: Clause) -> Claim:
    """Return the claim of a clause that names only a property: "a change in colour can be seen"."""
    kind = "move" if clause.aspect == "position" else BECOMES
    return Claim(kind, Phrase(), aspect=clause.aspect, text=clause.text)


def same_aspects(clause: Clause, changed: bool) -> list[Claim]:
    """Return the claims that properties are the same, as in "all objects kept their colours".

    `changed`: True if the text named a change before this clause. Then "no change in its position and
        colour" is about one object and gives a claim for each property. Otherwise, it is the claim that
        nothing changed.
    """
    if clause.kind == NO_CHANGE and clause.has("WITH") and not clause.has("DIFFERENCE"):
        return [Claim(NO_CHANGE, text=clause.text)]  # "all are in the same places with the same colours"
    symbols = " ".join(token.symbol for token in clause.tokens)
    if re.search(r"\b(?:EVERYTHING|TALLY) (?:COMMA|AND) ", symbols):
        return [
            Claim(NO_CHANGE, text=clause.text)
        ]  # "the objects, their colours and their positions are the same"
    is_about_one_object = clause.has("ITS") or (changed and clause.has("ASPECT"))
    aspects = [token.meaning for token in clause.tokens if token.symbol == "COLOR"]
    aspects += [token.meaning[0] for token in clause.tokens if token.symbol == "ASPECT"]
    verbs = [VERBS[token.symbol] for token in clause.tokens if token.symbol in VERBS]
    if (
        clause.kind == NO_CHANGE and verbs and aspects and not is_about_one_object
    ):  # "no removals or colour changes"
        return [Claim(NO_CHANGE, aspect=" ".join(sorted({*verbs, *aspects})), text=clause.text)]
    aspects += verbs
    for kinds, owner in (token.meaning for token in clause.tokens if token.symbol == "ASPECTS"):
        if owner == "REST":
            return [Claim(REST, text=clause.text)]
        aspects += kinds
        is_about_one_object = is_about_one_object or owner == "ASPECT"
    if ("all" in aspects or {"position", "color"} <= {*aspects}) and not is_about_one_object:
        return [Claim(NO_CHANGE, text=clause.text)]
    return [Claim(SAME, aspect=aspect, text=clause.text) for aspect in aspects]


def none_changed(clause: Clause) -> Claim:
    """Claim that nothing changed, of the properties that the named changes ("moved") concern."""
    verbs = {token.symbol for token in clause.tokens} & {*VERBS}
    is_limited = not clause.has("CHANGED", "PAINTED", "REPLACED", "OCCUR", "SAME", "DIFFERENCE")
    aspects = sorted({VERBS[verb] for verb in verbs}) if is_limited else []
    return Claim(NO_CHANGE, aspect=" ".join(aspects), text=clause.text)


def same_objects(clause: Clause) -> list[Claim]:
    """Return the claims of a clause such as "both images show the same four objects".

    The claims are that both images show four objects, and that nothing changed. Without a number, only the
    second claim is returned.
    """
    properties = {token.meaning for token in clause.tokens if token.symbol == "COLOR"}
    aspects = properties or ({"position"} if clause.has("SAME") else set())
    aspect = "" if "all" in properties else " ".join(sorted({*aspects, "presence"}))
    numbers = [token.meaning for token in clause.tokens if token.symbol == "CAST" and token.meaning]
    counted = [Claim(EXISTS, Phrase(count=2, number=n), when="both", text=clause.text) for n in numbers]
    return [*counted, Claim(NO_CHANGE, aspect=aspect, text=clause.text)]
