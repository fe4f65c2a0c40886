"""CLIP's byte-level BPE (Radford et al., 2021): convert text to token ids and back.

A text is divided into pieces: words, single digits, and runs of punctuation. Each piece becomes one or more
tokens. The vocabulary is a data file of the package clip-anytorch. The code of this package is not run,
because it needs pkg_resources, which setuptools no longer has. The package tokenizers applies the merges.
"<|endoftext|>" in a text is ordinary text, not the special token.
"""

import gzip
import html
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import ftfy
import regex
from tokenizers import models

from pipeline.io.errors import InputError

FILE = "bpe_simple_vocab_16e6.txt.gz"
MERGES = 48_894  # number of lines, after the file's first line, that CLIP uses
LAST = "</w>"  # suffix of the last symbol of a piece
MARKS = ("<|startoftext|>", "<|endoftext|>")
PIECES = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+", regex.IGNORECASE)


_VISIBLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
_OTHERS = [byte for byte in range(256) if byte not in _VISIBLE]
SYMBOL = {byte: chr(byte) for byte in _VISIBLE} | {byte: chr(256 + n) for n, byte in enumerate(_OTHERS)}
"""Byte -> visible character that represents it. The 256 bytes are in the order of their token ids."""
BYTE = {symbol: byte for byte, symbol in SYMBOL.items()}


def cleaned(text: str) -> str:
    """Clean a text: repair its encoding, decode HTML entities, use single spaces and lower case."""
    text = html.unescape(html.unescape(ftfy.fix_text(text)))
    return regex.sub(r"\s+", " ", text).strip().lower()


def merges() -> list[tuple[str, str]]:
    """Return the BPE merges, each as two symbols. Raises InputError if clip-anytorch is missing."""
    package = find_spec("clip")
    path = Path(package.origin).with_name(FILE) if package and package.origin else None
    if path is None or not path.is_file():
        raise InputError(
            f"text.tokeniser is clip_bpe, but {FILE} is missing; install the package clip-anytorch"
        )
    with gzip.open(path, "rt", encoding="utf-8") as file:
        pairs = (line.split() for line in file.read().split("\n")[1 : MERGES + 1])
        return [(first, second) for first, second in pairs]


class Bpe:
    """Converter between text and CLIP's token ids, by byte pair encoding.

    The vocabulary has, in the order of the token ids: the 256 bytes, the 256 bytes at the end of a word
    or other piece of text, the merges of two tokens, and two special tokens for start and end (MARKS).
    """

    def __init__(self) -> None:
        pairs, symbols = merges(), list(SYMBOL.values())
        names = [*symbols, *(symbol + LAST for symbol in symbols), *("".join(pair) for pair in pairs), *MARKS]
        self.names = tuple(names)
        ids = {name: token for token, name in enumerate(names)}
        self.model = models.BPE(vocab=ids, merges=pairs, end_of_word_suffix=LAST)

    def __len__(self) -> int:
        return len(self.names)

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text, without special tokens for its start and end."""
        pieces = ("".join(SYMBOL[b] for b in piece.encode()) for piece in PIECES.findall(cleaned(text)))
        return [token.id for piece in pieces for token in self.model.tokenize(piece)]

    def ends_piece(self, token: int) -> bool:
        return self.names[token].endswith(LAST)

    def text(self, tokens: list[int]) -> str:
        """Return the text of one piece's tokens without MARKS; bytes that are not UTF-8 become U+FFFD."""
        symbols = "".join(self.names[token] for token in tokens if token < len(self) - len(MARKS))
        return bytes(BYTE[symbol] for symbol in symbols.removesuffix(LAST)).decode(errors="replace")


@lru_cache
def bpe() -> Bpe:
    return Bpe()
