"""Is a caption true of the pair? Judged by the scene's own facts, where they are published (`tabletop`).

A caption is read strictly, as a sentence of tabletop's grammar: `the [size] [color] [material] noun`, perhaps
`that is RELATION the [size] [color] [material] noun`, and a verb phrase. What is no such sentence is false.
A relation holds as the camera of the picture sees it (pipeline/tabletop/relations.py).

All that is false of a caption is known, as letters of FAULTS: each attribute that its subject names is held
against the thing that changed.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.datasets.schema import NO_CHANGE, Pair, Placed, SceneFacts, changed_things
from pipeline.io.errors import InputError
from pipeline.scoring.accuracy import PHRASES, says_no_change
from pipeline.scoring.tokenizer import one_line
from pipeline.tabletop import words
from pipeline.tabletop.relations import Point, relations
from pipeline.tabletop.words import MEANINGS, NOUNS, VERB_PHRASES

CHANGED = {kind: attribute for attribute, kind in words.NEW_VALUE.items()}

ATTRIBUTES = {"size": "z", "color": "c", "material": "m", "shape": "s"}  # their letters
RELATION, KIND, VALUE, OTHER, ALSO, SILENT, INVENTED, UNREADABLE = "rkvoantg"
FAULTS = {
    SILENT: "says nothing of a change that there is",
    INVENTED: "tells a change where there is none",
    UNREADABLE: "no sentence of the grammar",
    KIND: "kind of change",
    ATTRIBUTES["color"]: "colour",
    ATTRIBUTES["material"]: "material",
    ATTRIBUTES["shape"]: "shape",
    ATTRIBUTES["size"]: "size",
    RELATION: "relation",
    VALUE: "new value",
    OTHER: "speaks of another thing",  # one that is there; beside the attributes in which they differ
    ALSO: "fits another thing, too",
}  # letter -> what of a caption is false


def _any(options: Sequence[str]) -> str:
    return "|".join(sorted(options))


def _phrase(prefix: str) -> str:
    """A pattern of a noun phrase, whose groups are the attributes' names behind the prefix."""
    said = "".join(
        rf"(?: (?P<{prefix}{name}>{_any(tuple(MEANINGS[name]))}))?" for name in ("size", "color", "material")
    )
    return rf"the{said} (?P<{prefix}shape>{_any(tuple(NOUNS))})"


RELATIONS = (*words.RIGHT, *words.LEFT, *words.FRONT, *words.BEHIND)
SENTENCE = re.compile(
    rf"(?P<subject>{_phrase('')}"
    rf"(?P<landmark> that is (?P<relation>{_any(RELATIONS)}) {_phrase('other_')})?)"
    rf" (?P<verb>{_any(tuple(VERB_PHRASES))})",
    re.ASCII | re.IGNORECASE,
)


@dataclass(frozen=True)
class Verdict:
    """What is to be said of a caption. `wrong`: its first words that are, as they stand in it."""

    true: bool
    fits: bool  # true, or only not said of one thing alone
    wrong: str | None = None  # None where true; the whole caption where it cannot be read
    faults: str = ""  # all that is false, letters in the order of FAULTS; none where true


def judge(caption: str, pair: Pair, phrases: Sequence[str] = PHRASES) -> Verdict | None:
    """Whether the caption is true of the pair; None where its scene is not known.

    True of a change: the subject, with its relation, fits the thing that changes and no other one of the
    picture spoken of (after for what is added, else before), the verb phrase is of the true kind, and the new
    value the true one. A relation holds where it does to any one thing that its noun phrase fits.
    True of a pair without a change: it holds one of `phrases`.
    Raises InputError for a pair whose scene lacks the thing that changes.
    """
    if pair.scene is None or pair.change_type is None:
        return None
    text = one_line(caption).rstrip(" .")
    if pair.change_type == NO_CHANGE and says_no_change(text, phrases):
        return Verdict(true=True, fits=True)
    sentence = SENTENCE.fullmatch(text)
    if sentence is None:
        return _false(caption, SILENT if says_no_change(text, phrases) else UNREADABLE)
    if pair.change_type == NO_CHANGE:
        return _false(sentence["verb"], INVENTED)
    wrong = dict(_contradictions(sentence, pair, pair.scene))
    meant = _meant(sentence, *_spoken_of(pair.scene, pair.change_type))
    if wrong:
        subject = wrong.keys() & {*ATTRIBUTES.values(), RELATION}
        return _false(next(iter(wrong.values())), *wrong, *(OTHER if subject and meant else ""))
    return Verdict(True, True) if len(meant) == 1 else Verdict(False, True, sentence["subject"], ALSO)


