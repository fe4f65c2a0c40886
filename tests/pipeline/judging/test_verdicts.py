"""Verdicts of captions on scenes written by hand: true or not, wrong words, and faults."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.datasets.schema import Pair, Placed, SceneFacts
from pipeline.io.errors import InputError
from pipeline.judging.claims import Claim, Phrase
from pipeline.judging.no_change import says_no_change
from pipeline.judging.scene import judged_by_scene
from pipeline.judging.strict import judge
from pipeline.judging.verdicts import Verdict
from pipeline.tabletop import words

TRUE = Verdict(true=True, fits=True)
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
WHOLE = "the whole caption"


@pytest.mark.parametrize(
    ("caption", "pair", "faults", "wrong"),
    [
        ("the metal cube has disappeared", DROPPED, "", ""),
        (" The  METAL cube\u2028is gone .", DROPPED, "", ""),
        ("the red cube that is right of the matte cube is missing", DROPPED, "", ""),
        ("the shiny block that is to the left of the thing is gone", DROPPED, "", ""),  # left of the ball
        ("the cube is missing", DROPPED, "a", "the cube"),
        (
            "the red cube that is left of the ball is gone",
            DROPPED,
            "a",
            "the red cube that is left of the ball",
        ),
        ("the tiny metal ball is missing", DROPPED, "sz", "tiny; ball"),
        ("the metal ball is missing", DROPPED, "s", "ball"),
        ("the tiny blue shiny ball has been moved", DROPPED, "kcsz", "tiny; blue; ball; has been moved"),
        ("the small blue ball is gone", DROPPED, "cszo", "small; blue; ball"),
        ("the metal thing that is right of the ball is gone", DROPPED, "r", "that is right of the ball"),
        # both have the same distance to the camera
        ("the metal cube that is behind the ball is gone", DROPPED, "r", "that is behind the ball"),
        ("the metal cube that is left of the cylinder is gone", DROPPED, "r", "that is left of the cylinder"),
        # the other red cube is left of the metal cube
        (
            "the red cube that is left of the metal cube is gone",
            DROPPED,
            "ro",
            "that is left of the metal cube",
        ),
        ("the metal cube has been moved", DROPPED, "k", "has been moved"),
        ("the metal cube turned green", DROPPED, "k", "turned green"),
        ("there is no change", DROPPED, "n", WHOLE),
        ("the tiny thing is the same as before, nothing was modified", DROPPED, "n", WHOLE),
        ("the red metal cube", DROPPED, "g", WHOLE),
        ("metal cube is gone", DROPPED, "g", WHOLE),
        ("the metal red cube is gone", DROPPED, "g", WHOLE),
        ("the metal cube is gone is gone", DROPPED, "g", WHOLE),
        ("the metal cubes is gone", DROPPED, "g", WHOLE),
        ("the metal cube that is behind is gone", DROPPED, "g", WHOLE),
        ("", DROPPED, "g", WHOLE),
        ("the ball has been added", ADDED, "", ""),
        (
            "the ball that is left of the metal cube has appeared",
            ADDED,
            "",
            (),
        ),  # as the after image shows it
        (
            "the ball that is right of the metal cube has appeared",
            ADDED,
            "r",
            "that is right of the metal cube",
        ),
        ("the ball has disappeared", ADDED, "k", "has disappeared"),
        ("the shiny cube turned green", GREEN, "", ""),
        ("the shiny cube changed to blue", GREEN, "v", "blue"),
        ("the red metal cube became red", GREEN, "v", "became red"),  # "red" alone could be either word
        ("the green metal cube became green", GREEN, "c", "green"),  # it was not green before
        ("the shiny cube turned rubber", GREEN, "k", "turned rubber"),
        ("the rubber cube turned matte", GREEN, "kmo", "rubber; turned matte"),
        (
            "the rubber cube that is left of the cylinder turned blue",
            GREEN,
            "mrv",
            "rubber; that is left of the cylinder; blue",
        ),
        ("the ball became shiny", MATTE, "", ""),
        ("the ball became metallic", MATTE, "", ""),
        ("the ball became matte", MATTE, "v", "matte"),
        ("the ball changed to metal", MATTE, "g", WHOLE),  # the grammar has no such sentence
        ("there is no change", STILL, "", ""),
        ("There is no change.", STILL, "", ""),
        ("the ball has been moved", STILL, "t", "has been moved"),
        ("a ball", STILL, "g", WHOLE),
        ("the large two scenes seem identical", STILL, "g", WHOLE),
        ("Nothing has changed, the ball, too.", STILL, "g", WHOLE),
    ],
)
def test_a_verdict(caption: str, pair: Pair, faults: str, wrong: str) -> None:
    phrases = (caption,) if wrong is WHOLE else tuple(wrong.split("; ")) if wrong else ()
    assert judge(caption, pair) == Verdict(faults == "", faults in ("", "a"), phrases, faults)


def test_no_change_is_reported_in_any_words() -> None:
    assert judge("I see no difference", STILL) == judge("the scene is unchanged", STILL) == TRUE
    said = "the scene is not the same"
    assert judge(said, STILL) == Verdict(False, False, (said,), "g")
    assert judge("I see no difference", DROPPED).faults == "n"  # type: ignore[union-attr]


def test_without_a_scene_there_is_no_verdict() -> None:
    assert judge("the metal cube is gone", replace(DROPPED, scene=None)) is None
    assert judge("the metal cube is gone", replace(DROPPED, change_type=None)) is None


def test_a_scene_without_the_object_that_changes_is_refused() -> None:
    with pytest.raises(InputError, match=r"^pair 7\.png: object 0, .*wrong images; run `dvc repro prepare`"):
        judge("the cube is gone", replace(DROPPED, change_type="move"))


VOCABULARY = sorted(
    {word for own in words.MEANINGS.values() for word in own}
    | words.NOUNS
    | {word for said in words.VERBS.values() for verb in said for word in verb.split()}
    | {"the", "that", "is", "right", "left", "of", "behind", "in", "front", "no", "change", "there"}
)
sentences = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from(VOCABULARY), max_size=12).map(" ".join),
    st.builds(
        "the {} {} {}".format,
        st.sampled_from(VOCABULARY),
        st.sampled_from(sorted(words.NOUNS)),
        st.one_of(
            st.sampled_from([f"{v}" for own in words.VERBS.values() for v in own]), st.text(max_size=9)
        ),
    ),
)


@given(sentences, st.sampled_from([DROPPED, ADDED, GREEN, MATTE, STILL]))
def test_any_text_is_judged_and_only_sentences_are_true(text: str, pair: Pair) -> None:
    verdict = judge(text, pair)
    assert verdict.fits or not verdict.true
    assert (not verdict.wrong) == (verdict.faults == "") == verdict.true
    if verdict.true and pair is not STILL:
        spoken = text.lower().rstrip(" .\n").split()
        assert spoken[0] == "the"
        assert set(spoken) <= set(VOCABULARY) | {"right", "side", "on", "to"}
    if verdict.true and pair is STILL:
        assert says_no_change(text)


@pytest.mark.parametrize(
    ("place", "direction", "faults"),
    [
        ((1.0, 0.0), "right", "r"),  # the second camera sees a move to the back
        ((1.0, 0.0), "behind", "r"),
        ((1.0, -1.0), "right", ""),
        ((-1.0, 1.0), "left", ""),
        ((-1.0, 1.0), "right", "r"),
    ],
)
def test_a_direction_of_a_move_holds_for_both_cameras(place, direction, faults):
    moved = replace(CUBE, x=place[0], y=place[1])
    scene = SceneFacts((CUBE,), (moved,), FROM_BELOW, (-10.0, 0.0, 5.0), 0)
    pair = Pair("7.png", "7", "test", "a.png", "b.png", ("x",), "move", scene=scene)
    (found,) = judged_by_scene([Claim("move", Phrase(), directions=(direction,))], pair)
    assert found.faults.strip("o") == faults
