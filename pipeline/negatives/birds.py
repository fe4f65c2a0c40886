"""Make negatives of descriptions of birds: Birds-to-Words (two birds, animal1 and animal2), CUB (one bird).

The datasets have no labels, so a description cannot be proved wrong. It counts as wrong if its claims
contradict the references' claims. A claim gives a value, for example a colour, to a part of a bird. The
parser of claims uses only the order of words. An adjective belongs to the next part in its clause. If
no part follows, it belongs to the previous part ("its beak is red"). In a clause without parts, it belongs to
the whole bird. Clauses with a negation are ignored.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, groupby
from typing import NamedTuple

import numpy as np

from pipeline.datasets.schema import Pair
from pipeline.negatives.geometric import MOST, Index, drawn, plain
from pipeline.text import vocabularies


class Meaning(NamedTuple):
    """Entry of the lexicon for a word.

    "blackish" has the class (`kind`) "color", the ending "ish" and the value 0, like its synonym "black".
    """

    kind: str  # the class: a key of CLASSES
    ending: str
    value: int  # position of the value within its class; synonyms have the same value


CLASSES: dict[str, dict[str, str]] = {
    "color": {
        "": "black, white, gray grey silver, brown tan beige, red, orange, yellow golden, green, blue, "
        "purple, pink",
        "ish": "blackish, whitish, grayish greyish, brownish, reddish, orangish, yellowish, greenish, "
        "bluish, purplish, pinkish",
    },
    "part": {
        "": "beak bill, neck throat nape, breast chest belly abdomen, head crown cheek face cap, back, wing, "
        "tail, leg foot, eye",
        "s": "beaks bills, necks throats, breasts chests bellies, heads crowns cheeks faces, backs, "
        "wings, tails, legs feet, eyes",
    },
    "pattern": {
        "": "spot speckle, stripe streak bar, patch",
        "s": "spots speckles, stripes streaks bars, patches",
        "ed": "spotted speckled mottled, striped streaked barred, patched",
        "ing": "spotting speckling mottling, striping streaking barring, patching",
    },
    "size": {"": "large big, small tiny", "er": "larger bigger, smaller"},
    "length": {"": "long, short", "er": "longer, shorter"},
    "build": {
        "": "thin slender skinny, thick round plump stocky fat",
        "er": "thinner skinnier, thicker rounder plumper stockier fatter",
    },
    "curve": {"": "pointed, curved hooked", "er": "straighter, curvier"},
    "shade": {"": "dark, light pale bright", "er": "darker, lighter paler brighter"},
}
"""All known words: class -> ending -> text. A text lists values, separated by commas.

