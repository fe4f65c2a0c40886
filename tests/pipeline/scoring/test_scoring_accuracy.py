"""Change accuracy, and the accuracy of attributes."""

import pytest

from pipeline.datasets.schema import ChangedObject, Look, Pair
from pipeline.judging.references import joint
from pipeline.judging.strict import Sentence
from pipeline.scoring.accuracy import attributes, right, share
from pipeline.tabletop.words import MEANINGS
from tests.tabletop_pairs import draw_pairs


def test_change_accuracy() -> None:
    captions = {"1": "no change", "2": "no change", "3": "the ball moved", "4": "the ball moved", "5": ""}
    changed = {"1": False, "2": True, "3": True, "4": None, "5": True}
    found = [right(captions[key], changed[key]) for key in captions]
    assert found == [True, False, True, None, True]
    assert share(found) == 3 / 4
    assert share([None, None]) is None


def test_every_caption_of_the_grammar_is_read_back() -> None:
    for pair in (pair for pair in draw_pairs(seed=3, count=100) if pair.changed):
        look = pair.changed_object.before or pair.changed_object.after
        for caption in pair.captions:
            claim = Sentence.of(caption).claim
            assert claim.changes == {pair.change_type}
            subject = caption.split(" that is ")[0]
            for attribute in MEANINGS:
                named = {value for name, value in claim.subject.look if name == attribute}
                assert named <= {getattr(look, attribute)}, (attribute, caption)
                said = any(word in subject.split() for word in MEANINGS[attribute])
                # without a relation, the new colour or material is in the same clause
                new = {"color": "color", "texture": "material"}.get(pair.change_type)
                assert named or not said or attribute == new, (attribute, caption)


@pytest.mark.parametrize(
    ("caption", "kind", "look"),
    [
        (" The  BIG shiny thing has been moved .", "move", {"size": "large", "material": "metal"}),
        ("the red thing turned matte", "texture", {"color": "red"}),
        ("the red thing turned blue", "color", {"color": "red"}),
        ("the object that is behind the tiny red cube is gone", "drop", {}),
        ("the red block turned", None, {"color": "red", "shape": "cube"}),
        ("a cube has been added somewhere", "add", {"shape": "cube"}),
        ("red green", "none", {}),
        ("", "none", {}),
    ],
)
def test_a_reading(caption: str, kind: str | None, look: dict[str, str]) -> None:
    said = joint([Sentence.of(caption).claim])
    assert said.kinds == ({kind} if kind else set())
    assert said.look == {name: {value} for name, value in look.items()}


def pair(number: int, kind: str, changed: ChangedObject | None) -> Pair:
    return Pair(f"{number}", f"{number}", "test", "a.png", "b.png", ("x",), kind, changed_object=changed)


def test_accuracy_of_what_is_named() -> None:
    cube, ball = Look("large", "red", "metal", "cube"), Look("small", "blue", "rubber", "sphere")
    objects = {"move": (cube, cube), "add": (None, ball), "drop": (ball, None), "color": (cube, ball)}
    pairs = [pair(n, kind, ChangedObject(*own)) for n, (kind, own) in enumerate(objects.items())]
    unknown = [pair(4, "none", None), pair(5, "move", None)]
    captions = {
        "0": "the red cube has been moved",  # all right
        "1": "the red ball is gone",  # wrong type and colour
        "2": "there is no change",  # wrong type, nothing else is named
        "3": "the red blue block turned green",  # two colours are wrong
        "4": "the big cube is gone",
        "5": "the big cube is gone",
    }
    expected = {"type": 2 / 4, "size": None, "color": 1 / 3, "material": None, "shape": 1.0}
    assert attributes(captions, [*pairs, *unknown]) == expected
    assert attributes(captions, unknown) == {}
