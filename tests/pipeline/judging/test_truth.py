"""Truth by the scenes: references are true, negatives false, and a reference implementation agrees."""

import cmath
import random

import pytest

from pipeline.datasets.schema import Pair, Placed
from pipeline.judging.strict import judge
from pipeline.judging.verdicts import FAULTS, Verdict
from pipeline.negatives.generation import generate
from pipeline.tabletop import words
from tests.tabletop_pairs import draw_pairs

NAMES = ("size", "color", "material", "shape")
NEW = {"color": "color", "texture": "material"}
SAID = {"texture": "material"}  # the schema's kind -> the grammar's
TRUE = Verdict(true=True, fits=True)


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return draw_pairs(seed=11, count=150)


def test_every_reference_is_true(pairs: list[Pair]) -> None:
    assert {pair.change_type for pair in pairs} == {*words.VERBS, "none", "texture"} - {"material"}
    for pair in pairs:
        for caption in pair.captions:
            assert judge(caption, pair) == TRUE, (caption, pair)


def test_no_negative_is_true(pairs: list[Pair]) -> None:
    """A pair has six negatives, which are sentences of the grammar."""
    own = {pair.pair_id: pair for pair in pairs}
    judged = 0
    for each in generate("geometric", pairs, seed=3):
        for negative in each.negatives:
            verdict = judge(negative.caption, own[each.pair_id])
            assert not verdict.true
            assert not verdict.fits
            assert verdict.wrong
            assert all(phrase in negative.caption for phrase in verdict.wrong)
            assert (verdict.wrong == (negative.caption,)) == (negative.caption in words.NO_CHANGE)
            judged += 1
    assert judged == 6 * len(pairs)


class Statement:
    """A made-up statement as values, not words, and a second implementation of its truth."""

    def __init__(self, pair: Pair, chance: random.Random):
        assert pair.scene is not None
        assert pair.change_type is not None
        scene, self.kind = pair.scene, pair.change_type
        added = self.kind == "add"
        self.objects = scene.after if added else scene.before
        self.camera = scene.after_camera if added else scene.before_camera
        self.changed = next(item for item in self.objects if item.number == scene.changed)
        after = [item for item in scene.after if item.number == scene.changed]
        # mostly of the changed object, so that many statements are true
        self.subject = self.named(
            self.changed if chance.random() < 0.8 else chance.choice(self.objects), chance
        )
        self.relation = chance.choice(("right", "left", "behind", "front")) if chance.random() < 0.6 else None
        self.other = self.named(chance.choice(self.objects), chance)
        self.said = self.kind if chance.random() < 0.8 else chance.choice(("add", "drop", "move", "color"))
        new = NEW.get(self.said)
        self.value = chance.choice([*words.SYNONYMS[new]]) if new else None
        if new and after and chance.random() < 0.8:
            self.value = getattr(after[0], new)
        self.right_value = new is None or (bool(after) and self.value == getattr(after[0], new))

    def named(self, item: Placed, chance: random.Random) -> dict[str, str]:
        return {name: getattr(item, name) for name in NAMES if chance.random() < 0.5}

    def sides(self, item: Placed, other: Placed) -> set[str]:
        """Relations after turning the table until the camera looks along the real axis."""
        ahead = -complex(*self.camera[:2])
        step = complex(item.x - other.x, item.y - other.y) * cmath.exp(-1j * cmath.phase(ahead))
        deep = {"behind"} if step.real >= 0.2 else {"front"} if step.real <= -0.2 else set()
        wide = {"left"} if step.imag >= 0.2 else {"right"} if step.imag <= -0.2 else set()
        return deep | wide

    def meant(self) -> list[Placed]:
        found = []
        for item in self.objects:
            like = all(getattr(item, name) == value for name, value in self.subject.items())
            others = [
                other
                for other in self.objects
                if other.number != item.number
                and all(getattr(other, name) == value for name, value in self.other.items())
                and self.relation in self.sides(item, other)
            ]
            if like and (self.relation is None or others):
                found.append(item)
        return found

    def faults(self) -> set[str]:
        """The faults, each by its own definition."""
        letters = {"size": "z", "color": "c", "material": "m", "shape": "s"}
        found = {
            letters[name] for name, value in self.subject.items() if getattr(self.changed, name) != value
        }
        others = [other for other in self.objects if other.number != self.changed.number]
        like = [o for o in others if all(getattr(o, name) == value for name, value in self.other.items())]
        if self.relation and not any(self.relation in self.sides(self.changed, other) for other in like):
            found.add("r")
        if found and self.meant():
            found.add("o")
        if self.said != self.kind:
            found.add("k")
        elif not self.right_value:
            found.add("v")
        return found or ({"a"} if self.meant() != [self.changed] else set())

    def verdict(self) -> tuple[bool, bool]:
        right = self.said == self.kind and self.right_value
        return right and self.meant() == [self.changed], right and self.changed in self.meant()

    def sentence(self, chance: random.Random) -> str:
        def phrase(look: dict[str, str]) -> str:
            spoken = [chance.choice(words.WORDS.get(value, (value,))) for value in look.values()]
            return " ".join(("the", *spoken, *(() if "shape" in look else (chance.choice(words.ANY_SHAPE),))))

        place = ""
        if self.relation:
            kinds = {"right": words.RIGHT, "left": words.LEFT, "behind": words.BEHIND, "front": words.FRONT}
            place = f" that is {chance.choice(kinds[self.relation])} {phrase(self.other)}"
        verb = chance.choice(words.VERBS[SAID.get(self.said, self.said)])
        value = chance.choice(words.WORDS.get(self.value, (self.value,))) if self.value else ""
        return f"{phrase(self.subject)}{place} {verb} {value}".strip()


def test_a_second_implementation_agrees(pairs: list[Pair]) -> None:
    chance = random.Random(5)
    seen = set()
    letters: set[str] = set()
    for pair in (pair for pair in pairs if pair.changed):
        for _ in range(25):
            statement = Statement(pair, chance)
            sentence = statement.sentence(chance)
            verdict = judge(sentence, pair)
            assert (verdict.true, verdict.fits) == statement.verdict(), (sentence, pair)
            assert set(verdict.faults) == statement.faults(), (sentence, pair)
            assert list(verdict.faults) == [letter for letter in FAULTS if letter in verdict.faults]
            assert (not verdict.wrong) == verdict.true
            assert all(f" {phrase} " in f" {sentence} " for phrase in verdict.wrong)
            letters.update(verdict.faults)
            seen.add((pair.change_type, verdict.true, verdict.fits, statement.relation))
    kinds = {*words.VERBS, "texture"} - {"material"}
    outcomes = [(True, True), (False, True), (False, False)]
    assert letters == set(FAULTS) - {"n", "t", "g"}
    assert {key[:3] for key in seen} == {(kind, *own) for kind in kinds for own in outcomes}
    assert len({key[3] for key in seen if key[1]}) == 5  # four relations, and no relation
