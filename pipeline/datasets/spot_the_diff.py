"""Read Spot-the-Diff (Jhamtani and Berg-Kirkpatrick, 2018): pairs of frames from surveillance videos.

An entry of the files has one annotator's sentences on a pair; 686 pairs have several entries. An item
is a pair to caption, with its references. A protocol defines how items are made from entries.

66 sentences of the published files are empty, and are dropped. An item without any other sentence is
dropped, too. This concerns 48 pairs, 7 of them in test. The published counts, 8,566 / 1,493 / 1,270
pairs, include the dropped items.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from pipeline.datasets.annotations import Annotation, check_splits, not_blank
from pipeline.datasets.manifest import LeftOut
from pipeline.datasets.schema import SPLITS, Pair
from pipeline.io.errors import InputError
from pipeline.io.records import read_foreign

FILES = tuple(f"annotations/{split}.json" for split in SPLITS)
REMEDY = "data/README.md lists the files of Spot-the-Diff"
MULTI_WORDS = 60  # maximum number of words of the joined reference


class SpotTheDiffEntry(Annotation):
    """One annotator's sentences on a pair."""

    img_id: Annotated[str, Field(pattern="^[0-9A-Za-z]{1,40}$")]
    sentences: Annotated[tuple[str, ...], AfterValidator(not_blank)]  # without empty sentences


Items = Iterator[tuple[str, str, tuple[str, ...]]]
"""Tuples of pair id, image id and references."""


def _per_entry(entries: Sequence[SpotTheDiffEntry]) -> Items:
    """Yield an item per entry, with the id <id of the pair>-<number of the entry, from 1>."""
    counts: dict[str, int] = {}
    for entry in entries:
        number = counts[entry.img_id] = counts.get(entry.img_id, 0) + 1
        yield f"{entry.img_id}-{number}", entry.img_id, entry.sentences


def _merged(entries: Sequence[SpotTheDiffEntry]) -> Items:
    """Yield an item per pair, with all annotators' sentences (as CLIP4IDC and later papers do)."""
    merged: dict[str, tuple[str, ...]] = {}
    for entry in entries:
        merged[entry.img_id] = merged.get(entry.img_id, ()) + entry.sentences
    for image, sentences in merged.items():
        yield image, image, sentences


def _multi(entries: Sequence[SpotTheDiffEntry]) -> Items:
    """Yield pairs with one reference each: all sentences, cut after MULTI_WORDS words."""
    for pair_id, image, sentences in _merged(entries):
        words = " ".join(sentences).split()[:MULTI_WORDS]
        yield pair_id, image, (" ".join(words),) if words else ()


_ITEMS_OF: dict[str, Callable[[Sequence[SpotTheDiffEntry]], Items]] = {
    "merged": _merged,
    "per_entry": _per_entry,
    "multi": _multi,
}
PROTOCOLS = tuple(_ITEMS_OF)  # the first is the default


def _entries(root: Path) -> Iterator[tuple[str, Path, tuple[SpotTheDiffEntry, ...]]]:
    """Yield each split with its file and its entries, in the order of SPLITS."""
    for split in SPLITS:
        path = root / f"annotations/{split}.json"
        yield split, path, read_foreign(path, tuple[SpotTheDiffEntry, ...], REMEDY)


def _images(image: str) -> tuple[str, str]:
    return f"resized_images/{image}.png", f"resized_images/{image}_2.png"


def left_out(root: Path, protocol: str) -> LeftOut:
    """Return the items without a sentence, which `read` drops: split -> pair id -> images."""
    return {
        split: {
            pair_id: _images(image)
            for pair_id, image, captions in _ITEMS_OF[protocol](entries)
            if not captions
        }
        for split, _, entries in _entries(root)
    }


def read(root: Path, protocol: str) -> list[Pair]:
    """Return one pair per item of the protocol, in the files' order, without items that have no sentence."""
    pairs: list[Pair] = []
    splits: dict[str, str] = {}  # image -> split
    for split, path, entries in _entries(root):
        for entry in entries:
            if (other_split := splits.setdefault(entry.img_id, split)) != split:
                raise InputError(
                    f"{path}: img_id {entry.img_id} is in {other_split}.json too; leave it in one split"
                )
        pairs += [
            Pair(
                pair_id=pair_id,
                scene_id=image,
                split=split,
                before=_images(image)[0],
                after=_images(image)[1],
                captions=captions,
            )
            for pair_id, image, captions in _ITEMS_OF[protocol](entries)
            if captions
        ]
        check_splits(path, pairs, (split,))
    return pairs
