"""Count a dataset's pairs and captions, and compare the counts with published ones."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.datasets.schema import SPLITS, Pair, images_of, of_split
from pipeline.text import vocabularies

Counts = dict[str, Any]


def count(pairs: Sequence[Pair]) -> Counts:
    """Count the items of a dataset: per split, per change type, and of the whole dataset.

    `shared_images` is the number of images that are in more than one split. `references` has the smallest
    and the largest number of captions of a test pair. `mean_words` is the mean number of words of a
    caption.

    `vocabulary` and `longest` are counted in the training captions in lower case. `vocabulary` is the
    number of distinct words and special tokens. `longest` is the number of tokens of the longest caption,
    with special tokens.
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

    Published values include blank items, but `counts` does not. So the number of blank items
    (`left_out` in `expected`) is first subtracted from the published value.
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
