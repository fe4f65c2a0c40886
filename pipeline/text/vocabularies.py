"""Captions as token ids and back (docs/methods.md, "Special tokens and tokenisation"; SCORER section 4.2)."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Protocol

import numpy as np
from pydantic import AfterValidator, Field

from pipeline.config.dataset_params import Count, Strict
from pipeline.io import content_hashes
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_json
from pipeline.io.outputs import write_json
from pipeline.io.records import checked
from pipeline.text.clip_bpe import bpe

REMEDY = "run `dvc repro vocab` to make it"
PAIRS = "pairs"  # in `hashes`: the file whose training captions were counted
NULL, UNK, START, END = 0, 1, 2, 3
SPECIAL = ("<NULL>", "<UNK>", "<START>", "<END>")
PCL_MARKS = ("<PAD>", "<UNK>", "<BOS>", "<EOS>")  # the same in IDC-PCL's files, at any ids
PCL_OTHERS = ("<MASK>", "<CLS>")  # which its model has behind the vocabulary, and may write
MCC_MARKS = ("<pad>", "<unk>", "<start>", "<end>")  # of MCCFormers' files, also at any ids
FOREIGN_MARKS = ((*PCL_MARKS, *PCL_OTHERS), MCC_MARKS)
CLIP_START, CLIP_END = 49_406, 49_407  # the marks in CLIP's own numbering
CLIP_LONGEST = 33  # <START> and 32 tokens, <END> among them: what CLIP4IDC's captioner reads and predicts


class Vocabulary(Protocol):
    """Tokens and their ids; NULL, START and END are the same in each."""

    @property
    def longest(self) -> int:
        """Tokens of the longest training caption, with both marks."""

    def __len__(self) -> int: ...

    def encode(self, caption: str) -> list[int]:
        """Token ids, <START> … <END>, cut to `longest`."""

    def spoken(self, tokens: Iterable[int]) -> list[tuple[str, int]]:
        """The words up to <END>, each with how many tokens it is made of."""

    def decode(self, tokens: Iterable[int]) -> str:
        """The words up to <END>, joined by spaces."""


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
class WordVocabulary:
    """Words and their ids: the four special tokens first, then the training words in sorted order."""

    words: tuple[str, ...]  # by id
    longest: int  # tokens of the longest training caption, with both marks
    lower_case: bool
    marks: int = 2  # of `longest`, those that no word takes

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def ids(self) -> dict[str, int]:
        """Word -> id."""
        return {word: number for number, word in enumerate(self.words)}

    def encode(self, caption: str) -> list[int]:
        """Token ids, <START> … <END>, cut to `longest`; unknown words become <UNK>."""
        words = tokenise(caption, self.lower_case)[: self.longest - self.marks]
        # a caption may hold the text of a special token: it is a word like any other, and unknown
        known = [UNK if word in SPECIAL else self.ids.get(word, UNK) for word in words]
        return [START, *known, END]

    def spoken(self, tokens: Iterable[int]) -> list[tuple[str, int]]:
        """The words up to <END>, of one token each; <NULL> and <START> are none."""
        names = (*self.words, *PCL_OTHERS)
        return [(names[token], 1) for token in said(tokens)]

    def decode(self, tokens: Iterable[int]) -> str:
        """The words up to <END>, joined by spaces."""
        return " ".join(word for word, _ in self.spoken(tokens))


@dataclass(frozen=True)
class ClipVocabulary:
    """CLIP's byte-level BPE: ids are CLIP's, but that both marks have changed places with 2 and 3.

    So the marks are every model's, and there are as many ids as CLIP has. NULL is CLIP's padding, and the
    sign "!" where no piece ends with it; UNK such a quotation mark.
    """

    longest: int
    marks: int = 2  # of `longest`, those that no piece takes

    def __len__(self) -> int:
        return len(bpe())

    def encode(self, caption: str) -> list[int]:
        """Token ids, <START> … <END>, cut to `longest`."""
        return [START, *map(exchanged, bpe().encode(caption)[: self.longest - self.marks]), END]

    def spoken(self, tokens: Iterable[int]) -> list[tuple[str, int]]:
        """The pieces up to <END>, each with how many tokens it is made of; a last one may lack its end."""
        pieces: list[list[int]] = [[]]
        for token in said(tokens):
            pieces[-1].append(exchanged(token))
            if bpe().ends_word(pieces[-1][-1]):
                pieces.append([])
        return [(bpe().text(piece), len(piece)) for piece in pieces if piece]

    def decode(self, tokens: Iterable[int]) -> str:
        """The pieces up to <END>, joined by spaces."""
        return " ".join(piece for piece, _ in self.spoken(tokens))


def exchanged(number: int) -> int:
    """CLIP's number of an id, or the id of CLIP's number."""
    return {START: CLIP_START, END: CLIP_END, CLIP_START: START, CLIP_END: END}.get(number, number)


def said(tokens: Iterable[int]) -> list[int]:
    """Those before the first <END>, without <NULL> and <START>."""
    tokens = list(tokens)
    return [tokens[place] for place in said_at(tokens)]


def said_at(tokens: Sequence[int]) -> list[int]:
    """Where those stand."""
    end = tokens.index(END) if END in tokens else len(tokens)
    return [place for place in range(end) if tokens[place] not in (NULL, START)]


def count_words(captions: Iterable[str], lower_case: bool) -> Counter[str]:
    """How often each word stands in the captions."""
    return Counter(word for caption in captions for word in tokenise(caption, lower_case))


def longest_of(captions: Iterable[str], lower_case: bool, max_tokens: int | None = None) -> int:
    """Tokens of the longest caption, with both marks; at most `max_tokens`, which longer ones are cut to."""
    longest = 2 + max((len(tokenise(caption, lower_case)) for caption in captions), default=0)
    return longest if max_tokens is None else min(longest, max_tokens)


def build(
    captions: list[str],
    min_count: int,
    lower_case: bool,
    max_tokens: int | None = None,
    others: Sequence[str] = (),
) -> WordVocabulary:
    """The vocabulary of the training captions: words that stand in them at least `min_count` times.

    `others`: captions whose words count too, but not their lengths.
    """
    counts = count_words([*captions, *others], lower_case)
    words = sorted(word for word, count in counts.items() if count >= min_count and word not in SPECIAL)
    return WordVocabulary((*SPECIAL, *words), longest_of(captions, lower_case, max_tokens), lower_case)


def fixed(
    path: str | Path, captions: list[str], lower_case: bool, max_tokens: int | None = None
) -> WordVocabulary:
    """A given vocabulary: a JSON file of word -> id, as the released programs write it.

    IDC-PCL's and MCCFormers' have other marks, which become ours.
    """
    table = read_json(path, "name a JSON file of word -> id, or null")
    if not isinstance(table, dict) or not all(type(number) is int for number in table.values()):
        raise InputError(f"{path} must map words to ids; see data/README.md")
    words = sorted(table, key=table.__getitem__)
    if marks := next((marks for marks in FOREIGN_MARKS if {*marks} <= table.keys()), None):
        words = [*SPECIAL, *(word for word in words if word not in marks)]
    else:
        try:
            _without_gaps(table)
        except ValueError as error:
            raise InputError(f"{path}: {error}") from None
    return WordVocabulary(tuple(words), longest_of(captions, lower_case, max_tokens), lower_case)


def cut(vocabulary: Vocabulary, longest: int, marks: int = 2) -> Vocabulary:
    """The vocabulary for captions of up to so many tokens, of which words leave `marks` free."""
    assert isinstance(vocabulary, (WordVocabulary, ClipVocabulary))  # there are no others
    return replace(vocabulary, longest=longest, marks=marks)


def of_clip(captions: Sequence[str], max_tokens: int | None = None) -> ClipVocabulary:
    """CLIP's vocabulary; captions of more than `max_tokens`, or of CLIP_LONGEST, are cut to it."""
    longest = 2 + max((len(bpe().encode(caption)) for caption in captions), default=0)
    return ClipVocabulary(min(longest, max_tokens or CLIP_LONGEST))


