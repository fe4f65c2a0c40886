"""CLIP's byte-level BPE (Radford et al., 2021): text -> numbers of its vocabulary, and back.

The vocabulary is a data file of the package clip-anytorch, whose code is not run (it needs pkg_resources,
which setuptools no longer has); the package tokenizers does the merging. A text's own "<|endoftext|>" is
text like any other, not the mark.
"""

import gzip
import html
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path

import ftfy
import regex
from tokenizers import models

from pipeline.io.errors import InputError

FILE = "bpe_simple_vocab_16e6.txt.gz"
MERGES = 48_894  # the file's lines after its first that CLIP has
LAST = "</w>"  # ends a piece's last symbol
MARKS = ("<|startoftext|>", "<|endoftext|>")
PIECES = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+", regex.IGNORECASE)


def bytes_as_symbols() -> dict[int, str]:
    """A visible symbol for each of the 256 bytes, in the order of their numbers in the vocabulary."""
    itself = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in itself]
    return {byte: chr(byte) for byte in itself} | {byte: chr(256 + n) for n, byte in enumerate(others)}


SYMBOL = bytes_as_symbols()
BYTE = {symbol: byte for byte, symbol in SYMBOL.items()}


def cleaned(text: str) -> str:
    """Mended encoding, HTML's entities as signs, single spaces, lower case."""
    text = html.unescape(html.unescape(ftfy.fix_text(text)))
    return regex.sub(r"\s+", " ", text).strip().lower()


def merges() -> list[tuple[str, str]]:
    """Which symbols become one, the first first. Raises InputError where the package is not there."""
    found = find_spec("clip")
    path = Path(found.origin).with_name(FILE) if found and found.origin else None
    if path is None or not path.is_file():
        raise InputError(
            f"text.tokeniser is clip_bpe, and {FILE} is not there; install the package clip-anytorch"
        )
    with gzip.open(path, "rt", encoding="utf-8") as file:
        pairs = (line.split() for line in file.read().split("\n")[1 : MERGES + 1])
        return [(first, second) for first, second in pairs]


class Bpe:
    """Numbers 0-255: bytes; 256-511: bytes that end a piece; then merges; at last both marks."""

    def __init__(self) -> None:
        found = merges()
        symbols = list(SYMBOL.values())
        names = [*symbols, *(symbol + LAST for symbol in symbols), *("".join(pair) for pair in found), *MARKS]
        self.names = tuple(names)
        self.model = models.BPE(
            vocab={name: number for number, name in enumerate(names)}, merges=found, end_of_word_suffix=LAST
        )

    def __len__(self) -> int:
        return len(self.names)

    def encode(self, text: str) -> list[int]:
        """The numbers of a text, without marks."""
        pieces = ("".join(SYMBOL[b] for b in piece.encode()) for piece in PIECES.findall(cleaned(text)))
        return [token.id for piece in pieces for token in self.model.tokenize(piece)]

    def ends_word(self, number: int) -> bool:
        """Whether it is the last of a piece."""
        return number in self._last

    @cached_property
    def _last(self) -> frozenset[int]:
        return frozenset(number for number, name in enumerate(self.names) if name.endswith(LAST))

    def text(self, numbers: list[int]) -> str:
        """What numbers of one piece say; bytes that are no UTF-8 become its sign for that."""
        symbols = "".join(self.names[number] for number in numbers if number < len(self) - len(MARKS))
        return bytes(BYTE[symbol] for symbol in symbols.removesuffix(LAST)).decode(errors="replace")


@lru_cache
def bpe() -> Bpe:
    """The one, which takes a moment to make."""
    return Bpe()
