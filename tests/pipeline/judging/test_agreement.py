"""Agreement with references: true captions agree, made-up false ones do not."""

from dataclasses import replace

import pytest

from pipeline.datasets.schema import Pair
from pipeline.judging.strict import agrees
from pipeline.negatives.generation import generate
from pipeline.scoring.results import correctness
from tests.tabletop_pairs import draw_pairs

REFERENCES = (
    "the small red cube became green",
    "the red matte block that is behind the ball turned green .",
    "the small thing changed to green",
)
PAIR = Pair("7", "7", "test", "a", "b", REFERENCES, "color")


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return draw_pairs(seed=13, count=80)


@pytest.mark.parametrize("kinds_known", [True, False])
def test_every_reference_agrees_with_all_and_no_negative_does(pairs: list[Pair], kinds_known: bool) -> None:
    """CLEVR-DC does not say what changed."""
    given_pairs = pairs if kinds_known else [replace(pair, change_type=None) for pair in pairs]
    for pair in given_pairs:
        assert all(agrees(caption, pair) for caption in pair.captions)
    own = {pair.pair_id: pair for pair in given_pairs}
    for each in generate("geometric", given_pairs, seed=2):
        for negative in each.negatives:
            assert agrees(negative.caption, own[each.pair_id]) is False, (negative, each.captions)


@pytest.mark.parametrize(
    ("caption", "agreed"),
    [
        ("The TINY red matte cube turned green.", True),  # a reference names each
        ("the small metal cube turned green", False),  # of another material
        ("the large thing turned green", False),
        ("the thing turned green", True),
        ("the red cube turned blue", False),
        ("the red cube has been moved", False),
        ("the red cube turned metal", False),
        ("the red blue cube turned green", False),
        ("the red cube that is left of the cylinder turned green", True),  # places are not compared
        ("red cube turned green", False),
        ("the red cube", False),
        ("there is no change", False),
        ("", False),
    ],
)
def test_a_caption_against_references(caption: str, agreed: bool) -> None:
    assert agrees(caption, PAIR) is agreed


def test_an_attribute_that_no_reference_names_or_one_contradicts() -> None:
    pair = replace(PAIR, captions=("the cube is gone", "the red thing is gone", "the blue thing is gone"))
    pair = replace(pair, change_type="drop")
    assert agrees("the cube is gone", pair)
    assert agrees("the metal cube is gone", pair) is False
    assert agrees("the red cube is gone", pair) is False


def test_a_stated_kind_of_change_replaces_the_kinds_that_references_name() -> None:
    pair = replace(PAIR, captions=(*REFERENCES, "the small red cube has been moved"))
    assert agrees("the small red cube has been moved", pair) is False
    assert agrees("the small red cube has been moved", replace(pair, change_type=None))
    assert agrees("the small red cube became green", pair)


def test_no_change_is_reported_by_the_phrases() -> None:
    still = Pair("8", "8", "test", "a", "b", ("there is no change",), "none")
    for pair in (still, replace(still, change_type=None)):
        assert agrees("well, nothing happened", pair)
        assert agrees("gibberish", pair) is False
        assert agrees("the cube is gone", pair) is False
    assert agrees("the cube is gone", replace(still, captions=("the cube left",), change_type=None)) is None


def test_only_geometric_captions_without_scenes_have_it(pairs: list[Pair]) -> None:
    captions = {pair.pair_id: pair.captions[0] for pair in pairs}
    assert correctness(captions, pairs, "geometric").shares(captions) == {
        "true": 1.0,
        "fits": 1.0,
        "unreadable": 0.0,
    }
    bare = [replace(pair, scene=None) for pair in pairs]
    assert correctness(captions, bare, "geometric").shares(captions) == {
        "agrees": 1.0,
        "unreadable": 0.0,
    }
    assert correctness(captions, bare, "birds").shares(captions) == {}
    assert correctness(captions, bare).shares(captions) == {}
