"""Subsets of a split: by kind of change, and by overlap of the viewpoints."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pipeline.datasets.schema import Pair
from pipeline.scoring.subsets import QUARTILES, subsets


def pair(number: int, kind: str | None, iou: float | None = None) -> Pair:
    return Pair(f"p{number}", "s", "test", "a", "b", ("c",), kind, viewpoint_iou=iou)


def test_kinds_of_change() -> None:
    pairs = [pair(n, kind) for n, kind in enumerate(("move", "none", "texture", "move", None))]
    assert subsets(pairs) == {
        "change": ["p0", "p2", "p3"],
        "no_change": ["p1"],
        "texture": ["p2"],
        "move": ["p0", "p3"],
    }
    assert subsets([pair(1, None)]) == {}


@given(st.lists(st.none() | st.floats(0, 1), max_size=40))
def test_quartiles_part_all_known_pairs_evenly(overlaps: list[float | None]) -> None:
    pairs = [pair(n, None, overlap) for n, overlap in enumerate(overlaps)]
    known = {p.pair_id: p.viewpoint_iou for p in pairs if p.viewpoint_iou is not None}
    found = subsets(pairs)
    if len(known) < 4:
        assert found == {}
        return
    assert tuple(found) == QUARTILES
    sizes = [len(members) for members in found.values()]
    assert max(sizes) - min(sizes) <= 1
    assert sorted(key for members in found.values() for key in members) == sorted(known)
    assert all(members == [key for key in known if key in members] for members in found.values())
    for less, more in pairwise(QUARTILES):
        assert max(known[key] for key in found[less]) <= min(known[key] for key in found[more])