def _without_gaps(ids: dict[str, int]) -> dict[str, int]:
    words = sorted(ids, key=ids.__getitem__)
    if sorted(ids.values()) != list(range(len(ids))) or tuple(words[: len(SPECIAL)]) != SPECIAL:
        raise ValueError(f"ids must run from 0 without gaps, beginning with {' '.join(SPECIAL)}")
    return ids


class WordsFile(Strict):
    """A vocabulary's file, but for CLIP's."""

    ids: Annotated[dict[str, int], AfterValidator(_without_gaps)]
    longest: Count
    lower_case: bool
    counts: dict[str, int] = Field(default_factory=dict)
    hashes: dict[str, str] = Field(default_factory=dict)  # of the pairs


class ClipFile(Strict):
    """That of CLIP's tokens, which the project has."""

    tokeniser: str
    longest: Count
    hashes: dict[str, str] = Field(default_factory=dict)


def kind_of(record: Any) -> type[WordsFile] | type[ClipFile]:
    """What the value of a vocabulary's file must be."""
    clip = isinstance(record, dict) and record.get("tokeniser") == "clip_bpe"
    return ClipFile if clip else WordsFile


def save(
    path: str | Path, vocabulary: Vocabulary, counts: Counter[str], pairs: str | Path | None = None
) -> None:
    """Write ids, training counts, the longest caption and how captions are read; of CLIP's what is ours.

    `pairs`: the file whose training captions were counted, which is named by its hash.
    """
    record: dict[str, Any] = {"tokeniser": "clip_bpe", "longest": vocabulary.longest}
    if isinstance(vocabulary, WordVocabulary):
        record = {
            "ids": vocabulary.ids,
            "counts": dict(counts),
            "longest": vocabulary.longest,
            "lower_case": vocabulary.lower_case,
        }
    hashes = {PAIRS: content_hashes.file_hash(pairs)} if pairs else {}
    write_json(path, content_hashes.with_hashes(record, hashes))


