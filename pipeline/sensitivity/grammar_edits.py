"""Edit captions of tabletop's grammar: exactly one thing becomes wrong, or nothing does.

Each edit is a function that yields the possible new captions of a caption, in random order. The caption
is split into its parts (`Said`). Most edits need no scene, so they also edit captions of CLEVR-Change that
follow the grammar.
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from pipeline.datasets.schema import NO_CHANGE, Pair, Placed
from pipeline.judging.strict import GRAMMAR, MEANING, Sentence
from pipeline.judging.verdicts import ANOTHER, ATTRIBUTES, FAULTS, KIND, RELATION, SILENT, VALUE
from pipeline.tabletop import words
from pipeline.tabletop.words import CHANGED, MEANINGS, NEW_VALUE, SYNONYMS, VERB_PHRASES, VERBS

KINDS = ("color", "texture", "add", "drop", "move")
BEGINNINGS = {NEW_VALUE.get(name, name): verbs for name, verbs in VERBS.items()}
"""Kind of change -> verb phrases; for a colour or material, without its value."""
OPPOSITE = {"left": "right", "right": "left", "in front of": "behind", "behind": "in front of"}
DENIED = {
    "has been": "has not been",
    "has": "has not",
    "is in": "is not in",
    "is missing": "is not missing",
    "is gone": "is not gone",
    "is no longer there": "is still there",
    "turned": "did not turn",
    "became": "did not become",
    "changed": "did not change",
}
"""First words of a verb phrase -> the same words, denied. The first entry that fits is used."""
NOT_DENIED = {
    "no change was made": "a change was made",
    "there is no change": "there is a change",
    "the two scenes seem identical": "the two scenes seem different",
    "the scene is the same as before": "the scene is not the same as before",
    "the scene remains the same": "the scene does not remain the same",
    "nothing has changed": "something has changed",
    "nothing was modified": "something was modified",
    "no change has occurred": "a change has occurred",
    "there is no difference": "there is a difference",
}
"""Sentence of an unchanged pair -> the same sentence of a changed pair."""
PARAPHRASES = {
    "add": ("{subject} is new", "{subject} was inserted into the scene"),
    "drop": ("{subject} was taken away", "the second image does not show {subject} anymore"),
    "move": ("{subject} was shifted", "the position of {subject} has changed"),
    "color": ("{subject} was painted {value}", "the color of {subject} changed to {value}"),
    "texture": ("{subject} is now {value}", "the material of {subject} changed to {value}"),
    NO_CHANGE: ("both images are identical", "i cannot see any difference", "everything is as before"),
}
ACTIVE = {"add": "someone added {}", "drop": "someone removed {}", "move": "someone moved {}"}
ACTIVE |= dict.fromkeys(("color", "texture"), "someone made {} {value}")
INTRODUCTION = "comparing the two images, i can see that {}"
NOTHING_ELSE = "{}. nothing else has changed"
BRITISH = {"gray": "grey", "color": "colour"}
ANY = frozenset(FAULTS)


@dataclass(frozen=True)
class Said:
    """The parts of a caption of a change. A part that the caption lacks is "".

    "the small red ball that is behind the metal cube turned blue" has the size "small", the color "red", the
    shape "ball", the relation "behind", the landmark "the metal cube", the verb "turned" and the value
    "blue". `kind` is the kind of change.
    """

    size: str
    color: str
    material: str
    shape: str
    relation: str
    landmark: str
    verb: str
    value: str
    kind: str

    @classmethod
    def of(cls, caption: str) -> "Said | None":
        """Return the parts of a caption; None if it does not follow the grammar."""
        if not GRAMMAR.fullmatch(caption):
            return None
        sentence = Sentence.of(caption)
        named = {MEANING[sentence.lower[place]][0]: sentence.words[place] for place in sentence.attributes}
        (kind,) = sentence.claim.changes
        verb, value = sentence.text(sentence.ending), ""
        if kind in CHANGED:
            verb, value = verb.rsplit(" ", 1)
        landmark = range(sentence.landmark.start - 1, sentence.landmark.stop)  # with its article
        return cls(
            size=named.get("size", ""),
            color=named.get("color", ""),
            material=named.get("material", ""),
            shape=sentence.words[sentence.nouns[0]],
            relation=sentence.text(sentence.relation) if sentence.landmark else "",
            landmark=sentence.text(landmark) if sentence.landmark else "",
            verb=verb,
            value=value,
            kind=kind,
        )

    @property
    def phrase(self) -> str:
        return " ".join(filter(None, ("the", self.size, self.color, self.material, self.shape)))

    @property
    def subject(self) -> str:
        return f"{self.phrase} that is {self.relation} {self.landmark}" if self.relation else self.phrase

    @property
    def text(self) -> str:
        return " ".join(filter(None, (self.subject, self.verb, self.value)))


@dataclass(frozen=True)
class EditSource:
    """A caption to edit.

    `others` are the other captions of the pair. `elsewhere` are captions of other pairs with this kind of
    change.
    """

    pair: Pair
    caption: str
    others: Sequence[str]
    elsewhere: Sequence[str]
    random: random.Random

    def shuffled(self, values: Sequence[str]) -> list[str]:
        return self.random.sample([*values], len(values))


NOTHING_SAID = Said("", "", "", "", "", "", "", "", NO_CHANGE)
"""The parts of a caption of no change."""
Make = Callable[[EditSource, Said], Iterator[str]]
"""Yields the captions that an edit can make."""


@dataclass(frozen=True)
class Edit:
    """A way to edit captions.

    `faults` are the letters of verdicts.FAULTS that the new caption may have, each of them alone or together;
    None if the new caption need not follow the grammar.
    """

    name: str
    make: Make
    is_wrong: bool
    of_changed: bool = True  # edits captions of changed pairs; else of unchanged pairs
    faults: frozenset[str] | None = None
    needs_scene: bool = False
    to_kind: str = ""  # kind of change that the new caption states


def kind_edit(kind: str) -> Edit:
    """Return the edit that states another kind of change: `kind`."""

    def make(source: EditSource, said: Said) -> Iterator[str]:
        for verb in source.shuffled(BEGINNINGS[kind]) if said.kind != kind else ():
            for value in _values(source, said, kind):
                yield replace(said, verb=verb, value=value).text

    return Edit("kind of change", make, True, faults=frozenset(KIND), to_kind=kind)


def attribute_edit(name: str) -> Edit:
    """Return the edit that replaces a word for the subject's size, color, material or shape."""

    def make(source: EditSource, said: Said) -> Iterator[str]:
        if _value(name, getattr(said, name)):
            yield from (replace(said, **{name: word}).text for word in _other_words(source, said, name))

    label = {"color": "colour"}.get(name, name)
    return Edit(label, make, True, faults=frozenset(ATTRIBUTES[name] + ANOTHER))


