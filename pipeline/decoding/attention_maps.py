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
Origin = Literal["weights", "pairs", "run"]
ORIGINS: tuple[Origin, ...] = ("weights", "pairs", "run")
"""Hash of the weights' file, hash of the pairs' file, and name of the run that made the captions."""
SUMS = {"map": (-2, -1), "block": (-2, -1), "weight": (-1,)}  # array -> axes over which its sums are 1
ALIGNED = 24  # pairs with alignments; the report's gallery shows some of them
ROUNDING = 0.01  # tolerance of a sum; rounding to float16 changes the sum of a map by at most 0.0005


@dataclass(frozen=True)
class Attended:
    """Caption with the attention maps of its words, and the weights that the decoder gives to its inputs."""

    words: tuple[str, ...]
    maps: np.ndarray  # float16, (words, I, H, W), each map sums to 1
    alignment: np.ndarray | None = None  # float16, (N, N): from the after image's cells to the before's
    blocks: Mapping[str, np.ndarray] | None = None  # block name -> float16, (2, H, W): class-token attention
    weighed: tuple[str, ...] = ()  # names of the K inputs that the decoder weighs
    weights: np.ndarray | None = None  # float16, (words, K), each row sums to 1; None if K is 0

    @property
    def caption(self) -> str:
        """Text of the caption, as in captions.json."""
        return " ".join(self.words)

    @property
    def images(self) -> int:
        """Number of maps per word, I."""
        return self.maps.shape[1]

    @property
    def grid(self) -> tuple[int, int]:
        """Size of the grid of cells, (H, W)."""
        rows, columns = self.maps.shape[2:]
        return rows, columns

    def on(self, side: int) -> np.ndarray | None:
        """Return the words' maps on one image, (words, H, W).

        `side` is 0 for the before image, and 1 for the after image. If a word has a single map for both
        images, this map is returned. Without attention, the result is None.
        """
        return self.maps[:, min(side, self.images - 1)] if self.images else None


def attended(
    spoken: Sequence[tuple[str, int]],
    maps: np.ndarray,
    weighed: tuple[str, ...] = (),
    weights: np.ndarray | None = None,
) -> Attended:
    """Return a caption whose words have the mean maps and weights of their tokens.

    spoken: each word with its number of tokens
    maps: maps of the tokens, (tokens, I, H, W)
    weighed: names of the K inputs to which the decoder gives weights
    weights: weights of the tokens, (tokens, K)
    """
    words, counts = tuple(word for word, _ in spoken), [count for _, count in spoken]
    own = None if weights is None else _means(weights, counts)
    return Attended(words, _means(maps, counts), weighed=weighed, weights=own)


def _means(rows: np.ndarray, counts: Sequence[int]) -> np.ndarray:
    """Average the values of each word's tokens: (tokens, ...) becomes (words, ...), float16."""
    if not counts:
        return rows[:0].astype(np.float16)
    summed = np.add.reduceat(rows[: sum(counts)].astype(np.float32), np.cumsum([0, *counts[:-1]]))
    return (summed / np.reshape(counts, (-1, *[1] * (rows.ndim - 1)))).astype(np.float16)


def write(
    path: str | Path,
    attended: Mapping[str, Attended],
    origin: Mapping[Origin, str] | None = None,
    exchanged: Mapping[str, str] | None = None,
) -> None:
    """Write captions with their attention. Equal arguments give files of equal bytes.

    attended: pair id -> caption with attention; must not be empty
    origin: see ORIGINS
    exchanged: pair id -> caption of the pair's images in exchanged order, (after, before)
    """
    captions = list(attended.values())
    arrays: dict[str, np.ndarray] = {
        "pair_id": np.array(list(attended), dtype=np.str_),
        "start": np.cumsum([0, *(len(each.words) for each in captions)], dtype=np.int64),
        "word": np.array([word for each in captions for word in each.words], dtype=np.str_),
        "map": np.concatenate([each.maps for each in captions], dtype=np.float16),
    }
    if captions[0].images == 1:
        arrays["map"] = arrays["map"][:, 0]
    if aligned := {pair: each.alignment for pair, each in attended.items() if each.alignment is not None}:
        arrays["aligned_pair"] = np.array(list(aligned), dtype=np.str_)
        arrays["alignment"] = np.stack(list(aligned.values()), dtype=np.float16)
    if own := {pair: each.blocks for pair, each in attended.items() if each.blocks is not None}:
        arrays["block_pair"] = np.array(list(own), dtype=np.str_)
        arrays["block_name"] = np.array(list(next(iter(own.values()))), dtype=np.str_)
        arrays["block"] = np.stack([np.stack(list(maps.values())) for maps in own.values()], dtype=np.float16)
    if shares := [each.weights for each in captions if each.weights is not None]:
        arrays["weight_name"] = np.array(captions[0].weighed, dtype=np.str_)
        arrays["weight"] = np.concatenate(shares, dtype=np.float16)
    if exchanged is not None:
        arrays["exchanged"] = np.array([exchanged[pair] for pair in attended], dtype=np.str_)
    arrays |= {f"of_{name}": np.array([value], dtype=np.str_) for name, value in (origin or {}).items()}
    with replacing(path) as beside, beside.open("wb") as file:
        # not compressed, because the bytes of a compressor differ between versions
        np.savez(file, **arrays)  # type: ignore[arg-type]


