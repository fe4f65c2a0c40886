"""Decide whether a caption reports that nothing changed. All parts of the project use `says_no_change`.

A caption reports no change if one of its clauses says so, and if no clause states a change. "The two images
are not identical" and "the ball is gone, nothing else changed" report a change. A camera that moved is no
change of the scene. In other languages, the references of the dataset's unchanged pairs are the sentences
that report no change.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache

from pipeline.datasets.schema import Pair
from pipeline.text.caption_text import one_line

BE = r"(?:is|are|was|were|be|been|being|'s|'re|has|have|had|do|does|did|can|could|will|would|gets?|got)"
SEEM = (
    r"(?:looks?|looked|looking|seem(?:s|ed)?|appear(?:s|ed)?|remain(?:s|ed|ing)?|stay(?:s|ed)?|kept|"
    r"keeps?|shows?|"
    r"depicts?|contains?|includes?|features?)"
)
ADVERB = (
    r"(?:\w+ly|all|both|each|still|quite|much|very|just|also|one and|to|the|an?|in|at|of|as|almost|"
    r"more or less|indeed|overall|here|again|together|even|so|any|now|two|in any way)"
)
OFTEN = r"(?:\w+ly|all|both|still|quite|much|very|also|even|to|at all|so|any)"
LINK = rf"\b(?:{BE}|{SEEM})\s+(?:(?:{BE}|{SEEM}|{ADVERB})\s+){{0,6}}?"
IMAGE = (
    r"(?:images?|pictures?|photos?|photographs?|scenes?|views?|frames?|pics?|shots?|versions?|snapshots?|"
    r"renders?|"
    r"renderings?|screenshots?)"
)
NUMBER = r"(?:two|three|four|five|six|seven|eight|nine|ten|\d+)"
SCENE = (
    rf"(?:{IMAGE}|setups?|arrangements?|compositions?|configurations?|layouts?|contents?|objects|items|"
    r"things|places?|positions?|locations?|spots?|states?|colou?rs?|sizes?|shapes?|materials?|numbers?|"
    r"way|areas?|ones)"
)
FOLLOWING = (
    r"as|in|across|between|to|with|from|before|after|throughout|at|on|for|through|over|by|and|or|here|"
    r"again|today|"
    r"overall|both|except|but|within|whatsoever|regarding|concerning|under|apart|aside"
)
SAME = (
    rf"(?:(?:the )?(?:very |exact )?(?:self)?same(?=\s*$|\s+(?:{FOLLOWING}|(?:{NUMBER} )?{SCENE})\b)|"
    rf"(?:identical|equal|equivalent|indistinguishable|alike)(?=\s*$|\s+(?:{FOLLOWING}|{IMAGE})\b))"
)
UNCHANGED = r"(?:un(?:changed|altered|modified|affected|edited|touched|moved|varied|changing)|intact)"
CHANGED = (
    r"(?:chang(?:ed?|es)|differ(?:s|ed|ent)?|alter(?:s|ed)?|modif(?:y|ied)|var(?:y|ies|ied)|moved?|"
    r"shift(?:s|ed)?|placed|put|"
    r"introduced|displaced|edited|adjusted|transformed|updated?|added|removed|deleted|taken(?: away)?|"
    r"replaced|swapped|recolou?red|"
    r"(?:re)?painted|missing|gone|disappear(?:s|ed)?|vanish(?:es|ed)?|happen(?:s|ed)?|occur(?:s|red)?|"
    r"new|inserted|built|constructed|demolished|destroyed|touched|affected|rotated|relocated|rearranged|"
    r"turned|made|"
    r"done|developed|expanded|cleared|revised|resized|lost)"
)
CHANGES = (
    r"(?:chang(?:es?|ing)|differen(?:ces?|t)|alterations?|modifications?|variations?|discrepanc(?:y|ies)|"
    r"deviations?|"
    r"disparit(?:y|ies)|edits?|adjustments?|transformations?|updates?|additions?|removals?|replacements?|"
    r"movements?|"
    r"insertions?|deletions?|disappearances?|developments?|revisions?|distinctions?|dissimilarit(?:y|ies))"
)
SEE = "see|find|notice|spot|detect|observe|identify|discern|perceive|tell|make out"
OTHERS = r"(?:others?|further|more|additional|else|otherwise|rest|remaining|remainder)"
SEEN = rf"(?:{CHANGED}|appear(?:s|ed)|seen|visible|apparent|detected|noticed|observed|found|noted|spotted)"
THEN = rf"(?:(?:\s+(?:to|{BE}))+\s+{CHANGED}\b)?"
WORD = rf"(?!{OTHERS}\b|(?:longer|doubt|question|reason|one|small|that)\b)[\w'-]+\s+"
NONE = re.compile(
    "|".join(
        [
            # "no visible changes", "no object was added"
            rf"(?<!makes )(?<!make )\b(?:no|zero|without|hardly|barely|not any)\s+(?:{WORD}){{0,4}}?"
            rf"{CHANGES}\b(?:\s+(?:that\s+|which\s+)?(?:(?:{BE}|{SEEM}|{OFTEN})\s+)+{SEEN}\b)?",
            rf"\bno\s+(?:{WORD}){{0,5}}?(?:(?:{BE}|{OFTEN})\s+)*{CHANGED}\b",
            # "nothing has changed", "nothing new", and nothing else in the clause
            rf"\bnothing\s+(?!but\b|left\b|behind\b|like\b)(?:that\s+)?(?:{WORD}){{0,8}}?(?:{SEEN}|"
            r"unusual|wrong|not\w+|"
            rf"special|interesting|significant|stands? out|to (?:report|note|see|mention|describe))\b{THEN}",
            rf"^(?:(?:there|i|we|you|see|notice|found|find|{BE}|{ADVERB})\s+)*nothing"
            r"(?: at all| whatsoever| here)?$",
            # "did not change", "can not see any difference", "none of the objects moved"
            rf"\b(?:not|never)\s+(?:(?:{BE}|{SEEM}|{OFTEN})\s+)*(?!gone|missing|new|made|done|"
            rf"taken){CHANGED}\b",
            r"\b(?:not|never|unable to|fails? to|failed to|impossible to|hard to)\s+(?:\w+\s+){0,3}?"
            rf"(?:any|a single|much|(?:{SEE})\s+an?)\s+(?:{WORD}){{0,3}}?{CHANGES}\b",
            rf"\bnot\s+(?:\w+\s+){{1,4}}?any(?:thing)?\s+(?:that\s+)?(?:{WORD}){{0,4}}?{CHANGED}\b",
            rf"\bnot\s+(?:a single|one|any)\s+(?:{WORD}){{1,4}}?{CHANGED}\b",
            rf"\b(?:none|neither)\s+(?:{WORD}){{0,10}}?(?:{CHANGED}|appear(?:s|ed)?)\b{THEN}",
            rf"\b(?:lack|absence) of (?:any )?(?:\w+ )?{CHANGES}\b",
            # "are the same", "the images look identical", "unchanged"
            rf"{LINK}{SAME}",
            rf"\b(?:{SCENE}|they|it|everything|all|both)\s+(?:\w+ly\s+)?{SAME}",
            rf"^(?:(?:{ADVERB}|two|these|they)\s+)*{SAME}",
            r"\bthe same as before\b",
            rf"\b(?:everything|all|both|they|objects|{IMAGE})\s+(?:\w+\s+){{0,6}}?match(?:es|ed)?(?=\s*$|\s+"
            rf"(?:\w+ly|each|one|the (?:first|second|other|before|after|original|previous|{IMAGE}))\b)",
            r"\b(?:stay(?:s|ed)?|remain(?:s|ed)?|kept|keeps?)\s+(?:in place|put|(?:all )?(?:their|"
            r"its) \w+)\b",
            rf"\b{UNCHANGED}\b",
            rf"\b(?:{SEEM}|{BE})\s+(?:(?:\w+ly|just|exactly)\s+)*(?:constant|consistent|stable|static|"
            r"as before|as (?:they|it|everything) (?:was|were))\b",
        ]
    )
)
"""Words that say that nothing changed."""
DENIED = re.compile(
    rf"\b(?:not|no longer|never|hardly|far from)\s+(?:(?:{BE}|{SEEM}|{ADVERB})\s+)*"
    rf"(?:same|identical|equal|alike|indistinguishable|{UNCHANGED}|nothing|match(?:es)?)\b"
    rf"|\b(?:nothing|none|neither|no \w+)\s+(?:(?!and\b)\w+\s+){{0,6}}?(?:{BE}|{SEEM})\s+(?:{ADVERB}\s+)*"
    rf"(?:same|identical|{UNCHANGED})\b"
    r"|\b(?:not (?:the case|true|correct|right|so)|false|untrue) that\b"
)
"""A negation of such words: "not identical", "no longer the same", "not unchanged"."""
OTHER_OBJECTS = re.compile(rf"\b(?:{OTHERS}|only|sole|nothing but)\b")
ONLY = re.compile(rf"\b(?:only|sole|single)\b.*\b(?:{CHANGES}|{CHANGED})\b")
"""Words that deny other changes, in a clause about the camera: "the only difference is the viewpoint"."""
NO_OTHERS = re.compile(rf"\b(?:nothing|no|not|any|none|without)\b(?:\s+\w+){{0,3}}?\s+{OTHERS}\b.*")
"""Words that deny other changes than one that the text names: "nothing else has changed"."""
VIEW = re.compile(
    r"\b(?:camera|view ?points?|viewing|angles?|perspectives?|vantage|lighting|illumination|brightness|"
    r"exposure|point of view|the view (?:is|was|has|have|may|might|shift|chang|mov)\w*)\b"
)
"""Words about the camera and the light."""
STATED = re.compile(
    r"→|->|=>|\b(?:now|new|extra|plus|formerly|previously|instead of|used to be|went|switched|"
    r"without (?:the|an?|its)|"
    r"with (?:no|an?|one)|chang(?:ed|es)|altered|modified|mov(?:ed|es)|shifted|displaced|added|removed|"
    r"deleted|replace[sd]?|swapped|"
    r"recolou?red|(?:re)?painted|missing|gone|absent|disappear(?:s|ed)?|vanish(?:es|ed)?|appeared|"
    r"inserted|built|"
    r"constructed|demolished|destroyed|rotated|relocated|rearranged|turn(?:s|ed)|became|becomes?|no longer|"
    rf"different(?! {IMAGE})|appears(?!\s+(?:to|that|as|like|the|same|identical|un\w+|\w+ly)\b)|"
    r"not (?:there|present|visible)|"
    r"(?:an?|one|some|few|slight|small|minor) (?:\w+ )?(?:differences?|changes?))\b"
)
"""Words that state a change."""
NEUTRAL = re.compile(
    r"\b(?:what|whether|if|is there any|are there any|possible|potential) (?:\w+ ){0,3}?"
    r"(?:chang|differ|mov|alter)\w*"
    rf"|\b(?:new|changed|different|modified|altered|edited|updated) (?:{IMAGE}|one)\b"
    r"|\b(?:from|to|and|than|with) (?:the |each |one an)other(?: one| image| picture)?(?=$)|\b(?:each|"
    r"one an)other\b"
    r"|\bdid (?:anything|something|it) change\b|\bhas (?:anything|something) (?:been )?\w+"
)
"""Words that neither state nor deny a change: questions, and names of the second image."""
HINT = re.compile(
    r"\b(?:no|not|nothing|none|nope|neither|never|without|zero|hardly|barely|same|identical|alike|equal|"
    r"equivalent|"
    r"indistinguishable|un\w+|intact|match\w*|stay\w*|remain\w*|kept|keeps?|fail\w*|impossible|hard|lack|"
    r"absence|constant|consistent|stable|static|as|only)\b"
)
"""Every caption that reports no change has one of these words."""
BARE = re.compile(
    r"no|none|nope|none (?:at all|detected|found|seen|visible)|there (?:is|are) not(?: any)?|not at all|"
    r"not any|"
    r"i (?:can|do) not(?: see any)?"
)
"""Answers that report no change if nothing else is said."""
GENERAL = re.compile(
    rf"^(?:all|both)\b|^(?:\w+ly )?(?:(?:the )?same|identical|{UNCHANGED})\b|\b(?:{IMAGE}|everything|"
    r"nothing|none|neither|any|anything|objects|items|things|they|it|them|change|"
    r"changes|difference|differences|changed|different)\b"
)
"""Words of a denial about all objects; without them, "the cube is unchanged" is about one."""
LABEL = re.compile(
    r"(?:the |any )?(?:changes?|diff|differences?|status|caption|result|description|summary)(?: type)?"
)
"""A clause that names a field: "changes: none"."""
LEAD = re.compile(
    r"(?:i|we|let|looking|comparing|compared|after|upon|based|in|between|as|here|sure|well|yes|to|answer|"
    r"changes?|"
    rf"differences?|the (?:answer|{IMAGE})|both {IMAGE})\b"
)
"""First words of a clause that claims nothing: "comparing both images", "changes:"."""
NAMES = r"(?:colou?rs?|materials?|positions?|sizes?|shapes?|places?|locations?|textures?|objects)"
TURN = rf"(?:{CHANGED}|appear(?:s|ed)?)"
REWRITES = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"can't|cannot", "can not"),
        (r"won't", "will not"),
        (r"n't\b", " not"),
        (r"\b(nothing|everything|there|it|that|what|here)'s\b", r"\1 is"),
        (
            rf"\b(?:{BE}|{SEEM})\s+(?:(?:still|exactly|right|just|all)\s+)*(?:where|the way|how) (?:it|"
            r"they|everything) "
            r"(?:was|were)(?=\s*(?:$|[.,;!]|before\b|in the\b))",
            "is unchanged",
        ),
        # lists are read as one word: "moved, added or removed"
        (rf"\b{TURN}(?:\s*,\s*(?:{BE}\s+)*{TURN})*\s*,?\s+(?:or|nor|and)\s+(?:{BE}\s+)*{TURN}\b", "changed"),
        (
            rf"\b{CHANGES}(?:\s*,\s*(?:\w+ )?{CHANGES})*\s*,?\s+(?:or|nor|and)\s+(?:\w+ )?{CHANGES}\b",
            "changes",
        ),
        (rf"\b({NAMES})(?:\s*,\s*(?:their )?{NAMES})*\s*,?\s+(?:or|nor|and)\s+(?:their )?{NAMES}\b", r"\1"),
    )
)
CLAUSE = re.compile(
    r"\s*(?:[.!?;:,(){}\[\]\"“”|—–]+|\s-+\s|\b(but|however|except(?: for)?|excluding|save for|apart from|"
    r"aside from|other than|besides|with the exception of|although|though|while|whereas|yet|since|despite|"
    r"where|which|when)\b)\s*"
)
EXCEPTIONS = {
    "except",
    "except for",
    "excluding",
    "save for",
    "apart from",
    "aside from",
    "other than",
    "besides",
}
EXCEPTIONS |= {"with the exception of"}


def sentences_of(pairs: Iterable[Pair]) -> frozenset[str]:
    return frozenset(_plain(text) for pair in pairs if pair.changed is False for text in pair.captions)


def says_no_change(caption: str, own: Collection[str] = ()) -> bool:
    """Return True if the caption reports no change, in English or by a sentence in `own`."""
    return _plain(caption) in own or _says_none(one_line(caption))


def _plain(text: str) -> str:
    return one_line(text).lower().rstrip(" .!。！")


@lru_cache(maxsize=100_000)
def _says_none(text: str) -> bool:
    text = text.lower().replace("’", "'").replace("*", "")
    for pattern, plain in REWRITES:
        text = pattern.sub(plain, text)
    if not HINT.search(text):
        return False
    kinds = {*_kinds(text)}
    if "change" in kinds:
        return False
    only_view_changed = "rest" in kinds and kinds <= {"rest", "view"} and bool(VIEW.search(text))
    is_denied = bool(kinds & {"partial", "bare"}) and "other" not in kinds
    return "none" in kinds or is_denied or only_view_changed


def _kinds(text: str) -> Iterator[str]:
    """Yield the kind of each clause: none, partial, bare, change, rest (of other objects), view or other."""
    denied, before = False, ""
    parts = CLAUSE.split(text)
    for clause, conjunction in zip(parts[::2], [None, *parts[1::2]], strict=True):
        before = conjunction or before  # "but, in the second image, the ball is gone"
        if not clause.strip():
            continue
        kind = _kind(clause.strip())
        if not kind:
            continue
        is_exception = before in EXCEPTIONS or (denied and before in ("but", "however", "yet"))
        yield "change" if kind == "other" and is_exception else kind
        denied = denied or kind in ("none", "rest")
        before = ""


def _kind(clause: str) -> str:
    if BARE.fullmatch(clause):
        return "bare"
    if LABEL.fullmatch(clause):
        return ""
    clause = NEUTRAL.sub(" ", clause).strip()
    if not clause:
        return ""
    is_of_view = bool(VIEW.search(clause))
    if DENIED.search(clause):
        return "view" if is_of_view else "change"
    is_none = bool(NONE.search(clause))
    is_of_others = bool(NO_OTHERS.search(clause)) or bool(
        (is_none and OTHER_OBJECTS.search(clause)) or (is_of_view and ONLY.search(clause))
    )
    remaining = NONE.sub(" ", NO_OTHERS.sub(" ", clause))
    if STATED.search(remaining) and not is_of_view:
        return "change"
    if is_of_others:
        return "rest"
    if is_none:
        return "none" if GENERAL.search(clause) else "partial"
    if is_of_view:
        return "view"
    return "" if LEAD.match(clause) else "other"
