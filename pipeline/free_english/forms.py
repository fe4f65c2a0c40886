"""Forms that join the tokens of a sentence into noun phrases, places and properties.

Forms are applied in the order of this file. A form is a regular expression over symbols, as in
rules.yaml, with a function. The function gets the tokens of a match. It returns the tokens that replace
the match, or None if the match stays unchanged.
"""

from dataclasses import replace
from operator import itemgetter
from typing import Any

from pipeline.free_english import noun_phrases, places
from pipeline.free_english.patterns import WHEN, Build, reduced
from pipeline.free_english.tokens import Token
from pipeline.judging.claims import Phrase

Forms = tuple[tuple[str, Build], ...]
LEADING = "(?:IN|PRE|OF|TO|BUT|AND|UPON)*"
MODIFIERS = "(?:(?:NEW|SIDE|MOST|NTH|ATTR) (?:(?:COMMA AND?|AND)(?=ATTR))?)*"
VERB = (
    "(?=WHEN* (?:BE|WAS|HAVE|DO|NOT|NOLONGER|HERE|SEEN|SIT|MOVED|ADDED|DROPPED|GONE|BECAME|PAINTED|CHANGED"
    "|REPLACED|LACKS|UNDERWENT|REMAIN|LOSTSHINE|PUT|OCCUR|OTHERWISE|ONLY))"
)
BECOMING = "(?:BECAME|CHANGED TO|GONE TO)"
ALONE = "(?<!MOVED)(?<!PUT)"
RELATIVE = "WHICH (?:WHEN|BE|WAS)*"
EVENT = "(?:DROPPED|LACKS|ADDED|MOVED|GONE|CHANGED|NEW|DIFFERENCE)"
KEPT = "(?:BE|WAS|HAVE|DO)* (?:COUNT|NOT|REMAIN|SAME)"
SITTING = "(?:SIT|HERE|SEEN|PUT|THERE|WHEN)"


def phrases(tokens: list[Token]) -> list[Token]:
    """Join noun phrases to NP tokens, values ("red and shiny") to VALUE, places to PLACE, times to WHEN.

    The forms of places are applied from right to left until nothing changes. So "the cube behind the ball on
    the left" first becomes "the cube" and "behind (the ball on the left)".
    """
    tokens = reduced(reduced(tokens, MARKS), NEIGHBOURS)
    tokens = noun_phrases.count_from_side(noun_phrases.no_longer(tokens))
    tokens = noun_phrases.join_values(reduced(tokens, BASE))
    before: list[Token] = []
    while before != tokens:
        before = tokens
        tokens = reduced(tokens, PLACES, backwards=True)
    return tokens


_first: Build = itemgetter(0)
_last: Build = itemgetter(-1)
_all_but_last: Build = itemgetter(slice(None, -1))


def _nothing(_: list[Token]) -> list[Token]:
    return []


def _time(tokens: list[Token]) -> Token:
    (meaning,) = (token.meaning for token in tokens if token.symbol in ("IMG", WHEN))
    return noun_phrases.joined(tokens, WHEN, meaning)


def _token(symbol: str, meaning: Any) -> Build:
    return lambda tokens: noun_phrases.joined(tokens, symbol, meaning)


def _renamed(symbol: str, meaning: str = "") -> Build:
    return lambda tokens: replace(tokens[0], symbol=symbol, meaning=meaning)