def missed(source: EditSource, said: Said) -> Iterator[str]:
    yield from source.shuffled(words.NO_CHANGE)


def denied(source: EditSource, said: Said) -> Iterator[str]:
    """Deny the change: "is gone" becomes "is not gone"."""
    verb = next((verb for verb in DENIED if f"{said.verb} ".startswith(f"{verb} ")), None)
    if verb:
        yield replace(said, verb=DENIED[verb] + said.verb.removeprefix(verb)).text


def other_object(source: EditSource, said: Said) -> Iterator[str]:
    """Name another object of the image by the same attributes."""
    named = [name for name in ATTRIBUTES if getattr(said, name) and _value(name, getattr(said, name))]
    for item in source.random.sample([*_objects(source.pair)], len(_objects(source.pair))):
        if not said.relation:
            parts = {name: _word(source, getattr(item, name), name) for name in named}
            yield replace(said, **parts).text


def other_relation(source: EditSource, said: Said) -> Iterator[str]:
    """Exchange left and right, or in front and behind."""
    for word, opposite in OPPOSITE.items():
        if re.search(rf"\b{word}\b", said.relation):
            yield replace(said, relation=re.sub(rf"\b{word}\b", opposite, said.relation)).text
            return


def other_landmark(source: EditSource, said: Said) -> Iterator[str]:
    """Replace one word for an attribute of the landmark."""
    for old in source.shuffled(said.landmark.split()):
        for name in ATTRIBUTES:
            for value in source.shuffled([*SYNONYMS[name]]) if _value(name, old) else ():
                if value != _value(name, old):
                    new = _word(source, value, name)
                    yield replace(said, landmark=re.sub(rf"\b{old}\b", new, said.landmark)).text


