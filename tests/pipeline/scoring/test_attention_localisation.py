"""Localisation of the attention: areas by counting pixels, measures by loops."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.datasets.images import Indexed, write_index
from pipeline.datasets.schema import Pair
from pipeline.decoding.attention_maps import Attended, write
from pipeline.io.errors import InputError
from pipeline.scoring.attention_localisation import (
    MEASURES,
    Localisation,
    centred,
    inside,
    localise,
    named_object,
    of_files,
)

GRID, CELL = (3, 4), (5, 2)  # rows and columns; a cell's width and height in pixels
WIDTH, HEIGHT = 20, 6
SIZES = {"b": (WIDTH, HEIGHT), "a": (WIDTH, HEIGHT), "big": (10 * WIDTH, 7 * HEIGHT)}
PIXELS = [(x, y) for y in range(HEIGHT) for x in range(WIDTH)]
side = st.integers(-4, 24)
BOX = st.tuples(side, side, st.integers(0, 12), st.integers(0, 6))
A_FEW = st.lists(BOX, min_size=1, max_size=2)


def holds(box, x, y):
    return box[0] <= x < box[0] + box[2] and box[1] <= y < box[1] + box[3]


def placed(boxes):
    return [(box, (WIDTH, HEIGHT)) for box in boxes]


def pixels_inside(boxes):
    share = np.zeros(GRID)
    for x, y in PIXELS:
        share[y // CELL[1], x // CELL[0]] += any(holds(box, x, y) for box in boxes) / (CELL[0] * CELL[1])
    return share


def pair(name="1", before=(2, 1, 7, 3), after=None, kind="color", images=("b", "a")):
    return Pair(name, name, "test", *images, ("c",), kind, before, after)


def attended(words, seed=0):
    drawn = np.random.default_rng(seed).random((len(words), 1, *GRID))
    return Attended(tuple(words), (drawn / drawn.sum((2, 3), keepdims=True)).astype(np.float16))


def looking_at(row, column, words=("gone",)):
    maps = np.zeros((len(words), 1, *GRID), np.float16)
    maps[:, :, row, column] = 1
    return Attended(words, maps)


@given(A_FEW)
def test_areas_by_counting_pixels(boxes):
    np.testing.assert_allclose(inside(placed(boxes), GRID), pixels_inside(boxes), atol=1e-12)


@given(A_FEW)
def test_centres_by_loops(boxes):
    found = centred(placed(boxes), GRID)
    for row in range(GRID[0]):
        for column in range(GRID[1]):
            x, y = (column + 0.5) * CELL[0], (row + 0.5) * CELL[1]
            assert found[row, column] == any(holds(box, x, y) for box in boxes)


def test_a_centre_on_an_edge_is_exact():
    # 14 cells of 480 pixels: the fourth is centred at 120
    for box, column in (((120, 0, 9, 9), 3), ((111, 0, 9, 9), None), ((111, 0, 10, 9), 3)):
        found = centred([(box, (480, 14))], (14, 14))
        assert np.flatnonzero(found.any(0)).tolist() == ([] if column is None else [column])


def measured(attended, places, boxes):
    """Pointing and coverage of the mean map of some words, by loops."""
    mean = dict.fromkeys(product(range(GRID[0]), range(GRID[1])), 0.0)
    for word in places:
        total = float(attended.maps[word].astype(np.float64).sum())
        for cell in mean:
            mean[cell] += float(attended.maps[word, 0][cell]) / total / len(places)
    row, column = max(mean, key=mean.__getitem__)
    x, y = (column + 0.5) * CELL[0], (row + 0.5) * CELL[1]
    hit = any(holds(box, x, y) for box in boxes)
    share = pixels_inside(boxes)
    return float(hit), pytest.approx(sum(mean[cell] * share[cell] for cell in mean), abs=1e-12)


@given(A_FEW, st.integers(0, 5), st.sampled_from(["is ball gone", "nothing has changed", "a THING", "cube"]))
def test_measures_by_loops(boxes, seed, caption):
    words = caption.split()
    given, found = pair(before=boxes[0], after=boxes[-1]), attended(words, seed)
    own = localise([given], {"1": found}, SIZES).pairs["1"]
    assert (own["pointing"], own["coverage"]) == measured(found, range(len(words)), boxes)
    objects = [place for place, word in enumerate(words) if word.lower() in ("ball", "thing", "cube")]
    expected = measured(found, objects[:1], boxes) if objects else (None, None)
    assert (own["pointing_at_object"], own["coverage_at_object"]) == expected


def test_each_box_is_scaled_by_its_own_images_size():
    small = localise([pair(after=(8, 3, 6, 2))], {"1": attended(["a"])}, SIZES)
    scaled = pair(after=(80, 21, 60, 14), images=("b", "big"))
    assert localise([scaled], {"1": attended(["a"])}, SIZES) == small


def test_means_are_over_the_pairs_that_have_a_value():
    pairs = [
        pair("1", (5, 0, 5, 2)),  # cell 0, 1
        pair("2", None, (10, 2, 10, 4)),
        pair("3", (0, 0, 20, 6)),
        pair("4", None, None, "none"),
        pair("5", None, None, "drop"),  # a change whose place is unknown
    ]
    looked = {
        "1": looking_at(0, 1, ("the", "ball")),
        "2": looking_at(0, 0),
        "3": Attended((), np.zeros((0, 1, *GRID), np.float16)),
        "4": looking_at(0, 0, ("no", "object")),
        "5": looking_at(0, 0, ("the", "object")),
    }
    found = localise(pairs, looked, SIZES)
    assert found.summary == {
        "pointing": 0.5,
        "coverage": 0.5,
        "pointing_at_object": 1.0,
        "coverage_at_object": 1.0,
        "chance": pytest.approx((1 / 12 + 4 / 12) / 2),
        "pairs": 2,
        "pairs_at_object": 1,
    }
    nothing = dict.fromkeys(MEASURES)
    assert [found.pairs[name] for name in "345"] == [nothing] * 3
    assert found.pairs["2"] == nothing | {"pointing": 0.0, "coverage": 0.0}


def test_the_boxes_are_a_union_and_of_equal_maxima_the_first_counts():
    twice = localise([pair(after=(2, 1, 7, 3))], {"1": attended(["a"])}, SIZES)
    assert twice == localise([pair()], {"1": attended(["a"])}, SIZES)
    even = Attended(("gone",), np.full((1, 1, *GRID), 1 / 12, np.float16))
    assert localise([pair(before=(0, 0, 5, 2))], {"1": even}, SIZES).summary["pointing"] == 1
    assert localise([pair(before=(5, 0, 5, 2))], {"1": even}, SIZES).summary["pointing"] == 0


@pytest.mark.parametrize(
    ("caption", "place"),
    [
        ("the tiny green shiny ball that is behind the green shiny cube turned brown", 4),
        ("the Block , is gone", 1),
        ("there is no longer a red thing", 6),
        ("the scene remains the same", None),
        ("the balls moved", None),
        ("", None),
    ],
)
def test_the_word_that_names_the_changed_object(caption, place):
    assert named_object(caption.split()) == place


@pytest.fixture
def files(tmp_path):
    write(tmp_path / "attention.npz", {"1": looking_at(0, 0)})
    write_index(tmp_path / "images.jsonl", [Indexed(name, *SIZES[name], 1, "") for name in "ab"])
    return tmp_path / "attention.npz", tmp_path / "images.jsonl"


def test_files_give_the_same(files):
    expected = localise([pair()], {"1": looking_at(0, 0)}, SIZES)
    assert of_files(*files, [pair()], {"1": "gone"}) == expected


@pytest.mark.parametrize(
    ("pairs", "captions", "said"),
    [
        ([pair()], {"1": "moved"}, r"attention\.npz .* \(pair 1\); run `dvc repro decode"),
        ([pair("2")], {"2": "gone"}, r"attention\.npz belongs to other captions \(pair 2\)"),
        ([pair(images=("b", "c"))], {"1": "gone"}, r"images\.jsonl does not list c; run `dvc repro prepare`"),
    ],
)
def test_files_that_do_not_belong_together(files, pairs, captions, said):
    with pytest.raises(InputError, match=said):
        of_files(*files, pairs, captions)


def test_a_map_of_each_image_is_compared_with_its_own_box():
    def both(one, other):
        return Attended(one.words, np.concatenate([one.maps, other.maps], 1))

    boxes = pair(before=(5, 0, 5, 2), after=(10, 2, 10, 4))  # cell 0, 1; cells 1, 2 to 2, 3
    for maps, pointing in (((0, 1), (1, 2)), 1), (((1, 2), (0, 1)), 0), (((0, 1), (0, 0)), 0.5):
        found = localise([boxes], {"1": both(*(looking_at(*cell) for cell in maps))}, SIZES)
        assert found.pairs["1"]["pointing"] == found.summary["pointing"] == pointing
        assert found.summary["chance"] == pytest.approx((1 / 12 + 4 / 12) / 2)
    for name, seed in (("before", 0), ("after", 1)):
        one = pair(**({"before": None} | {name: (2, 1, 7, 3)}))
        own = localise([one], {"1": both(attended(["a"]), attended(["a"], 1))}, SIZES)
        assert own == localise([one], {"1": attended(["a"], seed)}, SIZES)


def test_a_decoder_without_attention_has_no_score():
    blind = Attended(("the", "ball"), np.zeros((2, 0, *GRID), np.float16))
    assert localise([pair()], {"1": blind}, SIZES) == Localisation({}, {"1": dict.fromkeys(MEASURES)})