MARKS: Forms = (
    ("(?:DET|ONLY|NEW)* (?:SALIENT|VISIBLE|ATTR)* (?:DIFFERENCE|CHANGE)", noun_phrases.change_noun),
    ("(?:PRE|BETWEEN|IN|ACROSS) IMG (?:AND|TO) IMG", noun_phrases.forward),
    ("WHEN TO IMG", noun_phrases.forward),
    ("(?:COMPARED (?:IMG|WHEN)|WHEN COMPARED IMG) COMMA?", noun_phrases.forward),
    ("PRE WHEN", _time),
    ("(?<=CHANGED) PRE DET NTH (?=CAUSE|COMMA|BUT|AND|$)", _nothing),
    (
        f"{LEADING} LOOKING (?:(?:IN|OF|BETWEEN)* "
        "(?:SCENES|PRE? IMG (?:(?:AND|TO|BUT|COMPARED) IMG)?))? COMMA?",
        _nothing,
    ),
    ("(?:IN|PRE|OF) IMG", _time),
    ("(?<=ADDED) TO IMG", _time),
    ("(?:IN|PRE|OF|BETWEEN|ACROSS) SCENES", _nothing),
    ("THAN (?:IN? IMG|WHEN|DET? NTH)", _nothing),
    ("AROUND", _nothing),
    ("DET NTH (?=WHEN? (?:HAVE|SHOWS|DO|LACKS|NOLONGER|GAINED|REMAIN))", noun_phrases.ordinal_image),
    ("^WHEN COMMA", _all_but_last),
    ("(?:COMMA|AND|BUT) WHEN COMMA", _all_but_last),
)
NEIGHBOURS: Forms = (
    ("(?<=SIDE|MOST|NTH|ATTR) ONEOF", noun_phrases.one_of),
    ("(?<=INSTEAD|COMPARED) ONE (?!ATTR|NOUN|NEW|SIDE|MOST|OF)", _renamed("COUNT", "1")),
    ("ONE (?=ATTR|NOUN|NEW|SIDE|MOST)", _renamed("DET", "a")),
    ("ONE", _token("NOUN", (None, False))),
    ("(?<!NOUN|DIFFERENCE|BE|WAS) THAT (?=ATTR|NOUN)", _renamed("DET", "the")),
    ("(?:^|(?<=BE|HAVE|SHOWS)) ANOTHER", _renamed("NEW")),
    ("ANOTHER", _renamed("DET", "a")),
    ("THAT", _renamed("WHICH")),
    ("THIS (?=ATTR|NOUN)", _renamed("DET", "the")),
    ("THIS", _renamed("IT")),
    ("WHERE (?=IMG)", _renamed("BUT")),
    ("WEAK (?=SAME|REMAIN)", _renamed("NEARLY")),
    ("WEAK", _nothing),
    ("WITH (?=DET? (?:EVENTADD|EVENTDROP|EVENTMOVE|EVENTCOLOR))", _renamed("BUT")),
    ("(?<=BE|BECAME|HAVE|WAS|REMAIN) ALL (?!NOUN|NEW|OTHER|DET|COUNT|ONE)", _nothing),
    ("(?<=NOUN|COLOR) ALL (?=REMAIN|BE|HAVE|WAS|DO)", _nothing),
    ("(?<=BE|WAS|REMAIN) COUNT (?=SAME|REMAIN)", _nothing),
    ("ALL", _renamed("COUNT", "all")),
    ("FORMER (?=COLOR)", _renamed("WHEN", "before")),
    ("FORMER", _nothing),
    ("(?:^|(?<=COMMA)) NEW (?=COLOR)", _renamed("WHEN", "after")),
    ("SALIENT", _nothing),
    ("VISIBLE", _renamed("HERE")),
    ("(?<=ATTR|NEW|ITS|DET) LOOK", _renamed("COLOR", "look")),
    ("LOOK", _renamed("BE")),
    ("(?<=DO|NOT|NOTHING) LABELMOVE", _renamed("MOVED")),
    ("(?<=VIEWPOINT) VETO", _nothing),
    ("(?<=DET) ADDED (?=NOUN|ATTR)", _renamed("NEW")),
    ("(?<=DET|NEW|ITS) SPOT", _renamed("COLOR", "position")),
    ("SPOT", _renamed("SEE")),
    ("(?<!^) UPON (?=COMMA|$)", _renamed("WHEN", "after")),
    ("(?<=DO|NOT|NOUN|COLOR|EVERYTHING|SCENES|NOTHING|IT|WHAT|WHICH) CHANGE", _renamed("CHANGED")),
    ("CHANGE", _renamed("DIFFERENCE")),
    ("APPEAR (?=SAME|ATTR|NOT|BE|CHANGED)", _renamed("BE")),
    ("APPEAR", _renamed("ADDED")),
    ("REMAINING (?=SAME)", _renamed("REMAIN")),
    ("REMAINING", _renamed("OTHER")),
    ("ONLY (?!ADDED|HERE|SEEN|WHEN|BE|COMMA|$)", _nothing),
)
BASE: Forms = (
    (f"COUNT (?:NOUN|EVERYTHING) {BECOMING} COUNT (?:NOUN)?", noun_phrases.number_change),
    ("COUNT? OTHER COUNT? ATTR* (?:NOUN|EVERYTHING|COLOR)", noun_phrases.other_objects),
    ("SAME (?:COUNT|ATTR)* NOUN", noun_phrases.same_objects),
    (f"(?:ONEOF|FEWER)? (?:COUNT|DET|NEW)* {MODIFIERS} NOUN", noun_phrases.noun_phrase),
    ("SOMETHING NEW?", noun_phrases.something),
    ("NEW? IT", _token("NP", Phrase(pronoun=True))),
    (
        "(?:GREW|FELL) (?:PRE COUNT TO COUNT)?|TALLY COLON? (?:BECAME|GONE|CHANGED)? PRE? COUNT TO COUNT",
        noun_phrases.number_change,
    ),
    ("LESS", _token("NP", Phrase(indefinite=True, fewer=True))),
    ("(?<=INSTEAD|COMPARED) COUNT", noun_phrases.instead_number),
    ("COUNT", noun_phrases.number),
    ("MOREOF", _token("NP", Phrase(indefinite=True, new=True))),
)
PLACES: Forms = (
    ("(?:ITS|DET|NEW)* COLOR (?=WHICH? (?:BE|WAS)? PLACE)", places.its_position),
    ("COLOR (?:(?:COMMA|AND|OR|DET)+ COLOR)* (?:OF|IN) (?:EVERYTHING|REST)", places.aspects),
    ("(?<=VALUE|MOVED|DROPPED|ADDED|PLACE|GONE) BE DIFFERENCE$", _nothing),
    (f"(?:ITS|DET)? COLOR (?:(?:COMMA|AND|OR)+ (?:ITS|DET)? (?:COLOR|ASPECT))+ (?={KEPT})", places.aspects),
    ("(?:ITS|DET)? (?:COLOR|ASPECT) (?:COMMA|AND|OR)+ (?:ITS|DET)? ASPECTS", places.aspects),
    ("(?<=SO) ITS? COLOR (?:(?:COMMA|AND)+ ITS? COLOR)+", places.aspects),
    ("EVERYTHING AND ITS COLOR", _first),
    (
        f"NP (?:WHICH|TO) (?=(?:BE|WAS|HAVE|WHEN)* {EVENT}+ (?:WHEN|PLACE)* (?:BE|WAS|COLON) "
        "(?:WHEN|DET)* NP)",
        places.the_object_that,
    ),
    ("DET PLACE", _last),
    ("(?:DET|VALUE)* (?:LABELMOVE|EVENTMOVE) (?:IN|OF|TO|DET)* VIEWPOINT", _last),
    ("^(?:IMG|WHEN) COLON (?=(?:NP PLACE* (?:BE|WAS|HAVE|SIT|DO)|THERE|ASPECT))", _time),
    ("(?<=COLON) NP (?:SIT|COMMA) PLACE$", places.with_place),
    ("REL (?:COMMA? AND|COMMA) PLACE", places.both_places),
    ("(?<=EVENTDROP|EVENTADD|EVENTCOLOR|LABELDROP) NP SIT PLACE", places.with_place),
    ("NP PRE SIDE", places.nth_from),
    ("NP COMMA DET? NTH PRE SIDE COMMA?", places.nth_after),
    ("(?<!COMMA) DET? NTH PRE SIDE", places.nth_alone),
    ("REL SIDE", places.near_side),
    ("NP COMMA? WHICH (?:BE|WAS)* (?:HERE|SEEN|THERE|SIT)+ WHEN COMMA?", places.seen),
    (f"NP {SITTING}+ {VERB}", places.seen),
    (f"NP COMMA {SITTING}+ COMMA", places.seen),
    ("NP WHEN (?=HAVE|MOVED|BECAME|CHANGED|DROPPED|GONE|REPLACED|PAINTED)", places.seen),
    ("(?<!PRE)(?<!IN)(?<!TO) SIDE (?:TO SIDE|DIR)$", places.from_side),
    ("NP COMMA (?:SIDE|MOST) COMMA?$", places.in_brackets),
    ("REL (?:SCENES|IMG)", places.side),
    ("(?:IN|TO|REL)? IN (?:SIDE|MOST)", places.side),
    ("TOSIDE OF NP", places.to_side_of),
    (f"(?<=NP) (?:(?:SIDE|MOST) {VERB}|MOST (?=COMMA|WHICH|$))", places.side),
    ("SIDE (?=OF NP)", places.side_of),
    ("REL OF? NP (?:WHEN(?=WHEN* (?:BE|HAVE|MOVED|BECAME)))?", places.place),
    ("REL (?:REST|EVERYTHING)", places.before_all),
    ("BETWEEN NP AND NP", places.place),
    ("BETWEEN VALUE AND NP", places.between_values),
    ("BETWEEN (?:NP|REST)", places.between_several),
    ("DET NP", _last),
    (
        "NP COMMA (?:WHICH (?:BE|WAS)+)? (?:NOT (?:HERE|SEEN|THERE|ADDED)+|DROPPED) WHEN COMMA",
        places.not_before,
    ),
    ("(?:SIDE|MOST|NTH) (?:OF|AMONG) NP (?:PRE SIDE)?", places.ranked_of),
    ("NP (?:OF|AMONG) NP", places.one_of_them),
    (f"{ALONE} NP (?:{RELATIVE} PLACE WHEN*|WHEN? PLACE)", places.with_place),
    (f"NP COMMA (?:{RELATIVE})? {SITTING}* PLACE WHEN* COMMA", places.with_place),
    (f"NP SIT PLACE {VERB}", places.with_place),
    (f"NP AND PLACE {VERB}", places.with_place),
    (f"^NP COMMA? NP {VERB}", places.topic),
    ("NP (?:BE|WAS) NP (?=COMMA? (?:WHICH|ASPECT))", places.cleft),
    ("NP (?:BE|WAS) ASPECT (?=WHICH)", places.cleft_aspect),
    ("NP COMMA? (?:NOT|INSTEAD) NP COMMA", _first),
    ("(?:VALUE|NP) IN COLOR", _first),
    (f"{ALONE} NP {RELATIVE} {SITTING}+ PLACE WHEN*", places.with_place),
    ("NP WHICH (?:WHEN|BE|WAS|HAVE)+ MADE? VALUE WHEN*", places.with_value),
    ("NP COMMA (?:WHICH (?:WHEN|BE|WAS)+|WHEN) MADE? VALUE WHEN* COMMA", places.with_value),
    ("NP WHICH (?:BE|WAS|HAVE)+ MADE? VALUE", places.with_value),
    ("NP COMMA VALUE WHEN+ COMMA", places.with_value),
    (f"NP COMMA VALUE COMMA {VERB}", places.with_value),
    ("VALUE OF NP", places.value_of),
    (f"^PLACE COMMA NP {VERB}", places.before_phrase),
    ("NP (?=ASPECT (?:BE|HAVE)* CHANGED (?:BE|WAS) NP)", places.the_object_that),
    ("(?:WHEN|INSTEAD BE) (?:VALUE|PLACE) COMMA NP", places.before_phrase),
    ("NP (?:MADE|WITH|OF) VALUE", places.with_value),
    ("(?<!SHOWS)(?<!REMAIN) NP IN VALUE", places.with_value),
    (f"NP COMMA NP COMMA (?:{VERB}|(?=WHEN* (?:PLACE|IN)))", places.apposition),
    ("NP POSS NEW? COLOR", places.aspect),
    ("(?:DET|NEW)* COLOR (?:OF|IN) NP", places.aspect),
    ("(?:ITS|WHOSE) NEW? COLOR", places.aspect),
    ("(?:DET|NEW) ASPECT", _last),
    ("NP WHEN* (?:COMMA|COLON) NP$", places.named_after),
    ("NP WHEN* COMMA WHICH (?:BE|WAS) NP (?=COMMA|$)", places.named_after),
)