def exchanged_objects(source: EditSource, said: Said) -> Iterator[str]:
    """Exchange subject and landmark."""
    if said.relation:
        yield f"{said.landmark} that is {said.relation} {said.phrase} {said.verb} {said.value}".rstrip()


def other_value(source: EditSource, said: Said) -> Iterator[str]:
    """State another new colour or material."""
    if said.kind in CHANGED:
        yield from (replace(said, value=word).text for word in _other_words(source, said, CHANGED[said.kind]))


def exchanged_values(source: EditSource, said: Said) -> Iterator[str]:
    """Exchange the old and the new colour or material."""
    name = CHANGED.get(said.kind, "")
    if name and getattr(said, name):
        yield replace(said, value=getattr(said, name), **{name: said.value}).text


def exchanged_images(source: EditSource, said: Said) -> Iterator[str]:
    """Describe the images in the other order; a move is the same in both orders."""
    opposite = {"add": "drop", "drop": "add"}.get(said.kind)
    for verb in source.shuffled(BEGINNINGS[opposite]) if opposite else ():
        yield replace(said, verb=verb).text
    yield from exchanged_values(source, said)


def cut_off(source: EditSource, said: Said) -> Iterator[str]:
    yield said.subject


def second_change(source: EditSource, said: Said) -> Iterator[str]:
    """Add a change of another object, which did not happen."""
    for item in source.random.sample([*_objects(source.pair)], len(_objects(source.pair))):
        verb = source.random.choice([verb for verb in VERB_PHRASES if VERB_PHRASES[verb] != said.kind])
        phrase = f"the {_word(source, item.size, 'size')} {item.color} {_word(source, item.shape, 'shape')}"
        if not said.value or said.value not in verb:
            yield f"{said.text} and {phrase} {verb}"


def from_elsewhere(source: EditSource, said: Said) -> Iterator[str]:
    yield from source.shuffled(source.elsewhere[:50])


def false_alarm(source: EditSource, said: Said) -> Iterator[str]:
    """State a change of an object of an unchanged pair."""
    for item in source.random.sample([*_objects(source.pair)], len(_objects(source.pair))):
        verb = source.random.choice([*VERB_PHRASES])
        if verb.split()[-1] not in (item.color, item.material):
            yield f"the {item.size} {item.color} {item.material} {item.shape} {verb}"


def not_denied(source: EditSource, said: Said) -> Iterator[str]:
    """Say that something changed, in the words of a sentence of no change."""
    if source.caption in NOT_DENIED:
        yield NOT_DENIED[source.caption]


def same(source: EditSource, said: Said) -> Iterator[str]:
    yield source.caption


def synonyms(source: EditSource, said: Said) -> Iterator[str]:
    """Replace each word by a synonym, and the verb by another verb of the same change."""
    parts = {name: _synonym(source, getattr(said, name), name) for name in ATTRIBUTES if getattr(said, name)}
    value = _synonym(source, said.value, CHANGED[said.kind]) if said.value else ""
    for verb in source.shuffled(BEGINNINGS[said.kind]):
        if verb != said.verb and f"{verb} {value}".strip() in VERB_PHRASES:
            yield replace(said, verb=verb, value=value, **parts).text


def british(source: EditSource, said: Said) -> Iterator[str]:
    """Use British spelling."""
    text = source.caption
    for american, own in BRITISH.items():
        text = re.sub(rf"\b{american}\b", own, text)
    if text != source.caption:
        yield text


def paraphrase(source: EditSource, said: Said) -> Iterator[str]:
    """Say the same in a form that the grammar lacks."""
    for form in source.shuffled(PARAPHRASES[said.kind]):
        yield form.format(subject=said.subject, value=said.value)


def active(source: EditSource, said: Said) -> Iterator[str]:
    """Use the active voice. A place would be read as the goal of "someone moved", so it is left as it is."""
    if not (said.kind == "move" and said.relation):
        yield ACTIVE[said.kind].format(said.subject, value=said.value)


