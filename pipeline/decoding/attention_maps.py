"""attention.npz: where the decoder looked for each word of each caption, and how a pair's images align.

P captions of W words in all, H x W_grid cells, N = H * W_grid, G pairs (gallery_pairs.ALIGNED). No pickle. A
word has I maps: one that is shown on both images, two of before and after, none where nothing is looked at.
Beside them it may have K weights, of what the decoder weighs anew at every word.
pair_id    P strings
start      P + 1 integers: the words of caption p are word[start[p]:start[p + 1]]
word       W strings
map        W x H x W_grid float16, summing to 1: 392 bytes a word at 14 x 14; where I is not 1
           W x I x H x W_grid
aligned_pair, alignment    G strings, G x N x N float16; absent where the model has no cross-view attention
block_name    B strings: blocks of an image encoder, where its class tokens look; absent where it has none
block_pair, block          G strings, G x B x 2 x H x W_grid float16: of before and after, each summing to 1
of_weights, of_pairs, of_run    the sha256 of the weights and of the file of pairs, DATASET/MODEL/SEED
weight_name, weight        K strings, W x K float16: a word's sum to 1; absent where the decoder has none
"""

import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from pipeline.io.errors import InputError
from pipeline.io.inputs import opened
from pipeline.io.outputs import replacing

REMEDY = "run `dvc repro decode` to make it"
Value = TypeVar("Value")
Origin = Literal["weights", "pairs", "run"]
ORIGINS: tuple[Origin, ...] = ("weights", "pairs", "run")
ROUNDING = 0.01  # float16 keeps the sum of a map to 0.0005


@dataclass(frozen=True)
class Attended:
    """A caption, where the decoder looked for each of its words, and what it weighed at each."""

    words: tuple[str, ...]
    maps: np.ndarray  # float16, words x I x H x W, each map summing to 1; I is 0, 1 or 2
    alignment: np.ndarray | None = None  # float16, N x N: row = a cell of after, column = of before
    blocks: Mapping[str, np.ndarray] | None = None  # float16, 2 x H x W each: where its class tokens look
    weighed: tuple[str, ...] = ()  # K names
    weights: np.ndarray | None = None  # float16, words x K, a word's summing to 1; None where K is 0

    @property
    def caption(self) -> str:
        """As it stands in captions.json."""
        return " ".join(self.words)

    @property
    def images(self) -> int:
        """I: how many maps a word has."""
        return self.maps.shape[1]

    @property
    def grid(self) -> tuple[int, int]:
        """H and W."""
        rows, columns = self.maps.shape[2:]
        return rows, columns

    def on(self, side: int) -> np.ndarray | None:
        """What is shown on before (0) or after (1): words x H x W; None where nothing is looked at."""
        return self.maps[:, min(side, self.images - 1)] if self.images else None


def attended(
    spoken: Sequence[tuple[str, int]],
    maps: np.ndarray,
    weighed: tuple[str, ...] = (),
    weights: np.ndarray | None = None,
) -> Attended:
    """A caption's words, each of so many tokens, with the mean of its tokens' maps, tokens x I x H x W.

    And with that of its tokens' weights, tokens x K, where K things are `weighed`.
    """
    words, counts = tuple(word for word, _ in spoken), [count for _, count in spoken]
    own = None if weights is None else _means(weights, counts)
    return Attended(words, _means(maps, counts), weighed=weighed, weights=own)


def _means(rows: np.ndarray, counts: Sequence[int]) -> np.ndarray:
    """tokens x ... -> words x ..., float16: each the mean of so many rows, one word's after another's."""
    if not counts:
        return rows[:0].astype(np.float16)
    summed = np.add.reduceat(rows[: sum(counts)].astype(np.float32), np.cumsum([0, *counts[:-1]]))
    return (summed / np.reshape(counts, (-1, *[1] * (rows.ndim - 1)))).astype(np.float16)


def write(
    path: str | Path, attended: Mapping[str, Attended], origin: Mapping[Origin, str] | None = None
) -> None:
    """Write what was attended to by pair id, at least one: equal values are equal bytes.

    `origin`: what the words are of, for `read_origin`.
    """
    all_of_it = list(attended.values())
    arrays: dict[str, np.ndarray] = {
        "pair_id": np.array(list(attended), dtype=np.str_),
        "start": np.cumsum([0, *(len(each.words) for each in all_of_it)], dtype=np.int64),
        "word": np.array([word for each in all_of_it for word in each.words], dtype=np.str_),
        "map": np.concatenate([each.maps for each in all_of_it], dtype=np.float16),
    }
    if all_of_it[0].images == 1:
        arrays["map"] = arrays["map"][:, 0]
    if aligned := {pair: each.alignment for pair, each in attended.items() if each.alignment is not None}:
        arrays["aligned_pair"] = np.array(list(aligned), dtype=np.str_)
        arrays["alignment"] = np.stack(list(aligned.values()), dtype=np.float16)
    if own := {pair: each.blocks for pair, each in attended.items() if each.blocks is not None}:
        arrays["block_pair"] = np.array(list(own), dtype=np.str_)
        arrays["block_name"] = np.array(list(next(iter(own.values()))), dtype=np.str_)
        arrays["block"] = np.stack([np.stack(list(maps.values())) for maps in own.values()], dtype=np.float16)
    if shares := [each.weights for each in all_of_it if each.weights is not None]:
        arrays["weight_name"] = np.array(all_of_it[0].weighed, dtype=np.str_)
        arrays["weight"] = np.concatenate(shares, dtype=np.float16)
    arrays |= {f"of_{name}": np.array([said], dtype=np.str_) for name, said in (origin or {}).items()}
    with replacing(path) as beside, beside.open("wb") as file:
        # not compressed: what a compressor writes differs from version to version; no time is written
        # (to a checker any array might be called allow_pickle, as numpy's own keyword is)
        np.savez(file, **arrays)  # type: ignore[arg-type]


