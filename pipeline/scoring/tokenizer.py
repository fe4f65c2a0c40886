"""The Penn Treebank tokenizer of the COCO caption evaluation, and two tokenizers without Java."""

import re
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from pipeline.io.errors import InputError
from pipeline.scoring import java
from pipeline.text.caption_text import one_line

JAR = "stanford-corenlp-3.4.1.jar"
NAME = f"{JAR.removesuffix('.jar')} PTBTokenizer, round and curly brackets dropped"
# The library's list has -LRB- in capitals, so its lower-case tokens -lrb- survive; here they are dropped.
PUNCTUATION = frozenset(
    ["''", "'", "``", "`", "-lrb-", "-rrb-", "-lcb-", "-rcb-", ".", "?", "!", ",", ":", "-", "--", "...", ";"]
)
PLAIN = re.compile(r"[a-z]+( [a-z]+)*|")
GUARD = "The ' . \" ."
GUARDED = "the ' . '' ."
"""Line that is inserted after each sentence, and the tokens of this line.

It separates the sentences, because the lexer looks ahead, even across lines. Before "The", no abbreviation
keeps its full stop, and the full stop after a single letter is punctuation. The quoted value of a tag may
span lines: it ends at one of the quotation marks, and the next full stop is outside the tag.
"""
ARGUMENTS = ["edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase", "-encoding", "UTF-8"]


def tokenize(sentences: list[str], timeout: float = 300.0) -> list[str]:
    """Return sentences in lower-case tokens without punctuation; each call starts Java (0.2 s)."""
    lines = [one_line(sentence) for sentence in sentences]
    distinct = list(dict.fromkeys(lines))
    tokens = dict(zip(distinct, _tokenized(distinct, timeout), strict=True)) if distinct else {}
    return [tokens[line] for line in lines]


def jar() -> Path:
    """Return the tokenizer's jar. Raises InputError if pycocoevalcap is not installed."""
    try:  # not at the top: training with `plain` needs no pycocoevalcap
        path = distribution("pycocoevalcap").locate_file(f"pycocoevalcap/tokenizer/{JAR}")
    except PackageNotFoundError:
        raise InputError("no PTB tokenizer: pycocoevalcap is not installed; `pip install` it") from None
    return Path(str(path))


def plain(sentences: list[str]) -> list[str]:
    """Return sentences of lower-case words unchanged: for tabletop as `tokenize`, but without Java."""
    for sentence in sentences:
        if not PLAIN.fullmatch(sentence):
            raise InputError(f"{sentence!r} is not plain words; use the scores' tokenizer: --tokens ptb")
    return sentences


def as_written(sentences: list[str], timeout: float = 0.0) -> list[str]:
    """Return sentences as IDC-PCL's program scores them, in single spaces; `timeout` has no effect."""
    return [one_line(sentence) for sentence in sentences]


TOKENIZERS: dict[str, Callable[[list[str]], list[str]]] = {"ptb": tokenize, "plain": plain}
"""Value of --tokens of stages.train -> function that tokenises."""

OF_SCORES: dict[str, tuple[str, Callable[[list[str], float], list[str]]]] = {
    "ptb": (NAME, tokenize),
    "none": ("none: captions as written, split at white space", as_written),
}
"""score.tokeniser -> the name of the tokenizer in metrics.json, and the function that tokenises."""


def _tokenized(lines: list[str], timeout: float) -> list[str]:
    text = "".join(f"{line}\n{GUARD}\n" for line in lines)
    output, _ = java.run("the PTB tokenizer", ["-cp", str(jar()), *ARGUMENTS], timeout, text)
    answer = output.split("\n")[:-1]
    if len(answer) != 2 * len(lines) or {*answer[1::2]} - {GUARDED}:
        raise InputError(
            f"the PTB tokenizer gave {len(answer[::2])} lines for {len(lines)} sentences: "
            "a sentence has a character that it reads as a line break; remove it"
        )
    return [" ".join(word for word in line.split(" ") if word not in PUNCTUATION) for line in answer[::2]]
