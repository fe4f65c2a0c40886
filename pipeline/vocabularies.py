"""Captions as token ids and back (docs/methods.md, "Special tokens and tokenisation"; SCORER section 4.2)."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from pipeline.errors import InputError
from pipeline.outputs import read_json, write_json

NULL, UNK, START, END = 0, 1, 2, 3
SPECIAL = ("<NULL>", "<UNK>", "<START>", "<END>")
PCL_MARKS = ("<PAD>", "<UNK>", "<BOS>", "<EOS>")  # the same in IDC-PCL's files, at any ids
PCL_OTHERS = ("<MASK>", "<CLS>")  # which its model has beside the vocabulary


def tokenise(caption: str, lower_case: bool) -> list[str]:
    """Split a caption: `,` and `;` stand alone, `?` and `.` go, white space separates."""
    if lower_case:
        caption = caption.lower()
    for mark in ",;":
        caption = caption.replace(mark, f" {mark}")
    for mark in "?.":
        caption = caption.replace(mark, "")
    return caption.split()


@dataclass(frozen=True)
class Vocabulary:
    """Words and their ids: the four special tokens first, then the training words in sorted order."""

    words: tuple[str, ...]  # by id
    longest: int  # tokens of the longest training caption, with both marks
    lower_case: bool

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def ids(self) -> dict[str, int]:
        """Word -> id."""
        return {word: number for number, word in enumerate(self.words)}

    def encode(self, caption: str) -> list[int]:
        """Token ids, <START> … <END>, cut to `longest`; unknown words become <UNK>."""
        words = tokenise(caption, self.lower_case)[: self.longest - 2]
        # a caption may hold the text of a special token: it is a word like any other, and unknown
        known = [UNK if word in SPECIAL else self.ids.get(word, UNK) for word in words]
        return [START, *known, END]

    def decode(self, tokens: Iterable[int]) -> str:
        """The words up to <END>, without special tokens, joined by spaces."""
        words = []
        for token in tokens:
            if token == END:
                break
            if token not in (NULL, START):
                words.append(self.words[token])
        return " ".join(words)


def count_words(captions: Iterable[str], lower_case: bool) -> Counter[str]:
    """How often each word stands in the captions."""
    return Counter(word for caption in captions for word in tokenise(caption, lower_case))


def longest_of(captions: Iterable[str], lower_case: bool, max_tokens: int | None = None) -> int:
    """Tokens of the longest caption, with both marks; at most `max_tokens`, which longer ones are cut to."""
    longest = 2 + max((len(tokenise(caption, lower_case)) for caption in captions), default=0)
    return longest if max_tokens is None else min(longest, max_tokens)


def build(captions: list[str], min_count: int, lower_case: bool, max_tokens: int | None = None) -> Vocabulary:
    """The vocabulary of the training captions: words that stand in them at least `min_count` times."""
    counts = count_words(captions, lower_case)
    words = sorted(word for word, count in counts.items() if count >= min_count and word not in SPECIAL)
    return Vocabulary((*SPECIAL, *words), longest_of(captions, lower_case, max_tokens), lower_case)


def fixed(
    path: str | Path, captions: list[str], lower_case: bool, max_tokens: int | None = None
) -> Vocabulary:
    """A given vocabulary: a JSON file of word -> id, as the released programs write it.

    IDC-PCL's have other marks, which become ours.
    """
    table = read_json(path, "name a JSON file of word -> id, or null")
    if not isinstance(table, dict) or not all(type(number) is int for number in table.values()):
        raise InputError(f"{path} must map words to ids; see data/README.md")
    words = sorted(table, key=table.__getitem__)
    if {*PCL_MARKS, *PCL_OTHERS} <= table.keys():
        words = [*SPECIAL, *(word for word in words if word not in (*PCL_MARKS, *PCL_OTHERS))]
        return Vocabulary(tuple(words), longest_of(captions, lower_case, max_tokens), lower_case)
    if sorted(table.values()) != list(range(len(table))) or tuple(words[:4]) != SPECIAL:
        raise InputError(f"{path}: ids must run from 0 without gaps, beginning with {' '.join(SPECIAL)}")
    return Vocabulary(tuple(words), longest_of(captions, lower_case, max_tokens), lower_case)


def save(path: str | Path, vocabulary: Vocabulary, counts: Counter[str]) -> None:
    """Write ids, training counts, the longest caption and how captions are read."""
    write_json(
        path,
        {
            "ids": vocabulary.ids,
            "counts": dict(counts),
            "longest": vocabulary.longest,
            "lower_case": vocabulary.lower_case,
        },
    )


def load(path: str | Path) -> Vocabulary:
    """Read what `save` wrote."""
    record = read_json(path, "run `dvc repro vocab` to make it")
    try:
        ids = record["ids"]
        return Vocabulary(tuple(sorted(ids, key=ids.__getitem__)), record["longest"], record["lower_case"])
    except (KeyError, TypeError) as error:
        raise InputError(f"{path} is not a vocabulary ({error}); run `dvc repro vocab` to make it") from None


def pad(sequences: list[list[int]]) -> np.ndarray:
    """Token ids as one int64 array (captions x longest), filled with <NULL>."""
    padded = np.full((len(sequences), max(map(len, sequences))), NULL, dtype=np.int64)
    for row, sequence in zip(padded, sequences, strict=True):
        row[: len(sequence)] = sequence
    return padded