def word_order(source: EditSource, said: Said) -> Iterator[str]:
    """Reverse the order of the adjectives."""
    adjectives = [*filter(None, (said.size, said.color, said.material))]
    if len(adjectives) > 1:
        yield source.caption.replace(" ".join(adjectives), " ".join(reversed(adjectives)), 1)


def written(source: EditSource, said: Said) -> Iterator[str]:
    yield f"{source.caption[:1].upper()}{source.caption[1:]}."


def introduced(source: EditSource, said: Said) -> Iterator[str]:
    yield INTRODUCTION.format(source.caption)


def nothing_else(source: EditSource, said: Said) -> Iterator[str]:
    yield NOTHING_ELSE.format(source.caption)


def another_reference(source: EditSource, said: Said) -> Iterator[str]:
    yield from source.others[:1]


def other_sentence(source: EditSource, said: Said) -> Iterator[str]:
    yield from source.shuffled(PARAPHRASES[NO_CHANGE])


EDITS = (
    *(kind_edit(kind) for kind in KINDS),
    Edit("missed change", missed, True, faults=frozenset(SILENT)),
    Edit("change denied", denied, True),
    Edit("another object", other_object, True, faults=frozenset("zcmso"), needs_scene=True),
    *(attribute_edit(name) for name in ("color", "material", "shape", "size")),
    Edit("relation", other_relation, True, faults=frozenset(RELATION + ANOTHER)),
    Edit("landmark", other_landmark, True, faults=frozenset(RELATION + ANOTHER)),
    Edit("subject and landmark exchanged", exchanged_objects, True, faults=ANY),
    Edit("new value", other_value, True, faults=frozenset(VALUE)),
    Edit("old and new value exchanged", exchanged_values, True, faults=frozenset("cmov")),
    Edit("before and after exchanged", exchanged_images, True, faults=frozenset("kcmov")),
    Edit("second, invented change", second_change, True, needs_scene=True),
    Edit("cut off before the verb", cut_off, True),
    Edit("caption of another pair", from_elsewhere, True, faults=ANY),
    Edit("unchanged: false alarm", false_alarm, True, of_changed=False, needs_scene=True),
    Edit("unchanged: change for no change", not_denied, True, of_changed=False),
    Edit("same words", same, False),
    Edit("capital and full stop", written, False),
    Edit("British spelling", british, False),
    Edit("synonyms", synonyms, False),
    Edit("word order", word_order, False),
    Edit("active voice", active, False),
    Edit("paraphrase", paraphrase, False),
    Edit("introduction", introduced, False),
    Edit("nothing else has changed", nothing_else, False),
    Edit("another reference", another_reference, False),
    Edit("unchanged: another reference", another_reference, False, of_changed=False),
    Edit("unchanged: paraphrase", other_sentence, False, of_changed=False),
)
"""All edits. Several edits of one name are one row of the table."""


def _objects(pair: Pair) -> Sequence[Placed]:
    """Return the objects that did not change."""
    assert pair.scene is not None
    return [item for item in pair.scene.before if item.number != pair.scene.changed]


def _value(name: str, word: str) -> str | None:
    return MEANINGS[name].get(word)


def _word(source: EditSource, value: str, name: str) -> str:
    return source.random.choice(SYNONYMS[name][value])


def _other_words(source: EditSource, said: Said, name: str) -> list[str]:
    """Return words for the values of an attribute that the caption names neither as old nor as new value."""
    named = {_value(name, getattr(said, name)), _value(name, said.value)}
    values = [value for value in SYNONYMS[name] if value not in named]
    return [_word(source, value, name) for value in source.shuffled(values)]


def _values(source: EditSource, said: Said, kind: str) -> list[str]:
    """Return words for the new value of a change of this kind; [""] if the kind has none."""
    if kind not in CHANGED:
        return [""]
    name = CHANGED[kind]
    own = _value(name, getattr(said, name))
    values = [value for value in SYNONYMS[name] if value != own]
    return [_word(source, value, name) for value in source.shuffled(values)]


def _synonym(source: EditSource, word: str, name: str) -> str:
    """Return another word for the same value; the word itself if there is none."""
    others = [other for other in SYNONYMS[name].get(_value(name, word) or "", ()) if other != word]
    return source.random.choice(others) if others else word
