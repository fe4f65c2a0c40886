"""Notes on how captions will be cut into words, where that is not what their writer may expect."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from pipeline.vocabularies import count_words

# scripts that put no spaces between words: Thai to Khmer, Chinese and Japanese
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]{3,}"
)
EDGES = re.compile(r"^[\W_]+|[\W_]+$")


def notes(captions: Sequence[str], lower_case: bool) -> list[str]:
    """Return notes on words without spaces between them, and on words that differ by punctuation alone."""
    found = []
    if unspaced := [caption for caption in captions if UNSPACED.search(caption)]:
        found.append(
            f"{len(unspaced):,} captions have no spaces between words, such as {unspaced[0]!r}: what is "
            "between spaces is one word, here as in COCO's tokeniser; put spaces between the words"
        )
    if alike := _alike(count_words(captions, lower_case)):
        shown = ", ".join(map(repr, alike[0]))
        found.append(
            f"{len(alike):,} words have several forms that differ by punctuation alone, such as {shown}: "
            "each form is a word of its own"
        )
    return found


def _alike(words: Iterable[str]) -> list[list[str]]:
    """Return the groups of words that differ by the signs around them alone."""
    groups: dict[str, list[str]] = defaultdict(list)
    for word in words:
        groups[EDGES.sub("", word)].append(word)
    return [group for core, group in groups.items() if core and len(group) > 1]
