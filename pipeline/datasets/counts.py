"""How much a dataset holds, to stand beside the published counts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.datasets.schema import SPLITS, Pair, images_of, of_split
from pipeline.text import vocabularies

Counts = dict[str, Any]
PLACES = {"": "the whole has", "types": "of the types there are"}  # in words; else the split


def count(pairs: Sequence[Pair]) -> Counts:
    """Numbers of each split (pairs, scenes, images, captions), of the types, and of the whole.

    `images`: distinct ones; `shared_images`: those that stand in more than one split. `references`: the
    fewest and the most captions of a test pair. `vocabulary` and `longest`: as a model with
    text.min_count 1, lower case and no cut would have them (special tokens and marks included),
    from the training captions. `mean_words`: of a caption, in words between white space.
    """
    splits = {split: of_split(pairs, split) for split in SPLITS}
    images = {split: set(images_of(own)) for split, own in splits.items()}
    times = Counter(image for own in images.values() for image in own)
    training = [caption for pair in splits["train"] for caption in pair.captions]
    words = [len(caption.split()) for pair in pairs for caption in pair.captions]
    references = [len(pair.captions) for pair in splits["test"]]
    return {
        **{split: _of_split(own, len(images[split])) for split, own in splits.items()},
        "types": dict(Counter("unknown" if p.change_type is None else p.change_type for p in pairs)),
        "pairs": len(pairs),
        "images": len(times),
        "captions": len(words),
        "shared_images": sum(number > 1 for number in times.values()),
        "references": {"fewest": min(references, default=0), "most": max(references, default=0)},
        "vocabulary": len(vocabularies.SPECIAL) + len(vocabularies.count_words(training, lower_case=True)),
        "longest": vocabularies.longest_of(training, lower_case=True),
        "mean_words": round(sum(words) / max(len(words), 1), 2),
    }


def _of_split(pairs: Sequence[Pair], images: int) -> dict[str, int]:
    return {
        "pairs": len(pairs),
        "scenes": len({pair.scene_id for pair in pairs}),
        "images": images,
        "captions": sum(len(pair.captions) for pair in pairs),
    }


def differences(counts: Counts, expected: Mapping[str, Any]) -> list[str]:
    """Where `counts` are not as `expected`, in words: "train has 8,560 pairs, published 8,566"; what is
    not expected is not compared.

    A split's `left_out` is how many of the published pairs and captions say nothing, and are not read.
    """
    return [
        f"{PLACES.get(where, f'{where} has')} {ours:,} {what}, published {published:,}"
        + (f" ({left_out:,} of them say nothing)" if left_out else "")
        for where, what, ours, published, left_out in compared(counts, expected)
        if ours != published - left_out
    ]


def compared(counts: Counts, expected: Mapping[str, Any]) -> list[tuple[str, str, int, int, int]]:
    """(split, "types" or "" for the whole; what; ours; published; of these left out), one a number."""
    rows = []
    for key, value in expected.items():
        if not isinstance(value, Mapping):
            rows.append(("", key, counts[key], value, 0))
            continue
        left_out = value.get("left_out", {})
        rows += [
            (key, what, counts[key].get(what, 0), number, left_out.get(what, 0))
            for what, number in value.items()
            if what != "left_out"
        ]
    return [(where, what.replace("_", " "), *numbers) for where, what, *numbers in rows]
