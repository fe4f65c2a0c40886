"""Whether a caption says rightly that something changed; and the subsets of pairs."""

import pytest

from pipeline import params
from pipeline.datasets.schema import Pair
from pipeline.scoring.accuracy import change_accuracy, says_no_change
from pipeline.scoring.subsets import subsets

PHRASES = ("no change", "no difference", "the same as before")


@pytest.mark.parametrize(
    ("caption", "none"),
    [
        ("there is No \t\n Change", True),
        ("no changes were made", True),
        ("the scene is THE SAME  as before.", True),
        ("there is no difference", True),
        ("the piano changed its colour", False),
        ("the ball moved", False),
        ("", False),
    ],
)
def test_says_no_change(caption: str, none: bool) -> None:
    assert says_no_change(caption, PHRASES) is none


def test_a_phrase_is_text_not_a_pattern() -> None:
    assert not says_no_change("anything", ("a.y",))
    assert says_no_change("x A.Y z", ("a.y",))


@pytest.mark.parametrize(
    "caption", ["no change was made", "nothing has changed", "the scene remains the same"]
)
def test_the_usual_sentences_are_known(caption: str, request: pytest.FixtureRequest) -> None:
    settings = params.load(request.config.rootpath / "params.yaml").score
    assert says_no_change(caption, settings.no_change_phrases)


def test_accuracy_is_over_what_is_known() -> None:
    captions = {"1": "no change", "2": "no change", "3": "the ball moved", "4": "the ball moved", "5": ""}
    changed = {"1": False, "2": True, "3": True, "4": None, "5": True}
    assert change_accuracy(captions, changed, PHRASES) == 3 / 4


def test_accuracy_is_none_where_nothing_is_known() -> None:
    assert change_accuracy({"1": "a"}, {"1": None}, PHRASES) is None


def pair(name: str, kind: str | None) -> Pair:
    return Pair(name, name, "test", "before.png", "after.png", ("a",), kind)


def test_subsets_are_those_that_have_pairs() -> None:
    pairs = [pair("1", "move"), pair("2", "none"), pair("3", "color"), pair("4", None), pair("5", "color")]
    assert subsets(pairs) == {
        "change": ["1", "3", "5"],
        "no_change": ["2"],
        "color": ["3", "5"],
        "move": ["1"],
    }
    assert subsets([pair("1", None)]) == {}
