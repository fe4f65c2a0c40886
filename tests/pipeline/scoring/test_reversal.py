"""Agreement of captions with the captions of the exchanged images."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.judging.references import JointClaims
from pipeline.scoring import reversal
from pipeline.scoring.metric_names import JUDGED
from pipeline.scoring.results import Correctness
from pipeline.scoring.reversal import Agreement, agreement, named
from pipeline.tabletop.words import COLORS, MATERIALS, SHAPES, SIZES

ALL, NOTHING = Agreement(True, True, True, True), Agreement(False, False, False, False)


@pytest.mark.parametrize(
    ("caption", "exchanged", "found"),
    [
        ("the small red ball turned blue", "the small blue sphere became red", ALL),
        ("the ball turned blue", "the blue sphere turned red", ALL),  # the first names no old colour
        ("the tiny red ball has appeared", "the small ball is no longer there", ALL),
        ("the red ball has been moved", "the red thing is in a different location", ALL),
        ("the big cube turned shiny", "the large metal block became matte", ALL),
        ("there is no change", "the scene remains the same", ALL),
        ("there is no change", "the red ball has been added", NOTHING),
        ("the red ball has been added", "the red ball has been added", Agreement(True, False, True, False)),
        ("the red ball is gone", "the blue ball has appeared", Agreement(True, True, False, False)),
        # the same kind and object; the exchanged images show another new colour as the old one
        ("the red ball turned blue", "the green ball turned red", Agreement(True, True, True, False)),
        # the ball was red, and then it was green
        ("the red ball turned blue", "the blue ball turned green", Agreement(True, True, False, False)),
        ("what", "what", Agreement(True, False, False, False)),
    ],
)
def test_agreement_of_two_captions(caption, exchanged, found):
    assert agreement(caption, exchanged) == found


def test_without_a_grammar_only_change_counts():
    assert agreement("a bird is gone", "two people", grammar=False) == Agreement(True)
    assert agreement("nothing happened", "two people", grammar=False) == Agreement(False)
    assert agreement("tout pareil", "tout pareil", True, {"tout pareil"}) == ALL


def values(options):
    return st.sampled_from([frozenset(), *(frozenset([option]) for option in options)])


@st.composite
def claims(draw):
    kind = draw(st.sampled_from(["add", "drop", "move", "color", "texture"]))
    options = {"size": SIZES, "color": tuple(COLORS), "material": MATERIALS, "shape": SHAPES}
    look = {name: draw(values(own)) for name, own in options.items()}
    changed = {"color": "color", "texture": "material"}.get(kind)
    value = {changed: frozenset([draw(st.sampled_from(options[changed]))])} if changed else {}
    return JointClaims(frozenset([kind]), {name: own for name, own in look.items() if own}, value)


@given(claims())
def test_a_change_reversed_twice_is_the_change(said):
    assert reversal.reverse(reversal.reverse(said)) == said


def test_shares_have_the_names_of_metrics():
    judged = dict.fromkeys(JUDGED)

    def shares(*agreements):
        pairs = {str(number): judged | named(found) for number, found in enumerate(agreements)}
        return Correctness(pairs, {}, {}).shares(pairs)

    assert shares() == {}
    assert shares(Agreement(True), Agreement(False)) == {"reversed_change": 0.5}
    names = "reversed_change", "reversed_kind", "reversed_object", "reversed_exact"
    found = shares(ALL, agreement("the ball is gone", "the ball is gone"))
    assert found == dict(zip(names, (1.0, 0.5, 1.0, 0.5), strict=True))
