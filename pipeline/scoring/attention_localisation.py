"""Compare the attention maps of captions with the change boxes: localisation (SCORER Fig. 6).

If a word has a single map, the map is compared with the union of both images' boxes. If a word has a map per
image, each map is compared with the box of its own image, and the pair's score is the mean over the images
that have a box. Images are squashed to a square before they become H x W cells, so a box is scaled by its
image's width and height separately.

pointing: the centre of the cell with the most attention lies in a box (the pointing game of Zhang et
    al., ECCV 2016, without its tolerance; the first of several equal cells counts).
coverage: the share of the attention inside the boxes; a cell counts by the fraction of its area in a box.
chance: the boxes' share of the image area. This is the coverage of a uniform map, and the expected pointing
    of a random map.

Pointing and coverage are computed for the mean map of all words and, as `_at_object`, for the map of the word
that names the changed object.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.datasets.images import read_index
from pipeline.datasets.schema import Box, Pair
from pipeline.decoding import attention_maps
from pipeline.decoding.attention_maps import Attended
from pipeline.io.errors import InputError
from pipeline.tabletop.words import NOUNS

MEASURES = ("pointing", "coverage", "pointing_at_object", "coverage_at_object")
Size = tuple[int, int]
"""Width and height of an image in pixels."""
Placed = tuple[Box, Size]
"""A box and the size of its image."""


@dataclass(frozen=True)
class Localisation:
    """Scores of a split's attention maps: how well they point to the change boxes, as fractions.

    `summary`: mean of each measure over the pairs that have it, chance level, and numbers of pairs. It
    is empty if no pair has a box.
    `pairs`: pair id -> measure -> score. A pair without a box has the score None in all measures. The
    measures that end in "_at_object" are None if no word of the caption names an object.
    """

    summary: dict[str, float | int]
    pairs: dict[str, dict[str, float | None]]


def of_files(
    attention: str | Path, images: str | Path, pairs: Sequence[Pair], captions: Mapping[str, str]
) -> Localisation:
    """Read attention.npz and the index of images, and compute the localisation of `pairs`.

    `captions`: pair id -> caption. Raises InputError in three cases: a file is damaged; a caption
    differs from the caption in attention.npz; or the index lacks an image of `pairs`.
    """
    attended = attention_maps.read(attention)
    for pair in pairs:
        words = tuple(captions.get(pair.pair_id, "").split())
        if pair.pair_id not in attended or attended[pair.pair_id].words != words:
            raise InputError(
                f"{attention} belongs to other captions (pair {pair.pair_id}); {attention_maps.REMEDY} again"
            )
    sizes = {image.name: (image.width, image.height) for image in read_index(images)}
    for name in (name for pair in pairs for name in (pair.before, pair.after)):
        if name not in sizes:
            raise InputError(f"{images} does not list {name}; run `dvc repro prepare` to make it again")
    return localise(pairs, attended, sizes)


def localise(
    pairs: Sequence[Pair], attended: Mapping[str, Attended], sizes: Mapping[str, Size]
) -> Localisation:
    """Compute the localisation of all pairs. `attended`: pair id -> maps; `sizes`: image name -> size."""
    scores: dict[str, dict[str, float | None]] = {pair.pair_id: dict.fromkeys(MEASURES) for pair in pairs}
    areas = []
    for pair in pairs:
        caption = attended[pair.pair_id]
        if caption.words and (views := _views(caption, pair, sizes)):
            view_scores = [_measured(caption.words, maps, boxes) for maps, boxes in views]
            scores[pair.pair_id] = {name: _mean(view[name] for view in view_scores) for name in MEASURES}
            areas.append(float(np.mean([inside(boxes, (1, 1)).item() for _, boxes in views])))
    if not areas:
        return Localisation({}, scores)
    means = {name: _mean(pair_scores[name] for pair_scores in scores.values()) for name in MEASURES}
    at_object = sum(pair_scores["pointing_at_object"] is not None for pair_scores in scores.values())
    counts: dict[str, float] = {"chance": float(np.mean(areas)), "pairs": len(areas)}
    known_means = {name: value for name, value in means.items() if value is not None}
    return Localisation(known_means | counts | {"pairs_at_object": at_object}, scores)


def named_object(words: Sequence[str]) -> int | None:
    return next((position for position, word in enumerate(words) if word.lower() in NOUNS), None)


def inside(boxes: Sequence[Placed], grid: tuple[int, int]) -> np.ndarray:
    """Return the fraction of each cell's area inside the union of one or two boxes, for a grid (H, W)."""
    shares = [(x / width, y / height, w / width, h / height) for (x, y, w, h), (width, height) in boxes]
    covered = sum((_overlap(share, grid) for share in shares), np.zeros(grid))
    return covered - _overlap(_intersection(*shares), grid) if len(shares) == 2 else covered


