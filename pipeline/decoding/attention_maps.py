"""Read and write attention.npz: attention maps of every generated word, and alignments of some image pairs.

P: number of captions, one per pair; T: number of words in all captions; H x W: grid of cells; N = H * W; G:
number of pairs for which the file also contains alignments and class-token attention (ALIGNED);
I: maps per word (0: no attention, 1: a map for both images, 2: a map for each image); B: number of blocks of
the image encoder whose attention is stored; K: number of inputs, such as before, difference and after, to
which the decoder gives a weight for each word (0: the decoder gives no weights).

array                    type and shape            content
pair_id                  strings (P,)              pair of each caption
start                    integers (P + 1,)         words of caption p: word[start[p]:start[p + 1]]
word                     strings (T,)              words of all captions
map                      float16 (T, H, W)         attention, sums to 1; (T, I, H, W) unless I = 1
aligned_pair, alignment  strings (G,), float16 (G, N, N)        only if the images attend to each other
block_name               strings (B,)                           only if the image encoder has class tokens
block_pair, block        strings (G,), float16 (G, B, 2, H, W)  class-token attention in both images
weight_name, weight      strings (K,), float16 (T, K)           weights of decoder inputs, sum to 1; optional
exchanged                strings (P,)              captions of (after, before); only with decode.both_ways
of_weights, of_pairs     strings (1,)              sha256 of the weights' file and of the pairs' file
of_run                   strings (1,)              DATASET/MODEL/SEED
of_gate                  strings (1,)              "label"; only with decode.labelled_gate

A map takes 392 bytes at 14 x 14 cells. No array is a pickle.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from pipeline.datasets.schema import CHANGE, CHANGE_TYPES, NO_CHANGE, Pair
from pipeline.io.errors import InputError
from pipeline.io.inputs import opened
from pipeline.io.outputs import replacing

REMEDY = "run `dvc repro decode` to make it"
Origin = Literal["weights", "pairs", "run", "gate"]
ORIGINS: tuple[Origin, ...] = ("weights", "pairs", "run", "gate")
"""Hash of the weights' file, hash of the pairs' file, and name of the run that made the captions.

`gate` is "label" if the true kinds of change opened the model's gate, and missing otherwise.
"""
SUMS = {"map": (-2, -1), "block": (-2, -1), "weight": (-1,)}  # array -> axes over which its sums are 1
ALIGNED = 24  # pairs with alignments; the report's gallery shows some of them
ROUNDING = 0.01  # tolerance of a sum; rounding to float16 changes the sum of a map by at most 0.0005


@dataclass(frozen=True)
class Attended:
    """Caption with the attention maps of its words.

    Some decoders also weigh K input vectors at each word: for DUDA, the before image, the difference and
    the after image. `weights` has these weights.
    """

    words: tuple[str, ...]
    maps: np.ndarray  # float16, (words, I, H, W), each map sums to 1
    alignment: np.ndarray | None = None  # float16, (N, N): from the after image's cells to the before's
    blocks: Mapping[str, np.ndarray] | None = None  # block name -> float16, (2, H, W): class-token attention
    weighed: tuple[str, ...] = ()  # names of the K inputs that the decoder weighs
    weights: np.ndarray | None = None  # float16, (words, K), each row sums to 1; None if K is 0
    kind: str | None = None  # kind of change that the model's routers found; not in the file
    kind_probability: float | None = None

    @property
    def caption(self) -> str:
        return " ".join(self.words)

    @property
    def images(self) -> int:
        return self.maps.shape[1]

    @property
    def grid(self) -> tuple[int, int]:
        """Size of the grid of cells, (H, W)."""
        rows, columns = self.maps.shape[2:]
        return rows, columns

    def on(self, side: int) -> np.ndarray | None:
        """Return the maps on one image (0: before, 1: after), (words, H, W); None without attention."""
        return self.maps[:, min(side, self.images - 1)] if self.images else None


def attended(
    word_tokens: Sequence[tuple[str, int]],
    maps: np.ndarray,
    weighed: tuple[str, ...] = (),
    weights: np.ndarray | None = None,
) -> Attended:
    """Return a caption with the means of maps, (tokens, I, H, W), and weights, (tokens, K), by word."""
    words, counts = tuple(word for word, _ in word_tokens), [count for _, count in word_tokens]
    means = None if weights is None else _means(weights, counts)
    return Attended(words, _means(maps, counts), weighed=weighed, weights=means)


def _means(rows: np.ndarray, counts: Sequence[int]) -> np.ndarray:
    """Average the rows of each word's tokens: (tokens, ...) -> (words, ...), float16."""
    if not counts:
        return rows[:0].astype(np.float16)
    sums = np.add.reduceat(rows[: sum(counts)].astype(np.float32), np.cumsum([0, *counts[:-1]]))
    return (sums / np.reshape(counts, (-1, *[1] * (rows.ndim - 1)))).astype(np.float16)


