"""Does the decoder look where something changed? Attention maps against the change boxes (SCORER Fig. 6).

A map of both images is judged against the union of their boxes, because the decoder reads one grid into
which both were fused. Where a word has a map for each image, each is judged against its own image's box, and
the pair has the mean of those that have one. A decoder that looks at nothing has no such score.
Images are squashed to a square before they become H x W cells, so a box is scaled by its image's width and
height separately.
pointing: the centre of the cell with the most attention lies in a box (the pointing game of Zhang et
    al., ECCV 2016, without its tolerance; of several such cells the first counts).
coverage: the share of the attention inside the boxes; cells count by the fraction of their area.
Both are taken of the mean map of all words of the caption and, `_at_object`, of the map of the word
that names the changed object. chance: the boxes' share of the picture's area, which is the coverage
of a map that looks everywhere alike, and the pointing of one that looks anywhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.datasets.images import read_index
from pipeline.datasets.schema import Box, Pair
from pipeline.decoding import attention_maps
from pipeline.decoding.attention_maps import Attended
from pipeline.io.errors import InputError

MEASURES = ("pointing", "coverage", "pointing_at_object", "coverage_at_object")
OBJECTS = frozenset(("cube", "block", "sphere", "ball", "cylinder", "thing", "object"))
"""What CLEVR-Change, CLEVR-DC and tabletop call a thing by its shape, or by none."""
Size = tuple[int, int]
"""Width and height of an image in pixels."""
Placed = tuple[Box, Size]
"""A box, and the size of the image that it lies in."""


@dataclass(frozen=True)
class Localisation:
    """How well the attention of a split's captions meets the boxes; fractions."""

    summary: dict[str, float | int]
    """Each measure's mean over the pairs that have it, chance, and how many pairs that is; empty where
    no pair has a box."""
    pairs: dict[str, dict[str, float | None]]
    """Each measure by pair id: None without a box, or without a word to look at."""


def of_files(
    attention: str | Path, images: str | Path, pairs: Sequence[Pair], captions: Mapping[str, str]
) -> Localisation:
    """Read attention.npz and the images' index, and localise.

    Raises InputError where either is damaged, or the attention is not that of `captions`.
    """
    attended = attention_maps.read(attention)
    for pair in pairs:
        words = tuple(captions.get(pair.pair_id, "").split())
        if pair.pair_id not in attended or attended[pair.pair_id].words != words:
            raise InputError(
                f"{attention} is not of these captions (pair {pair.pair_id}); {attention_maps.REMEDY} again"
            )
    sizes = {image.name: (image.width, image.height) for image in read_index(images)}
    for name in (name for pair in pairs for name in (pair.before, pair.after)):
        if name not in sizes:
            raise InputError(f"{images} does not list {name}; run `dvc repro prepare` to make it again")
    return localise(pairs, attended, sizes)


def localise(
    pairs: Sequence[Pair], attended: Mapping[str, Attended], sizes: Mapping[str, Size]
) -> Localisation:
    """`sizes` by image name."""
    each = {pair.pair_id: dict.fromkeys(MEASURES) for pair in pairs}
    areas = []
    for pair in pairs:
        found = attended[pair.pair_id]
        if found.words and (views := _views(found, pair, sizes)):
            own = [_measured(found.words, maps, boxes) for maps, boxes in views]
            each[pair.pair_id] = {name: _mean([one[name] for one in own]) for name in MEASURES}
            areas.append(float(np.mean([inside(boxes, (1, 1)).item() for _, boxes in views])))
    if not areas:
        return Localisation({}, each)
    at_object = sum(own["pointing_at_object"] is not None for own in each.values())
    means = {name: _mean([own[name] for own in each.values()]) for name in MEASURES}
    summary = {name: value for name, value in means.items() if value is not None}
    counts: dict[str, float] = {"pairs": len(areas), "pairs_at_object": at_object}
    return Localisation(summary | {"chance": float(np.mean(areas))} | counts, each)