def centred(boxes: Sequence[Placed], grid: tuple[int, int]) -> np.ndarray:
    """Return a mask (H, W) of the cells whose centre lies in a box, or on the box's left or upper edge.

    `grid` is (H, W). A box is in pixels of its image, whose size is next to the box in `boxes`.
    """
    H, W = grid
    mask = np.zeros(grid, dtype=bool)
    for (left, top, w, h), (width, height) in boxes:
        # in pixels: edges are whole numbers, so the comparison of centres with edges is exact
        y, x = (np.arange(1, 2 * n, 2) * length / (2 * n) for n, length in ((H, height), (W, width)))
        mask |= np.outer((y >= top) & (y < top + h), (x >= left) & (x < left + w))
    return mask


def _views(caption: Attended, pair: Pair, sizes: Mapping[str, Size]) -> list[tuple[np.ndarray, list[Placed]]]:
    """Return maps, (words, H, W), and boxes to compare with, per image, or for both if maps are of both."""
    sides = ((pair.before_box, pair.before), (pair.after_box, pair.after))
    before, after = ([(box, sizes[name])] if box is not None else [] for box, name in sides)
    boxes_of_maps = [before + after] if caption.images == 1 else [before, after][: caption.images]
    return [(caption.maps[:, image], boxes) for image, boxes in enumerate(boxes_of_maps) if boxes]


def _measured(words: Sequence[str], half_maps: np.ndarray, boxes: list[Placed]) -> dict[str, float | None]:
    """Return measure (MEASURES) -> score of a caption; float16 maps are (words, H, W).

    "..._at_object" uses the map of the word that names the changed object, and is None without such a word.
    """
    grid = half_maps.shape[1:]
    shares, hits = inside(boxes, grid), centred(boxes, grid)
    maps = half_maps.astype(np.float64)
    maps /= maps.sum((1, 2), keepdims=True)  # their sums are not 1 after rounding to float16
    position = named_object(words)
    at_object = {} if position is None else _map_scores(maps[position], shares, hits)
    return _map_scores(maps.mean(0), shares, hits) | {
        f"{name}_at_object": at_object.get(name) for name in ("pointing", "coverage")
    }


def _map_scores(attention: np.ndarray, shares: np.ndarray, hits: np.ndarray) -> dict[str, float]:
    return {"pointing": float(hits.flat[attention.argmax()]), "coverage": float((attention * shares).sum())}


def _intersection(a: Box, b: Box) -> Box:
    left, top = max(a[0], b[0]), max(a[1], b[1])
    right, bottom = min(a[0] + a[2], b[0] + b[2]), min(a[1] + a[3], b[1] + b[3])
    return left, top, max(right - left, 0.0), max(bottom - top, 0.0)


def _overlap(box: Box, grid: tuple[int, int]) -> np.ndarray:
    """Return the fraction of each cell's area inside a box, (H, W); the box is cut at the image's edges."""
    (H, W), (x, y, w, h) = grid, box
    return np.outer(_covered(y, h, H), _covered(x, w, W))


def _covered(start: float, length: float, cells: int) -> np.ndarray:
    """Return the fraction of each of the axis' equal cells, (cells,), that lies in an interval of 0 to 1."""
    edges = np.arange(cells + 1) / cells
    return np.diff(np.clip(edges, start, start + length)) * cells


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
