"""Check the truth of captions against the scene description, if the dataset has one (`tabletop`).

Captions are parsed strictly by tabletop's grammar: `the [size] [color] [material] noun`, optionally
`that is RELATION the [size] [color] [material] noun`, and a verb phrase. A caption that is not parseable is
false. A verdict lists all false parts of a caption as letters of FAULTS.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pipeline.datasets.schema import NO_CHANGE, Pair, Placed, SceneFacts, changed_objects
from pipeline.io.errors import InputError
from pipeline.scoring.no_change import says_no_change
from pipeline.scoring.tokenizer import one_line
from pipeline.tabletop import words
from pipeline.tabletop.words import MEANINGS, NOUNS, VERB_PHRASES, Point, relations

CHANGED = {kind: attribute for attribute, kind in words.NEW_VALUE.items()}  # kind -> what it changes

ATTRIBUTES = {"size": "z", "color": "c", "material": "m", "shape": "s"}  # letters of FAULTS
RELATION, KIND, VALUE, OTHER, ALSO, SILENT, INVENTED, UNREADABLE = "rkvoantg"
FAULTS = {
    SILENT: "missed change",
    INVENTED: "false alarm",
    UNREADABLE: "not parseable",
    KIND: "kind of change",
    ATTRIBUTES["color"]: "colour",
    ATTRIBUTES["material"]: "material",
    ATTRIBUTES["shape"]: "shape",
    ATTRIBUTES["size"]: "size",
    RELATION: "relation",
    VALUE: "new value",
    OTHER: "another object",  # it fits another object of the image; the wrong attributes are faults, too
    ALSO: "ambiguous",
}  # letter -> the false part of a caption


def _any(options: Iterable[str]) -> str:
    return "|".join(sorted(options))


def _phrase(prefix: str) -> str:
    """Return a regular expression for a noun phrase, with groups named `prefix` + attribute."""
    names = ("size", "color", "material")
    adjectives = "".join(rf"(?: (?P<{prefix}{name}>{_any(MEANINGS[name])}))?" for name in names)
    return rf"the{adjectives} (?P<{prefix}shape>{_any(NOUNS)})"


OF_OBJECTS = {word for meanings in MEANINGS.values() for word in meanings}
"""Words for the attributes of objects: no true caption of an unchanged pair has one of them."""
RELATIONS = (*words.RIGHT, *words.LEFT, *words.FRONT, *words.BEHIND)
SENTENCE = re.compile(
    rf"(?P<subject>{_phrase('')}"
    rf"(?P<landmark> that is (?P<relation>{_any(RELATIONS)}) {_phrase('other_')})?)"
    rf" (?P<verb>{_any(VERB_PHRASES)})",
    re.ASCII | re.IGNORECASE,
)


@dataclass(frozen=True)
class Verdict:
    """Judgement of a caption: whether it is true, and its faults."""

    true: bool
    fits: bool  # true, or ambiguous without another fault
    # false phrases in their order; the whole caption if the judge does not find them; () if it is true
    wrong: tuple[str, ...] = ()
    faults: str = ""  # letters of all faults, in the order of FAULTS; empty if the judge names none


def judge(caption: str, pair: Pair) -> Verdict | None:
    """Check a caption against the pair's scene; None if the scene is unknown.

    A caption of a changed pair is true if its subject, with its relation, fits only the changed object,
    and if the kind of change and the new value are true. The subject is checked in the after image for
    an added object, else in the before image. A caption of an unchanged pair is true if it reports no change
    (no_change.py), and has no word for a size, colour, material or shape (OF_OBJECTS), such as "red" or
    "cube". Raises InputError for a pair whose scene lacks the changed object.
    """
    if pair.scene is None or pair.change_type is None:
        return None
    text = one_line(caption).rstrip(" .")
    reports_none, sentence = says_no_change(text), SENTENCE.fullmatch(text)
    if pair.change_type == NO_CHANGE:
        if reports_none and not OF_OBJECTS & set(re.findall(r"\w+", text.lower())):
            return Verdict(true=True, fits=True)
        return _false([sentence["verb"]], INVENTED) if sentence else _false([caption], UNREADABLE)
    if sentence is None:
        return _false([caption], SILENT if reports_none else UNREADABLE)
    wrong = dict(_contradictions(sentence, pair.change_type, pair.scene, *changed_of(pair)))
    matching = _matching(sentence, *_described(pair.scene, pair.change_type))
    if wrong:
        subject = wrong.keys() & {*ATTRIBUTES.values(), RELATION}
        return _false(wrong.values(), *wrong, *(OTHER if subject and matching else ""))
    return Verdict(True, True) if len(matching) == 1 else Verdict(False, True, (sentence["subject"],), ALSO)


def _false(wrong: Iterable[str], *faults: str) -> Verdict:
    return Verdict(False, False, tuple(wrong), "".join(letter for letter in FAULTS if letter in faults))


def changed_of(pair: Pair) -> tuple[Placed | None, Placed | None]:
    """Return the changed object of a pair in the before and in the after image; None where it is absent.

    Raises InputError if the pair's scene lacks the object.
    """
    assert pair.scene is not None
    try:
        return changed_objects(pair.scene, str(pair.change_type))
    except ValueError as error:
        raise InputError(f"pair {pair.pair_id}: {error}; run `dvc repro prepare` again") from None


def _contradictions(
    sentence: re.Match[str], kind: str, scene: SceneFacts, before: Placed | None, after: Placed | None
) -> Iterator[tuple[str, str]]:
    """Yield (letter of FAULTS, false words) for each false part of a caption of a changed pair.

    `kind` is the pair's kind of change. `before` and `after` are the changed object in the two
    images; one of them is None if the object is absent there.
    """
    changed = before or after
    assert changed is not None  # it is in one of the images
    for attribute, letter in ATTRIBUTES.items():
        if not _agrees(sentence[attribute], attribute, changed):
            yield letter, sentence[attribute]
    if sentence["landmark"] and not _relation_holds(sentence, changed, *_described(scene, kind)):
        yield RELATION, sentence["landmark"].strip()
    value = sentence["verb"].split()[-1]
    if VERB_PHRASES[sentence["verb"].lower()] != kind:
        yield KIND, sentence["verb"]
    elif kind in CHANGED and not _agrees(value, CHANGED[kind], after):
        # the value's word; the whole verb phrase if the subject contains the same word
        yield VALUE, value if value not in sentence["subject"].split() else sentence["verb"]


def _described(scene: SceneFacts, kind: str) -> tuple[tuple[Placed, ...], Point]:
    return (scene.after, scene.after_camera) if kind == "add" else (scene.before, scene.before_camera)


def _matching(sentence: re.Match[str], objects: tuple[Placed, ...], camera: Point) -> list[Placed]:
    """Return the objects of an image that the subject of a caption may mean.

    For "the red cube behind the sphere", these are the red cubes that are behind a sphere.
    """
    return [
        item
        for item in objects
        if _fits(sentence, "", item)
        and (not sentence["landmark"] or _relation_holds(sentence, item, objects, camera))
    ]


def _relation_holds(
    sentence: re.Match[str], subject: Placed, objects: tuple[Placed, ...], camera: Point
) -> bool:
    """Return True if the spatial relation that a caption claims is true for the object `subject`.

    An example is "behind the blue cube". The relation is true if `subject` is behind any other object
    that fits the words "blue cube".
    """
    relation = sentence["relation"].lower()
    return any(
        relation in wordings
        for landmark in objects
        if landmark is not subject and _fits(sentence, "other_", landmark)
        for wordings in relations(subject, landmark, camera)
    )


def _fits(sentence: re.Match[str], prefix: str, item: Placed) -> bool:
    return all(_agrees(sentence[prefix + attribute], attribute, item) for attribute in MEANINGS)


def _agrees(word: str | None, attribute: str, item: Placed | None) -> bool:
    """Return True if a word fits the object's attribute. None and words such as "thing" always fit."""
    value = MEANINGS[attribute].get(word.lower()) if word else None
    return value is None or value == getattr(item, attribute)


def marks(words: Sequence[str], wrong: Iterable[str]) -> list[bool]:
    """Return a boolean for each word: True if the word belongs to a false phrase of `wrong`.

    Only the first occurrence of each false phrase is marked.
    """
    marked: set[int] = set()
    for phrase in (text.split() for text in wrong if text.strip()):
        starts = range(len(words) - len(phrase) + 1)
        first = next((start for start in starts if list(words[start : start + len(phrase)]) == phrase), None)
        if first is not None:
            marked |= {*range(first, first + len(phrase))}
    return [position in marked for position in range(len(words))]


def quoted(wrong: Iterable[str]) -> str:
    return ", ".join(f"“{phrase}”" for phrase in wrong if phrase.strip())