def named_object(words: Sequence[str]) -> int | None:
    """Which word names the changed object: the first that is one of OBJECTS, whatever its case.

    In the grammars of CLEVR-Change and tabletop the changed object is the first that is spoken of, and
    its shape is the head of its noun phrase: "the small red BALL that is behind the cube is gone".
    """
    return next((place for place, word in enumerate(words) if word.lower() in OBJECTS), None)


def inside(boxes: Sequence[Placed], grid: tuple[int, int]) -> np.ndarray:
    """The fraction of each cell's area inside the union of one or two boxes, H x W."""
    shares = [_in_shares(box, *size) for box, size in boxes]
    covered = sum((_overlap(share, grid) for share in shares), np.zeros(grid))
    return covered - _overlap(_intersection(*shares), grid) if len(shares) == 2 else covered


def centred(boxes: Sequence[Placed], grid: tuple[int, int]) -> np.ndarray:
    """Whether each cell's centre lies in a box, H x W. A box holds its left and upper edge only."""
    H, W = grid
    found = np.zeros(grid, dtype=bool)
    for (left, top, w, h), (width, height) in boxes:
        # in pixels, where edges are whole numbers and a centre on one is told exactly
        y, x = (np.arange(1, 2 * n, 2) * length / (2 * n) for n, length in ((H, height), (W, width)))
        found |= np.outer((y >= top) & (y < top + h), (x >= left) & (x < left + w))
    return found


def _views(found: Attended, pair: Pair, sizes: Mapping[str, Size]) -> list[tuple[np.ndarray, list[Placed]]]:
    """Maps, words x H x W, and the boxes that they are judged against: at least one."""
    sides = ((pair.before_box, pair.before), (pair.after_box, pair.after))
    before, after = ([(box, sizes[name])] if box is not None else [] for box, name in sides)
    judged = [before + after] if found.images == 1 else [before, after][: found.images]
    return [(found.maps[:, place], own) for place, own in enumerate(judged) if own]


def _measured(words: Sequence[str], found: np.ndarray, boxes: list[Placed]) -> dict[str, float | None]:
    rows, columns = found.shape[1:]
    share, hits = inside(boxes, (rows, columns)), centred(boxes, (rows, columns))
    maps = found.astype(np.float64)
    maps /= maps.sum((1, 2), keepdims=True)  # float16 rounded them
    place = named_object(words)
    named = {} if place is None else _of_map(maps[place], share, hits)
    return _of_map(maps.mean(0), share, hits) | {
        f"{name}_at_object": named.get(name) for name in ("pointing", "coverage")
    }


def _of_map(attention: np.ndarray, share: np.ndarray, hits: np.ndarray) -> dict[str, float]:
    return {"pointing": float(hits.flat[attention.argmax()]), "coverage": float((attention * share).sum())}


def _in_shares(box: Box, width: int, height: int) -> Box:
    """A box in shares of its image's width and height."""
    x, y, w, h = box
    return x / width, y / height, w / width, h / height


def _intersection(one: Box, other: Box) -> Box:
    left, top = max(one[0], other[0]), max(one[1], other[1])
    right, bottom = min(one[0] + one[2], other[0] + other[2]), min(one[1] + one[3], other[1] + other[3])
    return left, top, max(right - left, 0.0), max(bottom - top, 0.0)


def _overlap(box: Box, grid: tuple[int, int]) -> np.ndarray:
    """The fraction of each cell's area inside a box, H x W; what juts out of the image counts nowhere."""
    (H, W), (x, y, w, h) = grid, box
    return np.outer(_covered(y, h, H), _covered(x, w, W))


def _covered(start: float, length: float, cells: int) -> np.ndarray:
    """How much of each of `cells` equal parts of 0..1 lies in start..start + length, as a fraction."""
    edges = np.arange(cells + 1) / cells
    return np.diff(np.clip(edges, start, start + length)) * cells


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