The words of one value are synonyms, separated by spaces. Two words have different values only if they exclude
each other. Thus beak and bill are one value. Head and crown are one value too, because a bird with a white
crown has a white head. Tufts, crests and feathers are not parts, because they are on other parts.
"""
MEANING = {
    word: Meaning(kind, ending, number)
    for kind, endings in CLASSES.items()
    for ending, values in endings.items()
    for number, words in enumerate(values.split(", "))
    for word in words.split()
}
SIBLINGS = {
    own: [word for word, meaning in MEANING.items() if meaning[:2] == own]
    for own in {meaning[:2] for meaning in MEANING.values()}
}
"""Words that can replace each other: (class, ending) -> words."""
WORD = re.compile(r"[^\W\d_]+", re.ASCII)
ANIMAL = re.compile(r"\banimal([12])\b")
REPLACED = 3  # maximum number of replaced words per caption
ALIKE = ({"both"}, {"similar"}, {"same"}, {"no", "differences"})
"""Sets of words. A caption with all words of such a set stays true if the two animals are exchanged."""
TOKEN = re.compile(r"[a-z]+[12]?|[.,;]", re.IGNORECASE)
BREAKS = {".", ",", ";", "while", "but", "and", "which", "than", "with", "whereas", "compared"}
# words whose clause is ignored; "t" is the end of "doesn't"
DENIED = {"no", "not", "without", "lacks", "lack", "similar", "same", "neither", "nor", "t"}
ANIMALS = ("animal1", "animal2")
WHOLE = -1  # number of the whole bird, in place of a part's number

Key = tuple[str, int, str]
"""Animal, part, and class of a claimed value."""
Claims = Mapping[Key, frozenset[int]]
"""Claims: (animal, part, class) -> values that are claimed."""


def of_captions(captions: Iterable[str]) -> Claims:
    """Return the claims of several captions: (animal, part, class such as "color") -> values.

    A part or a value is a number, the field `value` of Meaning. The number WHOLE is the whole bird.
    """
    claims: dict[Key, frozenset[int]] = {}
    for caption in captions:
        for key, value in _claims(caption):
            claims[key] = claims.get(key, frozenset()) | {value}
    return claims


def contradicts(candidate: str, truth: Claims) -> bool:
    """Return True if, for a part and a class such as colours, both give values, but none in common."""
    claims = of_captions([candidate])
    return any(key in truth and not values & truth[key] for key, values in claims.items())


def _claims(caption: str) -> Iterator[tuple[Key, int]]:
    animals: tuple[str, ...] = ("",)  # CUB's captions describe one bird, and do not name it
    for clause in _clauses(caption):
        named = tuple(name for name in ANIMALS if name in clause)
        animals = ANIMALS if "both" in clause else named[:1] or animals
        if not DENIED & set(clause):
            yield from _claims_of_clause(clause, animals)


def _clauses(caption: str) -> list[list[str]]:
    words = TOKEN.findall(caption.lower())
    return [[*clause] for is_break, clause in groupby(words, BREAKS.__contains__) if not is_break]


def _claims_of_clause(clause: list[str], animals: tuple[str, ...]) -> Iterator[tuple[Key, int]]:
    part, values = WHOLE, []
    for word in clause:
        if word not in MEANING:
            continue
        kind, ending, value = MEANING[word]
        if kind != "part":
            # comparatives form a separate class, because "larger" does not mean "large"
            values.append((f"{kind}-{ending}" if ending == "er" else kind, value))
            continue
        part = value
        yield from _claimed(animals, part, values)
        values = []
    yield from _claimed(animals, part, values)


def _claimed(animals: tuple[str, ...], part: int, values: list[tuple[str, int]]) -> Iterator[tuple[Key, int]]:
    for kind, value in values:
        for animal in animals:
            yield (animal, part, kind), value
        if kind.endswith("-er") and len(animals) == 1 and animals[0] in ANIMALS:
            # comparatives have two values: if one animal is larger, the other animal is smaller
            yield (ANIMALS[1 - ANIMALS.index(animals[0])], part, kind), 1 - value


class Birds:
    """The captions of a split, from which the negatives (wrong captions) of its pairs are made.

    `index` finds similar captions by TF-IDF. It has at most MOST captions, drawn at random. `counts`
    has how often each word is in the training captions: the weights for drawing replacement words.
    """

    def __init__(self, pairs: Sequence[Pair], training: Sequence[str], rng: np.random.Generator):
        written = {plain(caption): caption for pair in pairs for caption in pair.captions}
        self.index = Index(drawn(sorted(written), MOST, rng))
        self.written = {text: written[text] for text in self.index.documents}
        self.counts = Counter(word for caption in training for word in _words(caption))

    def source(self, pair: Pair, references: Sequence[str], rng: np.random.Generator) -> "BirdSource":
        return BirdSource(self, references, rng)


class BirdSource:
    """Source of candidates for the negatives (wrong captions) of one pair.

    A method for each kind of negative yields candidates. The caller keeps those that the method `wrong`
    recognises as wrong. `certain` is False: a caption that `wrong` does not recognise may still be
    wrong. So, if too few negatives are found, the caller accepts captions of other pairs without this
    check.
    """

    certain = False

    def __init__(self, split: Birds, references: Sequence[str], rng: np.random.Generator):
        self._split, self._references, self._rng = split, references, rng
        self._named = {_value(word) for caption in references for word in _words(caption) if word in MEANING}
        self._claims = of_captions(references)

    def wrong(self, caption: str) -> bool:
        return contradicts(caption, self._claims)

    def retrieve(self, number: int) -> Iterator[str]:
        """Yield the split's captions, maybe also of this pair, from the most similar to a reference on."""
        reference = self._references[number % len(self._references)]
        ranked = self._split.index.ranked(vocabularies.tokenise(reference, lower_case=True))
        yield from (self._split.written[text] for text in ranked)

    def replace(self, number: int) -> Iterator[str | None]:
        """Yield references in turn with words replaced, but by no value that a reference names, or None."""
        for turn, caption in enumerate(self._turns(number)):
            yield self._replaced(caption, heaviest=turn < len(self._references))

    def confuse(self, number: int) -> Iterator[str | None]:
        """Yield references in turn with animal1 and animal2 exchanged; None if they stay true."""
        for caption in self._turns(number):
            is_alike = any(words <= set(_words(caption)) for words in ALIKE)
            yield None if is_alike else ANIMAL.sub(lambda match: f"animal{3 - int(match[1])}", caption)

    def _replaced(self, caption: str, heaviest: bool) -> str | None:
        matches = list(WORD.finditer(caption))
        words = [word[0].lower() for word in matches]
        weights = self._split.index.weights(words)
        indices = [index for index, word in enumerate(words) if word in MEANING]
        most_words = REPLACED
        if heaviest:
            indices.sort(key=lambda index: -weights[words[index]])
        else:
            # few words, because a new part with a new colour (red belly, white head) contradicts nothing
            indices = [indices[position] for position in self._rng.permutation(len(indices))]
            most_words = 1 + int(self._rng.integers(REPLACED))
        replacements: dict[int, str] = {}
        for index in indices:
            if len(replacements) < most_words and (word := self._other(words[index])) is not None:
                replacements[index] = word
        articles = {
            index - 1: "an" if word[0] in "aeiou" else "a"
            for index, word in replacements.items()
            if words[index - 1] in ("a", "an")
        }
        new = {matches[index].start(): word for index, word in (articles | replacements).items()}
        return WORD.sub(lambda word: new.get(word.start(), word[0]), caption) if replacements else None

    def _other(self, word: str) -> str | None:
        """Draw a word to replace `word`; return None if no word is possible.

        The new word has the same class and the same ending as `word`. For example, "blackish" has the class
        "color" and the ending "ish". The new word's value (for example, the colour) is not in a reference.
        The probability of a word is proportional to its count in the training captions.
        """
        siblings = SIBLINGS[MEANING[word][:2]]
        counts = self._split.counts
        candidates = [other for other in siblings if _value(other) not in self._named and counts[other]]
        if not candidates:
            return None
        weights = np.array([counts[other] for other in candidates], dtype=float)
        return candidates[int(self._rng.choice(len(candidates), p=weights / weights.sum()))]

    def _turns(self, number: int) -> Iterator[str]:
        yield from (self._references[turn % len(self._references)] for turn in count(number))


def _words(caption: str) -> list[str]:
    return [match[0].lower() for match in WORD.finditer(caption)]


def _value(word: str) -> tuple[str, int]:
    return MEANING[word].kind, MEANING[word].value
