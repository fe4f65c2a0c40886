"""Captions that report no change, and change accuracy."""

import pytest

from pipeline.scoring.accuracy import right, says_no_change, share

PHRASES = ("no change", "no difference", "the same as before")


@pytest.mark.parametrize(
    ("caption", "none"),
    [
        ("there is No \t\n Change", True),
        ("no changes were made", True),
        ("the scene is THE SAME  as before.", True),
        ("there is no difference", True),
        ("There are no visible differences", True),
        ("I don't see any change", True),
        ("I don’t notice any obvious changes", True),
        ("one cannot see any difference between them", True),
        ("the two images do not show any differences", True),
        ("there is no other ball", False),
        ("I see any change", False),
        ("the knot sees any change", False),
        ("the piano changed its colour", False),
        ("the ball moved", False),
        ("", False),
    ],
)
def test_says_no_change(caption: str, none: bool) -> None:
    assert says_no_change(caption, PHRASES) is none


def test_variants_belong_to_a_phrase_of_the_settings() -> None:
    assert not says_no_change("I don't see any change", ("no difference", "nothing"))


def test_a_phrase_is_text_not_a_pattern() -> None:
    assert not says_no_change("anything", ("a.y",))
    assert says_no_change("x A.Y z", ("a.y",))


def test_change_accuracy() -> None:
    captions = {"1": "no change", "2": "no change", "3": "the ball moved", "4": "the ball moved", "5": ""}
    changed = {"1": False, "2": True, "3": True, "4": None, "5": True}
    found = [right(captions[key], changed[key], PHRASES) for key in captions]
    assert found == [True, False, True, None, True]
    assert share(found) == 3 / 4
    assert share([None, None]) is None
