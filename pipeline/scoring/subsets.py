"""Divide a split into subsets, which are scored as separate corpora."""

from collections.abc import Sequence
from itertools import pairwise

from pipeline.datasets.schema import CHANGE_TYPES, Pair

QUARTILES = tuple(f"viewpoint_iou_q{number}" for number in (1, 2, 3, 4))


def subsets(pairs: Sequence[Pair]) -> dict[str, list[str]]:
    """Return name -> pair ids (docs/evaluation.md, "Subsets"). Subsets without pairs are left out."""
    parts = {
        "change": [pair.pair_id for pair in pairs if pair.changed],
        "no_change": [pair.pair_id for pair in pairs if pair.changed is False],
    }
    parts |= {kind: [pair.pair_id for pair in pairs if pair.change_type == kind] for kind in CHANGE_TYPES}
    return {name: members for name, members in (parts | _quartiles(pairs)).items() if members}


def _quartiles(pairs: Sequence[Pair]) -> dict[str, list[str]]:
    """Split the pairs with a known overlap of the two views into quarters; q1 has the least overlap.

    Return name of the subset -> pair ids in the order of `pairs`; {} for fewer than four such pairs.
    """
    overlaps = {row: pair.viewpoint_iou for row, pair in enumerate(pairs) if pair.viewpoint_iou is not None}
    if len(overlaps) < len(QUARTILES):
        return {}
    by_overlap = sorted(overlaps, key=overlaps.__getitem__)
    ends = [len(by_overlap) * quarter // len(QUARTILES) for quarter in range(len(QUARTILES) + 1)]
    return {
        name: [pairs[row].pair_id for row in sorted(by_overlap[start:end])]
        for name, (start, end) in zip(QUARTILES, pairwise(ends), strict=True)
    }