def write(
    path: str | Path,
    attended: Mapping[str, Attended],
    origin: Mapping[Origin, str] | None = None,
    exchanged: Mapping[str, str] | None = None,
) -> None:
    """Write captions with their attention to the file `path`. Equal arguments give files of equal bytes.

    attended: pair id -> caption with attention; must not be empty
    origin: hash of the weights' file, hash of the pairs' file, and name of the run (keys: ORIGINS)
    exchanged: pair id -> caption of the pair's images in exchanged order, (after, before)
    """
    captions = list(attended.values())
    arrays: dict[str, np.ndarray] = {
        "pair_id": np.array(list(attended), dtype=np.str_),
        "start": np.cumsum([0, *(len(caption.words) for caption in captions)], dtype=np.int64),
        "word": np.array([word for caption in captions for word in caption.words], dtype=np.str_),
        "map": np.concatenate([caption.maps for caption in captions], dtype=np.float16),
    }
    if captions[0].images == 1:
        arrays["map"] = arrays["map"][:, 0]
    if alignments := {pair: c.alignment for pair, c in attended.items() if c.alignment is not None}:
        arrays["aligned_pair"] = np.array(list(alignments), dtype=np.str_)
        arrays["alignment"] = np.stack(list(alignments.values()), dtype=np.float16)
    if blocks := {pair: c.blocks for pair, c in attended.items() if c.blocks is not None}:
        arrays["block_pair"] = np.array(list(blocks), dtype=np.str_)
        arrays["block_name"] = np.array(list(next(iter(blocks.values()))), dtype=np.str_)
        arrays["block"] = np.stack([[*maps.values()] for maps in blocks.values()], dtype=np.float16)
    if weight_rows := [caption.weights for caption in captions if caption.weights is not None]:
        arrays["weight_name"] = np.array(captions[0].weighed, dtype=np.str_)
        arrays["weight"] = np.concatenate(weight_rows, dtype=np.float16)
    if exchanged is not None:
        arrays["exchanged"] = np.array([exchanged[pair] for pair in attended], dtype=np.str_)
    arrays |= {f"of_{name}": np.array([value], dtype=np.str_) for name, value in (origin or {}).items()}
    with replacing(path) as partial, partial.open("wb") as file:
        # not compressed, because the bytes of a compressor differ between versions
        np.savez(file, **arrays)  # type: ignore[arg-type]


def read(path: str | Path) -> dict[str, Attended]:
    """Return pair id -> caption with attention. Raises InputError if the file is missing or not valid."""
    with _arrays(path) as arrays:
        return dict(_attended({name: arrays[name] for name in arrays}))


def read_origin(path: str | Path) -> dict[Origin, str]:
    """Return the hashes and the name that `write` stored; the dictionary may be empty."""
    with _arrays(path) as arrays:
        return {name: str(arrays[f"of_{name}"][0]) for name in ORIGINS if f"of_{name}" in arrays}


def read_exchanged(path: str | Path) -> dict[str, str] | None:
    """Return pair id -> caption of its exchanged images, (after, before); None if there are none."""
    with _arrays(path) as arrays:
        if "exchanged" not in arrays:
            return None
        return dict(zip(arrays["pair_id"].tolist(), arrays["exchanged"].tolist(), strict=True))


@contextmanager
def _arrays(path: str | Path) -> Iterator[Mapping[str, np.ndarray]]:
    """Open the file for a `with` block, with arrays read on access; any exception becomes an InputError."""
    try:
        # np.load does not close a file that it opened itself if it fails
        with opened(path) as numbers, np.load(numbers, allow_pickle=False) as file:
            yield file
    except FileNotFoundError:
        raise InputError(f"{path} is missing; {REMEDY}") from None
    except InputError:
        raise
    except Exception as error:  # NumPy raises many kinds of exceptions on damaged headers
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path} does not hold attention maps ({reason}); {REMEDY} again") from None


