"""Truth by the scenes: every reference is true, every negative false, and a plain twin judges alike."""

import cmath
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.datasets.schema import Pair, Placed, SceneFacts
from pipeline.errors import InputError
from pipeline.negatives.generation import generate
from pipeline.scoring.attributes import MEANINGS, NOUNS, VALUES
from pipeline.scoring.truth import FAULTS, Verdict, judge
from pipeline.tabletop import words
from tests.tabletop_pairs import draw_pairs

NAMES = ("size", "color", "material", "shape")
NEW = {"color": "color", "texture": "material"}
SAID = {"texture": "material"}  # the schema's kind -> the grammar's
TRUE = Verdict(true=True, fits=True)


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return draw_pairs(seed=11, count=400)


def test_every_reference_is_true(pairs: list[Pair]) -> None:
    assert {pair.change_type for pair in pairs} == {*words.VERBS, "none", "texture"} - {"material"}
    for pair in pairs:
        for caption in pair.captions:
            assert judge(caption, pair) == TRUE, (caption, pair)


def test_no_negative_is_true(pairs: list[Pair]) -> None:
    """Each of the six of every pair is made false on purpose, and still a sentence of the grammar."""
    own = {pair.pair_id: pair for pair in pairs}
    judged = 0
    for each in generate("geometric", pairs, seed=3):
        for negative in each.negatives:
            verdict = judge(negative.caption, own[each.pair_id])
            assert verdict is not None
            assert not verdict.true
            assert not verdict.fits
            assert verdict.wrong
            assert verdict.wrong in negative.caption
            assert (verdict.wrong == negative.caption) == (negative.caption in words.NO_CHANGE)
            judged += 1
    assert judged == 6 * len(pairs)


def test_of_another_scene_hardly_anything_is_true(pairs: list[Pair]) -> None:
    """The test above would pass with a judge that hears only references: this one would not."""
    changes = [pair for pair in pairs if pair.changed]
    shifted = zip(changes, changes[5:], strict=False)
    found = [judge(caption, other) for pair, other in shifted for caption in pair.captions]
    right = sum(verdict is not None and verdict.true for verdict in found)
    assert 0 < right < len(found) / 20


class Twin:
    """A made-up statement as values, not words, and whether it is true: the definition once more."""

    def __init__(self, pair: Pair, chance: random.Random):
        assert pair.scene is not None
        assert pair.change_type is not None
        scene, self.kind = pair.scene, pair.change_type
        added = self.kind == "add"
        self.things = scene.after if added else scene.before
        self.camera = scene.after_camera if added else scene.before_camera
        self.changed = next(thing for thing in self.things if thing.number == scene.changed)
        after = [thing for thing in scene.after if thing.number == scene.changed]
        # mostly of the thing itself, so that truth is no rare chance
        self.subject = self.named(
            self.changed if chance.random() < 0.8 else chance.choice(self.things), chance
        )
        self.relation = chance.choice(("right", "left", "behind", "front")) if chance.random() < 0.6 else None
        self.other = self.named(chance.choice(self.things), chance)
        self.said = self.kind if chance.random() < 0.8 else chance.choice(("add", "drop", "move", "color"))
        new = NEW.get(self.said)
        self.value = chance.choice(VALUES[new]) if new else None
        if new and after and chance.random() < 0.8:
            self.value = getattr(after[0], new)
        self.right_value = new is None or (bool(after) and self.value == getattr(after[0], new))

    def named(self, thing: Placed, chance: random.Random) -> dict[str, str]:
        return {name: getattr(thing, name) for name in NAMES if chance.random() < 0.5}

    def sides(self, thing: Placed, other: Placed) -> set[str]:
        """The table turned until the camera looks along the real axis."""
        ahead = -complex(*self.camera[:2])
        step = complex(thing.x - other.x, thing.y - other.y) * cmath.exp(-1j * cmath.phase(ahead))
        deep = {"behind"} if step.real >= 0.2 else {"front"} if step.real <= -0.2 else set()
        wide = {"left"} if step.imag >= 0.2 else {"right"} if step.imag <= -0.2 else set()
        return deep | wide

    def meant(self) -> list[Placed]:
        found = []
        for thing in self.things:
            like = all(getattr(thing, name) == value for name, value in self.subject.items())
            others = [
                other
                for other in self.things
                if other.number != thing.number
                and all(getattr(other, name) == value for name, value in self.other.items())
                and self.relation in self.sides(thing, other)
            ]
            if like and (self.relation is None or others):
                found.append(thing)
        return found

    def faults(self) -> set[str]:
        """The definition once more, each part by itself."""
        letters = {"size": "z", "color": "c", "material": "m", "shape": "s"}
        found = {
            letters[name] for name, value in self.subject.items() if getattr(self.changed, name) != value
        }
        others = [other for other in self.things if other.number != self.changed.number]
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
        told = self.said == self.kind and self.right_value
        return told and self.meant() == [self.changed], told and self.changed in self.meant()

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


