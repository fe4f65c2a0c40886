"""The gallery: every kind of change alike, and pictures that need no file."""

import base64
import io
from collections import Counter
from types import SimpleNamespace

import pytest
from PIL import Image

from pipeline.datasets.images import index
from pipeline.datasets.schema import CHANGE_TYPES, Pair
from pipeline.decoding.gallery_pairs import ALIGNED, choose, gallery
from pipeline.io.errors import InputError
from pipeline.reporting.gallery import picture


def pairs(**counts):
    kinds = [kind if kind != "unknown" else None for kind, count in counts.items() for _ in range(count)]
    return [Pair(str(n), str(n), "test", "b", "a", ("c",), kind) for n, kind in enumerate(kinds)]


def sizes(chosen):
    return {kind: len(members) for kind, members in chosen.items()}


def test_all_kinds_are_represented_evenly_and_in_the_schemas_order():
    chosen = choose(pairs(none=400, move=80, color=81, texture=79, add=75, drop=85), 24)
    assert sizes(chosen) == dict.fromkeys((*CHANGE_TYPES, "none"), 4)
    assert list(chosen) == [*CHANGE_TYPES, "none"]
    assert all(pair.change_type == kind for kind, members in chosen.items() for pair in members)


def test_what_one_kind_lacks_the_others_get():
    assert sizes(choose(pairs(color=1, add=2, none=50), 12)) == {"color": 1, "add": 2, "none": 9}
    assert sizes(choose(pairs(color=5, add=5, none=5), 7)) == {"color": 3, "add": 2, "none": 2}


def test_few_pairs_are_all_shown_and_a_small_gallery_has_few_kinds():
    few = pairs(color=2, none=1)
    assert [pair for members in choose(few, 24).values() for pair in members] == few
    assert sizes(choose(pairs(color=9, texture=9, add=9), 2)) == {"color": 1, "texture": 1}


def test_unknown_kinds_are_shown_too():
    assert sizes(choose(pairs(unknown=30), 24)) == {None: 24}


def test_a_kinds_pairs_are_spread_over_the_split_without_repetition():
    (chosen,) = choose(pairs(color=100), 4).values()
    assert [pair.pair_id for pair in chosen] == ["0", "25", "50", "75"]
    assert set(Counter(pair.pair_id for pair in chosen).values()) == {1}


@pytest.mark.parametrize("count", [1, 10, ALIGNED, ALIGNED + 1])
def test_a_gallery_is_of_the_pairs_that_decoding_keeps_more_of_while_they_are_enough(count):
    everything = pairs(none=40, move=80, color=81)
    kept, shown = (
        [pair.pair_id for members in chosen.values() for pair in members]
        for chosen in (choose(everything, ALIGNED), gallery(everything, count))
    )
    assert len(shown) == count
    assert (set(shown) <= set(kept)) == (count <= ALIGNED)


def indexed(root):
    """As much of the results as a picture is found by."""
    return SimpleNamespace(root=root, dataset="d", images={own.name: own for own in index(root, ["a.png"])})


@pytest.mark.parametrize(
    ("size", "shown"), [((960, 640), (480, 320)), ((100, 60), (100, 60)), ((200, 640), (150, 480))]
)
def test_pictures_are_small_and_in_their_address(tmp_path, size, shown):
    Image.new("RGB", size, "teal").save(tmp_path / "a.png")
    found = picture(indexed(tmp_path), "a.png")
    kind, _, data = found.address.partition(";base64,")
    embedded = Image.open(io.BytesIO(base64.b64decode(data)))
    assert kind == "data:image/jpeg"
    assert embedded.format == "JPEG"
    assert embedded.size == (found.width, found.height) == shown
    assert found.original == size


def test_a_picture_that_changed_or_went_is_named(tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    found = indexed(tmp_path)
    Image.new("RGB", (8, 8), "teal").save(tmp_path / "a.png")
    with pytest.raises(
        InputError, match=r"a\.png has changed since the dataset was prepared; run `dvc repro`"
    ):
        picture(found, "a.png")
    with pytest.raises(InputError, match=r"b\.png is not in the index of d's images; run `dvc repro`"):
        picture(found, "b.png")
    (tmp_path / "a.png").unlink()
    with pytest.raises(InputError, match=r"a\.png cannot be read"):
        picture(found, "a.png")