def _attended(arrays: dict[str, np.ndarray]) -> Iterator[tuple[str, Attended]]:
    """Yield pair id and attention for each pair in a file's arrays, or raise KeyError or ValueError."""
    pairs, start, words, word_maps = (arrays[name] for name in ("pair_id", "start", "word", "map"))
    arrays["map"] = word_maps = word_maps[:, None] if word_maps.ndim == 3 else word_maps
    optional = ("aligned_pair", "block_pair", "block_name", "weight_name")
    aligned_pairs, block_pairs, block_names, weight_names = (
        arrays[name].tolist() if name in arrays else [] for name in optional
    )
    grid, cells = word_maps.shape[2:], math.prod(word_maps.shape[2:])
    shapes = {
        "start": (len(pairs) + 1,),
        "map": (len(words), min(2, word_maps.shape[1]), *grid),
        "alignment": (len(aligned_pairs), cells, cells),
        "block": (len(block_pairs), len(block_names), 2, *grid),
        "weight": (len(words), len(weight_names)),
    }
    for name, shape in shapes.items():
        _require(name not in arrays or arrays[name].shape == shape, name)
    for name, axes in SUMS.items():
        _require(name not in arrays or _sum_to_one(arrays[name], axes), name)
    _require(len(set(pairs.tolist())) == len(pairs), "pair_id")
    _require(len(set(weight_names)) == len(weight_names), "weight_name")
    _require(start[0] == 0 and start[-1] == len(words) and (np.diff(start) >= 0).all(), "start")
    alignments = dict(zip(aligned_pairs, arrays.get("alignment", ()), strict=True))
    class_token_maps = {
        pair: dict(zip(block_names, maps, strict=True))
        for pair, maps in zip(block_pairs, arrays.get("block", ()), strict=True)
    }
    weights = arrays.get("weight")
    for pair, first, stop in zip(pairs.tolist(), start[:-1], start[1:], strict=True):
        yield (
            pair,
            Attended(
                words=tuple(words[first:stop].tolist()),
                maps=word_maps[first:stop],
                alignment=alignments.get(pair),
                blocks=class_token_maps.get(pair),
                weighed=tuple(weight_names),
                weights=None if weights is None else weights[first:stop],
            ),
        )


def _sum_to_one(maps: np.ndarray, axes: tuple[int, ...]) -> bool:
    """Return True if all values are at least 0 and their sums over `axes` are 1; no value may be NaN."""
    sums = maps.sum(axes, dtype=np.float32)
    return bool((np.abs(sums - 1) <= ROUNDING).all() and (maps >= 0).all())


def _require(holds: bool | np.bool, array: str) -> None:
    if not holds:
        raise ValueError(f"the array {array} has a wrong shape or wrong values")


def gallery(pairs: Sequence[Pair], count: int) -> dict[str | None, list[Pair]]:
    """Choose up to `count` pairs by change type (None: unknown), those with alignments if these suffice."""
    if count > ALIGNED:
        return choose(pairs, count)
    return choose([pair for kind in choose(pairs, ALIGNED).values() for pair in kind], count)


def choose(pairs: Sequence[Pair], count: int) -> dict[str | None, list[Pair]]:
    """Choose up to `count` pairs; return change type -> pairs (None: unknown type).

    The types have equal numbers of pairs if possible. The pairs of a type are evenly spaced in `pairs`.
    """
    kinds = (*CHANGE_TYPES, CHANGE, NO_CHANGE, None)
    groups = {kind: [p for p in pairs if p.change_type == kind] for kind in kinds}
    counts = dict.fromkeys(groups, 0)
    for _ in range(min(count, sum(map(len, groups.values())))):
        # the first type among those with the smallest share so far
        least = min((kind for kind in groups if counts[kind] < len(groups[kind])), key=counts.__getitem__)
        counts[least] += 1
    return {
        kind: [members[number * len(members) // counts[kind]] for number in range(counts[kind])]
        for kind, members in groups.items()
        if counts[kind]
    }