def test_a_plain_twin_judges_alike(pairs: list[Pair]) -> None:
    chance = random.Random(5)
    seen = set()
    letters: set[str] = set()
    for pair in (pair for pair in pairs if pair.changed):
        for _ in range(40):
            twin = Twin(pair, chance)
            sentence = twin.sentence(chance)
            verdict = judge(sentence, pair)
            assert verdict is not None
            assert (verdict.true, verdict.fits) == twin.verdict(), (sentence, pair)
            assert set(verdict.faults) == twin.faults(), (sentence, pair)
            assert list(verdict.faults) == [letter for letter in FAULTS if letter in verdict.faults]
            assert (verdict.wrong is None) == verdict.true
            assert verdict.true or f" {verdict.wrong} " in f" {sentence} "
            letters.update(verdict.faults)
            seen.add((pair.change_type, verdict.true, verdict.fits, twin.relation))
    every = {(kind, *own) for kind in (*words.VERBS, "texture") for own in ((True, True), (False, True))}
    every |= {(kind, False, False) for kind in (*words.VERBS, "texture")}
    assert letters == set(FAULTS) - {"n", "t", "g"}  # each is made at least once
    assert {key[:3] for key in seen} == {key for key in every if key[0] != "material"}
    assert len({key[3] for key in seen if key[1]}) == 5  # each relation, and none, in true ones


CUBE = Placed(0, "large", "red", "metal", "cube", 0.0, 0.0)
BALL = Placed(1, "small", "blue", "rubber", "sphere", 2.0, 0.0)
TWIN = Placed(2, "large", "red", "rubber", "cube", -2.0, 0.1)
TABLE = (CUBE, BALL, TWIN)
FROM_BELOW = (0.0, -10.0, 5.0)  # x grows to the right, y away
FROM_ABOVE = (0.0, 10.0, 5.0)  # the other way round


def pair_of(kind: str, after: tuple[Placed, ...], changed: int | None, before=TABLE) -> Pair:
    scene = SceneFacts(before, after, FROM_BELOW, FROM_ABOVE, changed)
    return Pair("7.png", "7", "test", "a.png", "b.png", ("x",), kind, scene=scene)


DROPPED = pair_of("drop", (BALL, TWIN), 0)
ADDED = pair_of("add", TABLE, 1, before=(CUBE, TWIN))
GREEN = pair_of("color", (replace(CUBE, color="green"), BALL, TWIN), 0)
MATTE = pair_of("texture", (CUBE, replace(BALL, material="metal"), TWIN), 1)
STILL = pair_of("none", TABLE, None)


@pytest.mark.parametrize(
    ("caption", "pair", "wrong"),
    [
        ("the metal cube has disappeared", DROPPED, None),
        (" The  METAL cube\u2028is gone .", DROPPED, None),
        (
            "the red cube that is left of the ball is missing",
            DROPPED,
            "the red cube that is left of the ball",
        ),
        ("the red cube that is right of the matte cube is missing", DROPPED, None),
        ("the shiny block that is to the left of the thing is gone", DROPPED, None),  # of the ball it is
        ("the cube is missing", DROPPED, "the cube"),
        ("the tiny metal ball is missing", DROPPED, "tiny"),
        ("the metal ball is missing", DROPPED, "ball"),
        ("the metal thing that is right of the ball is gone", DROPPED, "that is right of the ball"),
        (
            "the metal cube that is behind the ball is gone",
            DROPPED,
            "that is behind the ball",
        ),  # level with it
        ("the metal cube that is left of the cylinder is gone", DROPPED, "that is left of the cylinder"),
        ("the metal cube has been moved", DROPPED, "has been moved"),
        ("the metal cube turned green", DROPPED, "turned green"),
        ("there is no change", DROPPED, "there is no change"),
        ("the red metal cube", DROPPED, "the red metal cube"),
        ("metal cube is gone", DROPPED, "metal cube is gone"),
        ("the metal red cube is gone", DROPPED, "the metal red cube is gone"),
        ("the metal cube is gone is gone", DROPPED, "the metal cube is gone is gone"),
        ("the metal cubes is gone", DROPPED, "the metal cubes is gone"),
        ("the metal cube that is behind is gone", DROPPED, "the metal cube that is behind is gone"),
        ("", DROPPED, ""),
        ("the ball has been added", ADDED, None),
        ("the ball that is left of the metal cube has appeared", ADDED, None),  # the after picture's camera
        (
            "the ball that is right of the metal cube has appeared",
            ADDED,
            "that is right of the metal cube",
        ),
        ("the ball has disappeared", ADDED, "has disappeared"),
        ("the shiny cube turned green", GREEN, None),
        ("the shiny cube changed to blue", GREEN, "blue"),
        ("the red metal cube became red", GREEN, "became red"),  # which of both words, must be clear
        ("the green metal cube became green", GREEN, "green"),  # it was not yet
        ("the shiny cube turned rubber", GREEN, "turned rubber"),
        ("the ball became shiny", MATTE, None),
        ("the ball became metallic", MATTE, None),
        ("the ball became matte", MATTE, "matte"),
        ("the ball changed to metal", MATTE, "the ball changed to metal"),  # the grammar has no such
        ("there is no change", STILL, None),
        ("There is no change.", STILL, None),
        ("the ball has been moved", STILL, "has been moved"),
        ("a ball", STILL, "a ball"),
    ],
)
def test_a_verdict(caption: str, pair: Pair, wrong: str | None) -> None:
    verdict = judge(caption, pair)
    assert verdict is not None
    assert (verdict.true, verdict.wrong) == (wrong is None, wrong)
    alone = wrong is not None and wrong.startswith("the ") and wrong != caption
    assert verdict.fits == (verdict.true or alone)


