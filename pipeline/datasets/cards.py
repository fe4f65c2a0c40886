"""Dataset cards: data/cards/<dataset>.yaml has a dataset's description, files and published counts.

The published counts are compared with those of the dataset's pairs and captions.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from pipeline.config.dataset_params import Strict
from pipeline.datasets.schema import SPLITS, Kind, Pair, images_of, of_split
from pipeline.io.inputs import read_yaml
from pipeline.io.records import checked
from pipeline.text import vocabularies

FOLDER = Path("data/cards")
DEFAULT = "default"  # key of the published counts if the dataset has no protocols
REMEDY = "restore it with git"
Number = Annotated[int, Field(ge=0)]
Language = Annotated[str, Field(pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$")]
"""Code of a language, such as en or zh-Hant (BCP 47)."""


class Split(Strict):
    """Published counts of one split. A count is None if it is not published."""

    pairs: Number
    scenes: Number | None = None
    images: Number | None = None
    captions: Number | None = None
    left_out: dict[Literal["pairs", "captions"], Number] | None = None  # blank items, which readers leave out


class Expected(Strict):
    """Published counts of a dataset, including blank items, which readers leave out. None: not published.

    The function `count` defines each count. `types` has the number of pairs of each change type.
    `references` has the smallest and the largest number of captions of a test pair. `longest` is the
    number of tokens of the longest training caption.
    """

    train: Split
    val: Split
    test: Split
    types: dict[Literal[Kind, "unknown"], Number] | None = None
    pairs: Number | None = None
    images: Number | None = None
    captions: Number | None = None
    references: dict[Literal["fewest", "most"], Number] | None = None
    vocabulary: Number | None = None
    longest: Number | None = None


class Licence(Strict):
    """Licence of a dataset's images and captions."""

    name: str = Field(min_length=1)  # an identifier such as cc-by-4.0; `not stated` without one
    copying: bool  # True if everybody may publish copies
    terms: str = Field(min_length=1)  # where the licence is stated, or why copies are not allowed


class Card(Strict):
    """Description of one dataset."""

    name: str
    citation: str
    source: str  # where to get it
    language: Language | list[Language] | None = None  # of the captions; None: not stated
    licence: Licence | None = None  # None: the licence is unknown, so nobody may publish copies
    files: dict[str, str] = Field(min_length=1)  # path -> meaning; {} in a path is any number or name
    size: str | None = None
    notes: tuple[str, ...] = Field(default=(), strict=False)
    expected: dict[str, Expected] | None = None  # protocol, or DEFAULT -> published counts

    def counts(self, protocol: str | None) -> dict[str, Any] | None:
        """Return a protocol's published counts (None: DEFAULT), with the keys of Expected, or None."""
        published = (self.expected or {}).get(DEFAULT if protocol is None else protocol)
        return None if published is None else published.model_dump(exclude_none=True)


def path_of(dataset: str) -> Path:
    return FOLDER / f"{dataset}.yaml"


def load(path: Path) -> Card:
    return checked(Card, read_yaml(path, REMEDY), str(path), "correct it")


Counts = dict[str, Any]


def count(pairs: Sequence[Pair]) -> Counts:
    """Count the items of a dataset: per split, per change type, and of the whole dataset.

    `shared_images` are in more than one split. `references` are the smallest and the largest number of
    captions of a test pair. `vocabulary` and `longest` (in tokens) count special tokens, in training captions
    in lower case.
    """
    splits = {split: of_split(pairs, split) for split in SPLITS}
    images = {split: set(images_of(split_pairs)) for split, split_pairs in splits.items()}
    splits_of_image = Counter(image for split_pairs in images.values() for image in split_pairs)
    training_captions = [caption for pair in splits["train"] for caption in pair.captions]
    words = vocabularies.count_words(training_captions, lower_case=True)
    lengths = [len(caption.split()) for pair in pairs for caption in pair.captions]
    reference_counts = [len(pair.captions) for pair in splits["test"]]
    return {
        **{split: _of_split(split_pairs, len(images[split])) for split, split_pairs in splits.items()},
        "types": dict(Counter("unknown" if pair.change_type is None else pair.change_type for pair in pairs)),
        "pairs": len(pairs),
        "images": len(splits_of_image),
        "captions": len(lengths),
        "shared_images": sum(number > 1 for number in splits_of_image.values()),
        "references": {"fewest": min(reference_counts, default=0), "most": max(reference_counts, default=0)},
        "vocabulary": len(vocabularies.SPECIAL) + len(words),
        "longest": vocabularies.longest_of(training_captions, lower_case=True),
        "mean_words": round(sum(lengths) / max(len(lengths), 1), 2),
    }


def _of_split(pairs: Sequence[Pair], images: int) -> dict[str, int]:
    return {
        "pairs": len(pairs),
        "scenes": len({pair.scene_id for pair in pairs}),
        "images": images,
        "captions": sum(len(pair.captions) for pair in pairs),
    }


def differences(counts: Counts, expected: Mapping[str, Any]) -> list[str]:
    """Return a message for each count that differs from its published value in `expected`.

    Published values include blank items, whose number, `left_out` in `expected`, is first subtracted.
    """
    messages = []
    for key, value in expected.items():
        is_group = isinstance(value, Mapping)  # a number is a count of the whole dataset
        published, counted = (value, counts[key]) if is_group else ({key: value}, counts)
        group = key if is_group else "total"
        left_out = published.get("left_out", {})
        for item, number in published.items():
            blank = left_out.get(item, 0)
            if item != "left_out" and counted.get(item, 0) != number - blank:
                note = f" ({blank:,} blank)" if blank else ""
                messages.append(f"{group}: {counted.get(item, 0):,} {item}, published {number:,}{note}")
    return messages
