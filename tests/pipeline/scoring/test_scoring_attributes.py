"""Reading captions back to the truth of the scene that the grammar wrote them about."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.datasets.schema import ChangedObject, Look, Pair
from pipeline.scoring.accuracy import attributes, read
from pipeline.tabletop import changes, grammar, scenes
from pipeline.tabletop.scenes import Scene, Thing, View
from pipeline.tabletop.words import COLORS, MATERIALS, MEANINGS, SHAPES, SIZES

KINDS = {"color": "color", "material": "texture", "add": "add", "drop": "drop", "move": "move"}
numbers = st.integers(0, 2**31 - 1)


@st.composite
def drawn(draw: st.DrawFn) -> tuple[Scene, Look, list[str]]:
    """A scene of any looks and places, the look that its captions speak of, and the captions."""
    looks = st.tuples(*map(st.sampled_from, (SIZES, tuple(COLORS), MATERIALS, SHAPES)))
    places = st.floats(-3, 3)
    chosen = draw(st.lists(looks, min_size=2, max_size=6, unique=True))
    things = tuple(Thing(n, *look, draw(places), draw(places), 0.0) for n, look in enumerate(chosen[:-1]))
    kind = draw(st.sampled_from(changes.CHANGE_TYPES))
    changed, others = things[0], things[1:]
    # the spare look is what a recoloured or remade thing turns into
    _, color, material, _ = chosen[-1]
    turned = Thing(0, changed.size, color, material, changed.shape, changed.x, changed.y, 0.0)
    after = {"add": things, "drop": others}.get(kind, (turned, *others))
    view = View(scenes.CAMERA, scenes.LIGHTS)
    scene = Scene(0, kind, 0, others if kind == "add" else things, after, view, view, view)
    captions = grammar.change_captions(scene, np.random.default_rng(draw(numbers)))
    return scene, Look(*changed.look), captions


@settings(max_examples=200)
@given(drawn())
def test_every_caption_of_the_grammar_is_read_back(case: tuple[Scene, Look, list[str]]) -> None:
    scene, look, captions = case
    for caption in captions:
        said, looks = read(caption)
        assert said == KINDS[scene.change_type]
        subject = caption.split(" that is ")[0]
        for attribute, named in looks.items():
            assert named <= {getattr(look, attribute)}, (attribute, caption)
            said = any(word in subject.split() for word in MEANINGS[attribute])
            # the new colour or material stands in the same clause where there is no relation
            assert named or not said or attribute == scene.change_type, (attribute, caption)


@pytest.mark.parametrize(
    ("caption", "kind", "look"),
    [
        (
            " The  BIG shiny ball has been moved .",
            "move",
            {"size": "large", "material": "metal", "shape": "sphere"},
        ),
        ("the red thing turned matte", "texture", {"color": "red"}),
        ("the red thing turned blue", "color", {"color": "red"}),
        ("the object that is behind the tiny red cube is gone", "drop", {}),
        ("the red block turned", None, {"color": "red", "shape": "cube"}),
        ("a cube has been added somewhere", None, {"shape": "cube"}),
        ("red green", None, {}),
        ("", None, {}),
    ],
)
def test_a_reading(caption: str, kind: str | None, look: dict[str, str]) -> None:
    said, looks = read(caption)
    assert said == kind
    assert {name: set(values) for name, values in looks.items() if values} == {
        name: {value} for name, value in look.items()
    }


def pair(number: int, kind: str, changed: ChangedObject | None) -> Pair:
    return Pair(f"{number}", f"{number}", "test", "a.png", "b.png", ("x",), kind, changed_object=changed)


CUBE, BALL = Look("large", "red", "metal", "cube"), Look("small", "blue", "rubber", "sphere")
PAIRS = [
    pair(1, "move", ChangedObject(CUBE, CUBE)),
    pair(2, "add", ChangedObject(None, BALL)),
    pair(3, "drop", ChangedObject(BALL, None)),
    pair(4, "color", ChangedObject(CUBE, BALL)),
    pair(5, "none", None),
    pair(6, "move", None),
]


def test_accuracy_counts_what_is_named() -> None:
    captions = {
        "1": "the red cube has been moved",  # all right
        "2": "the red ball is gone",  # the type and the colour are wrong
        "3": "there is no change",  # the type is wrong, nothing is named
        "4": "the red blue block turned green",  # a second colour makes the colour wrong
        "5": "the big cube is gone",  # no change pair
        "6": "the big cube is gone",  # nothing is known of it
    }
    expected = {"type": 2 / 4, "size": None, "color": 1 / 3, "material": None, "shape": 1.0}
    assert attributes(captions, PAIRS) == expected


def test_where_no_scene_is_known_there_is_no_accuracy() -> None:
    assert attributes({"5": "the big cube is gone", "6": "the cube is gone"}, PAIRS[4:]) == {}