def read(path: str | Path) -> dict[str, Attended]:
    """What `write` wrote. Raises InputError where the file is missing, damaged or of another form."""
    return _read(path, lambda file: dict(_attended({name: file[name] for name in file.files})))


def read_origin(path: str | Path) -> dict[Origin, str]:
    """Return what the captions are of, as far as `write` was told; raises as `read` does."""
    return _read(path, _origin)


def _read(path: str | Path, of: Callable[[Any], Value]) -> Value:
    try:
        # np.load leaves a file that it opened itself open where it fails
        with opened(path) as numbers, np.load(numbers, allow_pickle=False) as file:
            _check_unpacked(file.zip, Path(path).stat().st_size)
            return of(file)
    except FileNotFoundError:
        raise InputError(f"{path} is missing; {REMEDY}") from None
    except InputError:
        raise
    except Exception as error:  # what NumPy raises on damaged headers is of any kind
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path} does not hold attention maps ({reason}); {REMEDY} again") from None


def _origin(file: Any) -> dict[Origin, str]:
    return {name: str(file[f"of_{name}"][0]) for name in ORIGINS if f"of_{name}" in file.files}


def _check_unpacked(file: zipfile.ZipFile, size: int) -> None:
    """Raises ValueError for arrays that are more than the file: `write` packs none."""
    parts = file.infolist()
    if any(part.compress_type != zipfile.ZIP_STORED for part in parts):
        raise ValueError("its arrays are packed")
    if sum(part.file_size for part in parts) > size:
        raise ValueError("its arrays overlap")


def _attended(arrays: dict[str, np.ndarray]) -> Iterator[tuple[str, Attended]]:
    """Raises KeyError or ValueError for arrays that do not fit each other."""
    pairs, start, words, maps = (arrays[name] for name in ("pair_id", "start", "word", "map"))
    maps = maps[:, None] if maps.ndim == 3 else maps
    _demand(pairs.shape == (len(set(pairs.tolist())),), "pair_id has duplicates")
    _demand(
        start.shape == (len(pairs) + 1,) and start.dtype.kind == "i", "start is not one longer than pair_id"
    )
    _demand(start[0] == 0 and start[-1] == len(words) and (np.diff(start) >= 0).all(), "start does not rise")
    _demand(maps.ndim == 4 and len(maps) == len(words), "there is not one map a word")
    _demand(maps.shape[1] <= 2, "there are more maps a word than images")
    _demand(_shares(maps), "a map does not sum to 1")
    aligned, blocks = _alignments(arrays, maps.shape[2:]), _blocks(arrays, maps.shape[2:])
    weighed, weights = _weights(arrays, len(words))
    for pair, first, end in zip(pairs.tolist(), start[:-1], start[1:], strict=True):
        said, own = tuple(words[first:end].tolist()), None if weights is None else weights[first:end]
        yield pair, Attended(said, maps[first:end], aligned.get(pair), blocks.get(pair), weighed, own)


def _alignments(arrays: dict[str, np.ndarray], grid: tuple[int, ...]) -> dict[str, np.ndarray]:
    if "alignment" not in arrays:
        return {}
    pairs, alignment = arrays["aligned_pair"], arrays["alignment"]
    cells = int(np.prod(grid))
    _demand(alignment.shape == (len(pairs), cells, cells), "alignment is not cells x cells for each pair")
    return dict(zip(pairs.tolist(), alignment, strict=True))


def _blocks(arrays: dict[str, np.ndarray], grid: tuple[int, ...]) -> dict[str, dict[str, np.ndarray]]:
    if "block" not in arrays:
        return {}
    pairs, names, maps = arrays["block_pair"], arrays["block_name"].tolist(), arrays["block"]
    _demand(
        maps.shape == (len(pairs), len(names), 2, *grid), "there are not two maps for each block and pair"
    )
    _demand(_shares(maps), "a block's map does not sum to 1")
    return {pair: dict(zip(names, own, strict=True)) for pair, own in zip(pairs.tolist(), maps, strict=True)}


def _weights(arrays: dict[str, np.ndarray], words: int) -> tuple[tuple[str, ...], np.ndarray | None]:
    if not {"weight_name", "weight"} & arrays.keys():
        return (), None
    names, weights = arrays["weight_name"], arrays["weight"]
    _demand(names.shape == (len(set(names.tolist())),), "weight_name has duplicates")
    _demand(weights.shape == (words, len(names)), "there is not one weight for each word and name")
    _demand(_shares(weights, (-1,)), "a word's weights do not sum to 1")
    return tuple(names.tolist()), weights


def _shares(maps: np.ndarray, axes: tuple[int, ...] = (-2, -1)) -> bool:
    """Whether each map, of those axes, is of shares that sum to 1."""
    # a comparison with NaN is false, so a map that is no attention is refused too
    sums = maps.sum(axes, dtype=np.float32)
    return bool((np.abs(sums - 1) <= ROUNDING).all() and (maps >= 0).all())


def _demand(holds: bool | np.bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)
