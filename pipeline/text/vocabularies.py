"""Convert captions to token ids and back (docs/methods.md, "Special tokens and tokenisation"; SCORER 4.2)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import AfterValidator, Field

from pipeline.config.dataset_params import Count, Strict
from pipeline.io import content_hashes
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_json
from pipeline.io.outputs import write_json
from pipeline.io.records import checked
from pipeline.text.caption_text import normalised

if TYPE_CHECKING:
    from pipeline.text.clip_bpe import Bpe

REMEDY = "run `dvc repro vocab` to make it"
PAIRS = "pairs"  # key in `hashes` for the file whose training captions were counted
NULL, UNK, START, END = 0, 1, 2, 3
SPECIAL = ("<NULL>", "<UNK>", "<START>", "<END>")
PCL_MARKS = ("<PAD>", "<UNK>", "<BOS>", "<EOS>")  # IDC-PCL's special tokens; their ids vary
PCL_OTHERS = ("<MASK>", "<CLS>")  # tokens of IDC-PCL's model after its vocabulary, also in its captions
MCC_MARKS = ("<pad>", "<unk>", "<start>", "<end>")  # MCCFormers' special tokens; their ids vary
FOREIGN_MARKS = ((*PCL_MARKS, *PCL_OTHERS), MCC_MARKS)  # special tokens of each released program
CLIP_START, CLIP_END = 49_406, 49_407  # CLIP's ids of <START> and <END>
CLIP_LONGEST = 33  # <START>, 31 tokens and <END>, as in CLIP4IDC's captioner


def tokenise(caption: str, lower_case: bool) -> list[str]:
    """Split a normalised caption at white space, `,` and `;`; remove `?` and `.`."""
    caption = normalised(caption)
    if lower_case:
        caption = caption.lower()
    for mark in ",;":
        caption = caption.replace(mark, f" {mark}")
    for mark in "?.":
        caption = caption.replace(mark, "")
    return caption.split()


@dataclass(frozen=True)
class WordVocabulary:
    """Words and their ids: first the four special tokens, then the training words in sorted order.

    `longest` is the maximum number of tokens of a caption, and `marks` is how many of these are special
    tokens. So a caption has at most `longest - marks` words. `marks` is 2 for <START> and <END>. It is
    3 if `longest` also counts IDC-PCL's token [CLS].
    """

    words: tuple[str, ...]  # the word of each id
    longest: int  # maximum number of tokens of a caption, with <START> and <END>
    lower_case: bool  # True if captions are converted to lower case
    marks: int = 2  # how many of the `longest` tokens are special tokens

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def ids(self) -> dict[str, int]:
        return {word: token for token, word in enumerate(self.words)}

    def encode(self, caption: str) -> list[int]:
        """Return token ids, from <START> to <END>, of as many words as fit; unknown words are <UNK>."""
        words = tokenise(caption, self.lower_case)[: self.longest - self.marks]
        # if a caption contains the text of a special token, this is an unknown word
        tokens = [UNK if word in SPECIAL else self.ids.get(word, UNK) for word in words]
        return [START, *tokens, END]

    def pieces(self, tokens: Sequence[int]) -> list[tuple[str, int]]:
        """Return the words of a caption, given its token ids: (word, number of its tokens, always 1)."""
        names = (*self.words, *PCL_OTHERS)
        return [(names[tokens[position]], 1) for position in word_positions(tokens)]

    def decode(self, tokens: Sequence[int]) -> str:
        return " ".join(word for word, _ in self.pieces(tokens))


@dataclass(frozen=True)
class ClipVocabulary:
    """Vocabulary of CLIP's byte-level BPE. The ids are CLIP's own, except for four tokens.

    In all vocabularies of this project, <START> has the id 2, and <END> has the id 3. CLIP gives
    <START> the id 49406, and <END> the id 49407. Therefore the ids 2 and 49406 are exchanged, and so
    are 3 and 49407.
    """

    longest: int  # maximum number of tokens of a caption, with <START> and <END>
    marks: int = 2  # how many of the `longest` tokens are special tokens

    def __len__(self) -> int:
        return len(bpe())

    def encode(self, caption: str) -> list[int]:
        return [START, *map(exchanged, bpe().encode(caption)[: self.longest - self.marks]), END]

    def pieces(self, tokens: Sequence[int]) -> list[tuple[str, int]]:
        """Return a caption's pieces (see clip_bpe.py), (text, number of tokens); the last may be cut."""
        pieces: list[list[int]] = [[]]
        for position in word_positions(tokens):
            pieces[-1].append(exchanged(tokens[position]))
            if bpe().ends_piece(pieces[-1][-1]):
                pieces.append([])
        return [(bpe().text(piece), len(piece)) for piece in pieces if piece]

    def decode(self, tokens: Sequence[int]) -> str:
        return " ".join(piece for piece, _ in self.pieces(tokens))


Vocabulary = WordVocabulary | ClipVocabulary
"""Tokens and their ids. The ids NULL, START and END are the same in all vocabularies."""


def exchanged(token: int) -> int:
    """Convert an id of ClipVocabulary to CLIP's own id, or back."""
    return {START: CLIP_START, END: CLIP_END, CLIP_START: START, CLIP_END: END}.get(token, token)


def word_positions(tokens: Sequence[int]) -> list[int]:
    """Return the positions of the tokens before the first <END>, without <NULL> and <START>."""
    end = tokens.index(END) if END in tokens else len(tokens)
    return [position for position in range(end) if tokens[position] not in (NULL, START)]


