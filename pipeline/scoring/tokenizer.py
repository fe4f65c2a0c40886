"""The Penn Treebank tokenizer of the COCO caption evaluation, driven so that no line affects another.

The jar is pycocoevalcap's, looked for when it is wanted: a machine that trains on plain words (`plain`) needs
neither that package nor Java.
"""

import re
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from pipeline.io.errors import InputError
from pipeline.scoring.java import running

JAR = "stanford-corenlp-3.4.1.jar"
NAME = f"{JAR.removesuffix('.jar')} PTBTokenizer, round and curly brackets dropped"
# The library's list, which has brackets as -LRB-, but its tokens are in lower case: there they survive.
PUNCTUATION = frozenset(
    ["''", "'", "``", "`", "-lrb-", "-rrb-", "-lcb-", "-rcb-", ".", "?", "!", ",", ":", "-", "--", "...", ";"]
)
PLAIN = re.compile(r"[a-z]+( [a-z]+)*|")
GUARD = "The ' . \" ."
GUARDED = "the ' . '' ."
"""A line after each sentence, and its tokens. The lexer decides by what follows, on other lines, too.

No abbreviation takes its full stop before "The", where the full stop after a single letter is punctuation.
A tag's quoted value may hold any number of lines: it ends at one of the quotation marks, and the full stop
behind that is in no tag.
"""
ARGUMENTS = ["edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase", "-encoding", "UTF-8"]


def tokenize(sentences: list[str], timeout: float = 300.0) -> list[str]:
    """Each sentence in lower case, split into tokens joined by one space, without punctuation.

    One JVM start a call (0.2 s), of at most `timeout` seconds. Raises InputError where Java is
    missing, dies or stalls.
    """
    lines = [one_line(sentence) for sentence in sentences]
    distinct = list(dict.fromkeys(lines))
    tokens = dict(zip(distinct, _tokenized(distinct, timeout), strict=True)) if distinct else {}
    return [tokens[line] for line in lines]


def one_line(text: str) -> str:
    """`text` with all white space collapsed.

    Java ends a line at \\r, \\v, \\f, U+2028 and U+2029 too: each would move every later sentence
    to the wrong pair. `str.split` takes them all (and more) for white space.
    """
    return " ".join(text.split())


def jar() -> Path:
    """The tokenizer's program. Raises InputError where pycocoevalcap is not installed."""
    try:
        found = distribution("pycocoevalcap").locate_file(f"pycocoevalcap/tokenizer/{JAR}")
    except PackageNotFoundError:
        raise InputError("no PTB tokenizer: pycocoevalcap is not installed; `pip install` it") from None
    return Path(str(found))


def plain(sentences: list[str]) -> list[str]:
    """Sentences that are tokens already, lower-case words of letters, as they are; needs no Java.

    All of tabletop's are what `tokenize` makes of them. Of others it would change the spelling (colour) and
    take some words apart (cannot). Raises InputError for a sentence with anything but such words.
    """
    for sentence in sentences:
        if not PLAIN.fullmatch(sentence):
            raise InputError(f"{sentence!r} is not plain words; tokenise it as scores do, by --tokens ptb")
    return sentences


def as_written(sentences: list[str], timeout: float = 0.0) -> list[str]:
    """Each sentence as it is, split at white space; no Java runs, whatever the `timeout`.

    IDC-PCL's program scores so (docs/evaluation.md, "Tokenizer"): case counts, and
    punctuation that stands alone is a word.
    """
    return [one_line(sentence) for sentence in sentences]


TOKENIZERS: dict[str, Callable[[list[str]], list[str]]] = {"ptb": tokenize, "plain": plain}

OF_SCORES: dict[str, tuple[str, Callable[[list[str], float], list[str]]]] = {
    "ptb": (NAME, tokenize),
    "none": ("none: captions as written, split at white space", as_written),
}
"""score.tokeniser -> what scores are called by, and what splits captions and references."""


def _tokenized(lines: list[str], timeout: float) -> list[str]:
    text = "".join(f"{line}\n{GUARD}\n" for line in lines)
    with running("the PTB tokenizer", ["-cp", str(jar()), *ARGUMENTS], timeout, text) as jvm:
        answer = jvm.answer().split("\n")[:-1]
    if len(answer) != 2 * len(lines) or {*answer[1::2]} - {GUARDED}:
        raise InputError(
            f"the PTB tokenizer gave {len(answer[::2])} lines for {len(lines)} sentences: "
            "a sentence holds a character that it takes for a line break; remove it"
        )
    return [_words(line) for line in answer[::2]]


def _words(tokens: str) -> str:
    return " ".join(word for word in tokens.split(" ") if word not in PUNCTUATION)