@pytest.mark.parametrize(
    ("caption", "pair", "faults"),
    [
        ("the metal cube has disappeared", DROPPED, ""),
        ("the cube is missing", DROPPED, "a"),
        ("the tiny blue shiny ball has been moved", DROPPED, "kcsz"),  # no ball here is shiny
        ("the small blue ball is gone", DROPPED, "cszo"),  # all that is wrong, not the first word alone
        ("the metal ball is missing", DROPPED, "s"),
        ("the red cube that is right of the cylinder is missing", DROPPED, "r"),
        ("the red cube that is left of the metal cube is missing", DROPPED, "ro"),  # the other red one is
        ("the shiny cube changed to blue", GREEN, "v"),
        ("the rubber cube turned matte", GREEN, "kmo"),  # of another kind no new value is asked
        ("there is no change", DROPPED, "n"),
        ("the tiny thing is the same as before, nothing was modified", DROPPED, "n"),
        ("the red metal cube", DROPPED, "g"),
        ("the ball has been moved", STILL, "t"),
        ("a ball", STILL, "g"),
        ("there is no change", STILL, ""),
    ],
)
def test_all_that_is_false_is_told(caption: str, pair: Pair, faults: str) -> None:
    verdict = judge(caption, pair)
    assert verdict is not None
    assert verdict.faults == faults
    assert verdict.true == (faults == "")


def test_the_phrases_say_what_no_change_is() -> None:
    assert judge("I see no difference", STILL) == Verdict(False, False, "I see no difference", "g")
    assert judge("I see no difference", STILL, ["no difference"]) == TRUE
    assert judge("I see no difference", DROPPED, ["no difference"]).true is False  # type: ignore[union-attr]


def test_where_the_scene_is_unknown_nothing_is_judged() -> None:
    assert judge("the metal cube is gone", replace(DROPPED, scene=None)) is None
    assert judge("the metal cube is gone", replace(DROPPED, change_type=None)) is None


def test_a_scene_without_the_thing_that_changes_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"^pair 7\.png: object 0, .*wrong pictures; run `dvc repro prepare`"
    ):
        judge("the cube is gone", replace(DROPPED, change_type="move"))


VOCABULARY = sorted(
    {word for own in MEANINGS.values() for word in own}
    | NOUNS
    | {word for said in words.VERBS.values() for verb in said for word in verb.split()}
    | {"the", "that", "is", "right", "left", "of", "behind", "in", "front", "no", "change", "there"}
)
sentences = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from(VOCABULARY), max_size=12).map(" ".join),
    st.builds(
        "the {} {} {}".format,
        st.sampled_from(VOCABULARY),
        st.sampled_from(sorted(NOUNS)),
        st.one_of(
            st.sampled_from([f"{v}" for own in words.VERBS.values() for v in own]), st.text(max_size=9)
        ),
    ),
)


@given(sentences, st.sampled_from([DROPPED, ADDED, GREEN, MATTE, STILL]))
def test_any_text_is_judged_and_only_sentences_are_true(text: str, pair: Pair) -> None:
    verdict = judge(text, pair)
    assert verdict is not None
    assert verdict.fits or not verdict.true
    assert (verdict.wrong is None) == (verdict.faults == "") == verdict.true
    if verdict.true and pair is not STILL:
        spoken = text.lower().rstrip(" .\n").split()
        assert spoken[0] == "the"
        assert set(spoken) <= set(VOCABULARY) | {"right", "side", "on", "to"}
    if verdict.true and pair is STILL:
        assert any(said in " ".join(text.lower().split()) for said in words.NO_CHANGE)