def count_words(captions: Iterable[str], lower_case: bool) -> Counter[str]:
    return Counter(word for caption in captions for word in tokenise(caption, lower_case))


def longest_of(captions: Iterable[str], lower_case: bool, max_tokens: int | None = None) -> int:
    """Return the number of tokens of the longest caption, with <START> and <END>; at most `max_tokens`."""
    longest = 2 + max((len(tokenise(caption, lower_case)) for caption in captions), default=0)
    return longest if max_tokens is None else min(longest, max_tokens)


def build(
    captions: list[str],
    min_count: int,
    lower_case: bool,
    max_tokens: int | None = None,
    others: Sequence[str] = (),
) -> WordVocabulary:
    """Return the vocabulary of words that occur `min_count` times; `others` do not limit the length."""
    counts = count_words([*captions, *others], lower_case)
    words = sorted(word for word, count in counts.items() if count >= min_count and word not in SPECIAL)
    return WordVocabulary((*SPECIAL, *words), longest_of(captions, lower_case, max_tokens), lower_case)


def fixed(
    path: str | Path, captions: list[str], lower_case: bool, max_tokens: int | None = None
) -> WordVocabulary:
    """Return the vocabulary in a JSON file (word -> id) of a released program, whose ids have no gaps.

    SPECIAL replaces the special tokens of a known program; any other file must begin with SPECIAL.
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


def of_clip(captions: Sequence[str], max_tokens: int | None = None) -> ClipVocabulary:
    """Return CLIP's vocabulary for captions up to the longest one, `max_tokens` or CLIP_LONGEST."""
    longest = 2 + max((len(bpe().encode(caption)) for caption in captions), default=0)
    return ClipVocabulary(min(longest, max_tokens or CLIP_LONGEST))


def bpe() -> "Bpe":
    """Return CLIP's byte pair encoding. Only its vocabulary needs it, so its packages are imported here."""
    from pipeline.text import clip_bpe

    return clip_bpe.bpe()


def _without_gaps(ids: dict[str, int]) -> dict[str, int]:
    words = sorted(ids, key=ids.__getitem__)
    if sorted(ids.values()) != list(range(len(ids))) or tuple(words[: len(SPECIAL)]) != SPECIAL:
        raise ValueError(f"ids must run from 0 without gaps, beginning with {' '.join(SPECIAL)}")
    return ids


class WordsFile(Strict):
    """Content of the file of a word vocabulary."""

    ids: Annotated[dict[str, int], AfterValidator(_without_gaps)]
    longest: Count
    lower_case: bool
    counts: dict[str, int] = Field(default_factory=dict)
    hashes: dict[str, str] = Field(default_factory=dict)  # of the pairs and of this record


class ClipFile(Strict):
    """Content of a vocabulary file that names CLIP's tokeniser; CLIP's tokens are not in this file."""

    tokeniser: str
    longest: Count
    hashes: dict[str, str] = Field(default_factory=dict)


def kind_of(record: Any) -> type[WordsFile] | type[ClipFile]:
    """Return ClipFile if `record`, a vocabulary file's content, names CLIP's tokeniser; else WordsFile."""
    is_clip = isinstance(record, dict) and record.get("tokeniser") == "clip_bpe"
    return ClipFile if is_clip else WordsFile


def save(
    path: str | Path, vocabulary: Vocabulary, counts: Counter[str], pairs: str | Path | None = None
) -> None:
    """Write a vocabulary, the counts of its words (not for CLIP's), and the hash of the file of pairs."""
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
    """Return the vocabulary in a file that `save` wrote. Raises InputError if the file is wrong or edited."""
    record = read_json(path, REMEDY)
    content = checked(kind_of(record), record, str(path), REMEDY)
    content_hashes.read(path, REMEDY)
    if isinstance(content, ClipFile):
        return ClipVocabulary(content.longest)
    words = tuple(sorted(content.ids, key=content.ids.__getitem__))
    return WordVocabulary(words, content.longest, content.lower_case)


def check_pairs(path: str | Path, pairs: str | Path) -> None:
    """Raise InputError if the vocabulary in the file `path` was built from other pairs."""
    remedy = "run `dvc repro vocab` to make the vocabulary again"
    content_hashes.verify(path, content_hashes.read(path, REMEDY), remedy, pairs=pairs)


def identity(vocabulary: Vocabulary) -> str:
    """Return a hash of the words in their order, the setting `lower_case` and the maximum length."""
    lower_case = vocabulary.lower_case if isinstance(vocabulary, WordVocabulary) else None
    return content_hashes.of_json([_words(vocabulary), lower_case, vocabulary.longest])


def words_identity(vocabulary: Vocabulary) -> str:
    """Return a hash of the words only, because an imported checkpoint has no other settings."""
    return content_hashes.of_json(_words(vocabulary))


def _words(vocabulary: Vocabulary) -> list[str]:
    return [*vocabulary.words] if isinstance(vocabulary, WordVocabulary) else ["clip_bpe"]


def pad(sequences: list[list[int]]) -> np.ndarray:
    """Return token ids as an int64 array (captions, longest length), padded with <NULL>."""
    padded = np.full((len(sequences), max(map(len, sequences))), NULL, dtype=np.int64)
    for row, sequence in zip(padded, sequences, strict=True):
        row[: len(sequence)] = sequence
    return padded