def _false(wrong: str, *faults: str) -> Verdict:
    return Verdict(False, False, wrong, "".join(letter for letter in FAULTS if letter in faults))


def _contradictions(sentence: re.Match[str], pair: Pair, scene: SceneFacts) -> Iterator[tuple[str, str]]:
    """What contradicts the change: letters of FAULTS, each with the caption's words, in their order."""
    kind = str(pair.change_type)
    try:
        before, after = changed_things(scene, kind)
    except ValueError as error:
        raise InputError(f"pair {pair.pair_id}: {error}; run `dvc repro prepare` again") from None
    thing = before or after
    assert thing is not None  # it is in one of the pictures
    for attribute, letter in ATTRIBUTES.items():
        if not _agrees(sentence[attribute], attribute, thing):
            yield letter, sentence[attribute]
    if sentence["landmark"] and not _lies_so(sentence, thing, *_spoken_of(scene, kind)):
        yield RELATION, sentence["landmark"].strip()
    value = sentence["verb"].split()[-1]
    if VERB_PHRASES[sentence["verb"].lower()] != kind:
        yield KIND, sentence["verb"]
    elif kind in CHANGED and not _agrees(value, CHANGED[kind], after):
        # the word alone, unless it stands in the subject too
        yield VALUE, value if value not in sentence["subject"].split() else sentence["verb"]


def _spoken_of(scene: SceneFacts, kind: str) -> tuple[tuple[Placed, ...], Point]:
    """The things of the picture that captions of this kind of change speak of, and its camera."""
    return (scene.after, scene.after_camera) if kind == "add" else (scene.before, scene.before_camera)


def _meant(sentence: re.Match[str], things: tuple[Placed, ...], camera: Point) -> list[Placed]:
    """The things that the subject, with its relation, fits."""
    return [
        thing
        for thing in things
        if _fits(sentence, "", thing)
        and (not sentence["landmark"] or _lies_so(sentence, thing, things, camera))
    ]


def _lies_so(sentence: re.Match[str], thing: Placed, things: tuple[Placed, ...], camera: Point) -> bool:
    """Whether the relation holds from the thing to any other one that the second noun phrase fits."""
    said = sentence["relation"].lower()
    return any(
        said in wordings
        for other in things
        if other is not thing and _fits(sentence, "other_", other)
        for wordings in relations(thing, other, camera)
    )


def _fits(sentence: re.Match[str], prefix: str, thing: Placed) -> bool:
    return all(_agrees(sentence[prefix + attribute], attribute, thing) for attribute in MEANINGS)


def _agrees(word: str | None, attribute: str, thing: Placed | None) -> bool:
    """Whether the thing has the value that the word names; what names none (`thing`, no word) fits all."""
    value = MEANINGS[attribute].get(word.lower()) if word else None
    return value is None or value == getattr(thing, attribute)


def marks(words: Sequence[str], wrong: str | None) -> list[bool]:
    """Of each word of a caption, whether it belongs to the first run that is `wrong` (truth.Verdict)."""
    meant = (wrong or "").split()
    for first in range(len(words) - len(meant) + 1 if meant else 0):
        if list(words[first : first + len(meant)]) == meant:
            return [first <= place < first + len(meant) for place in range(len(words))]
    return [False] * len(words)