def load(path: str | Path) -> Vocabulary:
    """Read what `save` wrote. Raises InputError naming the key that is wrong, or was changed since."""
    record = read_json(path, REMEDY)
    found = checked(kind_of(record), record, str(path), REMEDY)
    if content_hashes.KEY in record:  # of an earlier version: model.yaml has the hash of its words
        content_hashes.read(path, record, REMEDY)
    if isinstance(found, ClipFile):
        return ClipVocabulary(found.longest)
    words = tuple(sorted(found.ids, key=found.ids.__getitem__))
    return WordVocabulary(words, found.longest, found.lower_case)


def check_pairs(path: str | Path, pairs: str | Path) -> None:
    """Raise InputError where the pairs are not those whose captions the vocabulary at `path` has."""
    hashes = content_hashes.read(path, read_json(path, REMEDY), REMEDY)
    content_hashes.check(path, hashes, PAIRS, pairs, "run `dvc repro vocab` to make the vocabulary again")


def identity(vocabulary: Vocabulary) -> str:
    """Return a hash of the words in their order, of how captions are read, and of their greatest length."""
    lower_case = vocabulary.lower_case if isinstance(vocabulary, WordVocabulary) else None
    return _hash([_words(vocabulary), lower_case, vocabulary.longest])


def words_identity(vocabulary: Vocabulary) -> str:
    """Return a hash of the words in their order: of an imported checkpoint no more is known."""
    return _hash(_words(vocabulary))


def _words(vocabulary: Vocabulary) -> list[str]:
    return [*vocabulary.words] if isinstance(vocabulary, WordVocabulary) else ["clip_bpe"]


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def pad(sequences: list[list[int]]) -> np.ndarray:
    """Token ids as one int64 array (captions x longest), filled with <NULL>."""
    padded = np.full((len(sequences), max(map(len, sequences))), NULL, dtype=np.int64)
    for row, sequence in zip(padded, sequences, strict=True):
        row[: len(sequence)] = sequence
    return padded