def read(path: str | Path) -> dict[str, Attended]:
    """Return pair id -> caption with attention. Raises InputError if the file is missing or not valid."""
    with _arrays(path) as arrays:
        return dict(_attended({name: arrays[name] for name in arrays}))


def read_origin(path: str | Path) -> dict[Origin, str]:
    """Return the `origin` that was given to `write`. Raises InputError as `read` does."""
    with _arrays(path) as arrays:
        return {name: str(arrays[f"of_{name}"][0]) for name in ORIGINS if f"of_{name}" in arrays}


def read_exchanged(path: str | Path) -> dict[str, str] | None:
    """Return pair id -> caption of (after, before); None if there are none. Raises InputError like `read`."""
    with _arrays(path) as arrays:
        if "exchanged" not in arrays:
            return None
        return dict(zip(arrays["pair_id"].tolist(), arrays["exchanged"].tolist(), strict=True))


@contextmanager
def _arrays(path: str | Path) -> Iterator[Mapping[str, np.ndarray]]:
    """Open the file in a `with` statement, which gets name -> array.

    An array is read from the file when it is accessed. Errors in the `with` statement, and a missing file,
    become InputErrors.
    """
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
    """Yield (pair id, caption with attention). Raises KeyError or ValueError for arrays that do not fit."""
    pairs, start, words, maps = (arrays[name] for name in ("pair_id", "start", "word", "map"))
    arrays["map"] = maps = maps[:, None] if maps.ndim == 3 else maps
    optional = ("aligned_pair", "block_pair", "block_name", "weight_name")
    aligned, blocked, blocks, weighed = (arrays[name].tolist() if name in arrays else [] for name in optional)
    grid, cells = maps.shape[2:], math.prod(maps.shape[2:])
    shapes = {
        "start": (len(pairs) + 1,),
        "map": (len(words), min(2, maps.shape[1]), *grid),
        "alignment": (len(aligned), cells, cells),
        "block": (len(blocked), len(blocks), 2, *grid),
        "weight": (len(words), len(weighed)),
    }
    for name, shape in shapes.items():
        _demand(name not in arrays or arrays[name].shape == shape, name)
    for name, axes in SUMS.items():
        _demand(name not in arrays or _shares(arrays[name], axes), name)
    _demand(len(set(pairs.tolist())) == len(pairs), "pair_id")
    _demand(len(set(weighed)) == len(weighed), "weight_name")
    _demand(start[0] == 0 and start[-1] == len(words) and (np.diff(start) >= 0).all(), "start")
    alignments = dict(zip(aligned, arrays.get("alignment", ()), strict=True))
    of_blocks = {
        pair: dict(zip(blocks, own, strict=True))
        for pair, own in zip(blocked, arrays.get("block", ()), strict=True)
    }
    weights = arrays.get("weight")
    for pair, first, end in zip(pairs.tolist(), start[:-1], start[1:], strict=True):
        yield (
            pair,
            Attended(
                words=tuple(words[first:end].tolist()),
                maps=maps[first:end],
                alignment=alignments.get(pair),
                blocks=of_blocks.get(pair),
                weighed=tuple(weighed),
                weights=None if weights is None else weights[first:end],
            ),
        )


def _shares(maps: np.ndarray, axes: tuple[int, ...]) -> bool:
    """Return True if all values are at least 0 and their sums over `axes` are 1; no value may be NaN."""
    sums = maps.sum(axes, dtype=np.float32)
    return bool((np.abs(sums - 1) <= ROUNDING).all() and (maps >= 0).all())


def _demand(holds: bool | np.bool, array: str) -> None:
    if not holds:
        raise ValueError(f"the array {array} has a wrong shape or wrong values")


def gallery(pairs: Sequence[Pair], count: int) -> dict[str | None, list[Pair]]:
    """Choose up to `count` pairs, and return change type -> pairs, as `choose` does.

    If `count` is at most ALIGNED, the pairs are chosen among the ALIGNED pairs that have alignments.
    """
    if count > ALIGNED:
        return choose(pairs, count)
    return choose([pair for kind in choose(pairs, ALIGNED).values() for pair in kind], count)


def choose(pairs: Sequence[Pair], count: int) -> dict[str | None, list[Pair]]:
    """Choose up to `count` pairs; return change type -> pairs (None: unknown type).

    The types have equal numbers of pairs if possible. The pairs of a type are evenly spaced in `pairs`.
    """
    order = (*CHANGE_TYPES, CHANGE, NO_CHANGE, None)
    kinds = {kind: [p for p in pairs if p.change_type == kind] for kind in order}
    shares = dict.fromkeys(kinds, 0)
    for _ in range(min(count, sum(map(len, kinds.values())))):
        # the first type among those with the smallest share so far
        least = min((kind for kind in kinds if shares[kind] < len(kinds[kind])), key=shares.__getitem__)
        shares[least] += 1
    return {
        kind: [members[number * len(members) // shares[kind]] for number in range(shares[kind])]
        for kind, members in kinds.items()
        if shares[kind]
    }
