"""Read Spot-the-Diff (Jhamtani and Berg-Kirkpatrick, 2018): pairs of frames from surveillance videos.

An entry of the files has one annotator's sentences on a pair; 686 pairs have several entries. Published
scores use different protocols. A protocol makes items from the entries. An item is a pair to caption, with
its references.

66 sentences of the published files are empty. 60 entries have only empty sentences; they belong to 48 pairs,
of which 7 are in test. Empty sentences are dropped. Items without any sentence are dropped too, because they
cannot be used for training or scoring. The published counts, 8,566 / 1,493 / 1,270 pairs, include these
items.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from pipeline.datasets.annotations import Published, check_splits, written
from pipeline.datasets.schema import SPLITS, Pair
from pipeline.io.errors import InputError
from pipeline.io.records import read_foreign

FILES = tuple(f"annotations/{split}.json" for split in SPLITS)
OPTIONAL = ()
REMEDY = "data/README.md lists the files of Spot-the-Diff"
MULTI_WORDS = 60  # maximum number of words of the joined reference


class _Record(Published):
    img_id: Annotated[str, Field(pattern="^[0-9A-Za-z]{1,40}$")]
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Entry:
    """One annotator's sentences on a pair."""

    image: str
    number: int  # position among the entries of the same pair, counted from 1
    sentences: tuple[str, ...]  # without empty sentences


Items = Iterator[tuple[str, str, tuple[str, ...]]]
"""Tuples of pair id, image id and references."""


def _per_entry(entries: list[Entry]) -> Items:
    """Yield an item per entry, with the entry's sentences. 1,397 of the 1,404 test items have a sentence."""
    for entry in entries:
        yield f"{entry.image}-{entry.number}", entry.image, entry.sentences


def _merged(entries: list[Entry]) -> Items:
    """Yield an item per pair, with the sentences of all its entries (as CLIP4IDC and later papers do)."""
    merged: dict[str, tuple[str, ...]] = {}
    for entry in entries:
        merged[entry.image] = merged.get(entry.image, ()) + entry.sentences
    for image, sentences in merged.items():
        yield image, image, sentences


def _multi(entries: list[Entry]) -> Items:
    """Yield the items of `_merged`, with their sentences joined to one reference of at most 60 words."""
    for pair_id, image, sentences in _merged(entries):
        words = " ".join(sentences).split()[:MULTI_WORDS]
        yield pair_id, image, (" ".join(words),) if words else ()


_WAYS: dict[str, Callable[[list[Entry]], Items]] = {
    "merged": _merged,
    "per_entry": _per_entry,
    "multi": _multi,
}
PROTOCOLS = tuple(_WAYS)  # the first is the default
UNKNOWN_PROTOCOL = (
    'the "single change" file of SCORER and DIRL is not public, so their protocol cannot be rebuilt'
)


def read(root: Path, protocol: str) -> list[Pair]:
    """Return one pair per item of the protocol, in the order of the files.

    Raises InputError naming the file and the wrong entry.
    """
    entries = {split: _entries(root / f"annotations/{split}.json") for split in SPLITS}
    _check_disjoint(root, entries)
    pairs = [
        Pair(
            pair_id=pair_id,
            scene_id=image,
            split=split,
            before=f"resized_images/{image}.png",
            after=f"resized_images/{image}_2.png",
            captions=captions,
        )
        for split, own in entries.items()
        for pair_id, image, captions in _WAYS[protocol](own)
        if captions
    ]
    for split in SPLITS:
        check_splits(root / f"annotations/{split}.json", pairs, (split,))
    return pairs


def _entries(path: Path) -> list[Entry]:
    counts: Counter[str] = Counter()
    entries = []
    for record in read_foreign(path, tuple[_Record, ...], REMEDY):
        counts[record.img_id] += 1
        entries.append(Entry(record.img_id, counts[record.img_id], written(record.sentences)))
    return entries


def _check_disjoint(root: Path, entries: dict[str, list[Entry]]) -> None:
    where: dict[str, str] = {}
    for split, own in entries.items():
        for image in {entry.image: None for entry in own}:
            if image in where:
                raise InputError(
                    f"{root / f'annotations/{split}.json'}: img_id {image} is in "
                    f"{where[image]}.json too; leave it in one split"
                )
            where[image] = split
