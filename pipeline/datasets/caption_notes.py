"""Notes on how captions will be cut into words, where that is not what their writer may expect."""

import re
import unicodedata
from collections.abc import Sequence

from pipeline.text.vocabularies import count_words

# scripts that put no spaces between words: Thai to Khmer, Chinese and Japanese
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]{3,}"
)


def notes(captions: Sequence[str], lower_case: bool) -> list[str]:
    """Return notes on words without spaces between them, and on words with punctuation at their edges."""
    found = []
    if unspaced := [caption for caption in captions if UNSPACED.search(caption)]:
        found.append(
            f"{len(unspaced):,} captions have no spaces between words, such as {unspaced[0]!r}: what is "
            "between spaces is one word, here as in COCO's tokeniser; put spaces between the words"
        )
    words = count_words(captions, lower_case)
    if signed := [word for word in words if _bare(word) not in ("", word)]:
        found.append(
            f"{len(signed):,} words have signs at their edges, such as {signed[0]!r}: each is a word of "
            "its own, as only . ? , and ; are taken off"
        )
    return found


def _bare(word: str) -> str:
    """Return a word without the punctuation and symbols around it."""
    return word.strip("".join(sign for sign in set(word) if unicodedata.category(sign)[0] in "PS"))
