"""The gallery: pairs of each kind of change, and embedded images."""

import base64
import io
from types import SimpleNamespace

import pytest
from PIL import Image

from pipeline.datasets.images import index
from pipeline.datasets.schema import CHANGE_TYPES, Pair
from pipeline.decoding.attention_maps import ALIGNED, choose, gallery
from pipeline.io.errors import InputError
from pipeline.reporting.gallery import embedded_image


def pairs(**counts):
    kinds = [kind if kind != "unknown" else None for kind, count in counts.items() for _ in range(count)]
    return [Pair(str(n), str(n), "test", "b", "a", ("c",), kind) for n, kind in enumerate(kinds)]


EVEN = dict.fromkeys((*CHANGE_TYPES, "none"), 4)


@pytest.mark.parametrize(
    ("counts", "number", "expected"),
    [
        ({"none": 400, "move": 80, "color": 81, "texture": 79, "add": 75, "drop": 85}, 24, EVEN),
        ({"color": 1, "add": 2, "none": 50}, 12, {"color": 1, "add": 2, "none": 9}),
        ({"color": 5, "add": 5, "none": 5}, 7, {"color": 3, "add": 2, "none": 2}),
        ({"color": 2, "none": 1}, 24, {"color": 2, "none": 1}),
        ({"color": 9, "texture": 9, "add": 9}, 2, {"color": 1, "texture": 1}),
        ({"unknown": 30}, 24, {None: 24}),
    ],
)
def test_kinds_of_change_are_shown_evenly_in_the_order_of_the_schema(counts, number, expected):
    chosen = choose(pairs(**counts), number)
    assert [(kind, len(members)) for kind, members in chosen.items()] == [*expected.items()]
    assert all(pair.change_type == kind for kind, members in chosen.items() for pair in members)


def test_the_pairs_of_a_kind_are_spread_over_the_split():
    (chosen,) = choose(pairs(color=100), 4).values()
    assert [pair.pair_id for pair in chosen] == ["0", "25", "50", "75"]


@pytest.mark.parametrize("count", [1, 10, ALIGNED, ALIGNED + 1])
def test_a_small_gallery_has_the_pairs_whose_alignment_decoding_keeps(count):
    everything = pairs(none=40, move=80, color=81)
    kept, shown = (
        [pair.pair_id for members in chosen.values() for pair in members]
        for chosen in (choose(everything, ALIGNED), gallery(everything, count))
    )
    assert len(shown) == count
    assert (set(shown) <= set(kept)) == (count <= ALIGNED)


def indexed(root):
    """The part of the results that `embedded_image` reads."""
    return SimpleNamespace(root=root, dataset="d", images={own.name: own for own in index(root, ["a.png"])})


@pytest.mark.parametrize(
    ("size", "shown"), [((960, 640), (480, 320)), ((100, 60), (100, 60)), ((200, 640), (150, 480))]
)
def test_images_are_scaled_down_and_embedded(tmp_path, size, shown):
    Image.new("RGB", size, "teal").save(tmp_path / "a.png")
    found = embedded_image(indexed(tmp_path), "a.png")
    kind, _, data = found.address.partition(";base64,")
    embedded = Image.open(io.BytesIO(base64.b64decode(data)))
    assert kind == "data:image/jpeg"
    assert embedded.format == "JPEG"
    assert embedded.size == (found.width, found.height) == shown
    assert found.original == size


def test_a_changed_or_missing_image_is_named(tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    found = indexed(tmp_path)
    Image.new("RGB", (8, 8), "teal").save(tmp_path / "a.png")
    with pytest.raises(InputError, match=r"a\.png changed since it was prepared; run `dvc repro`"):
        embedded_image(found, "a.png")
    with pytest.raises(InputError, match=r"b\.png is not in the index of d's images; run `dvc repro`"):
        embedded_image(found, "b.png")
    (tmp_path / "a.png").unlink()
    with pytest.raises(InputError, match=r"a\.png cannot be read"):
        embedded_image(found, "a.png")
