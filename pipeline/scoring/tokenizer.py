"""The Penn Treebank tokenizer that the COCO caption evaluation uses, driven so that no line can move."""

import re
from pathlib import Path

from pycocoevalcap.tokenizer import ptbtokenizer

from pipeline.errors import InputError
from pipeline.scoring.java import Jvm

JAR = Path(ptbtokenizer.__file__).with_name(ptbtokenizer.STANFORD_CORENLP_3_4_1_JAR)
NAME = f"{JAR.stem} PTBTokenizer, round and curly brackets dropped"
# The library's list has brackets as -LRB-, but its tokens are in lower case: there they survive.
PUNCTUATION = frozenset(word.lower() for word in ptbtokenizer.PUNCTUATIONS)
INITIAL = re.compile(r"(?<![^ ])([a-z])\.$")
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


def _tokenized(lines: list[str], timeout: float) -> list[str]:
    # a lone surrogate is no text and has no UTF-8 form
    text = "".join(f"{line}\n" for line in lines).encode(errors="replace")
    with Jvm("the PTB tokenizer", ["-cp", str(JAR), *ARGUMENTS], timeout) as jvm:
        answer = jvm.finish(text).decode().split("\n")[:-1]
    if len(answer) != len(lines):
        raise InputError(
            f"the PTB tokenizer gave {len(answer)} lines for {len(lines)} sentences: "
            "a sentence holds a character that it takes for a line break; remove it"
        )
    return [_words(line) for line in answer]


def _words(tokens: str) -> str:
    # "b." at the end of a line is one token or two by the line that follows ("The" makes it two);
    # no sentence's score may depend on the next one's: it is two
    tokens = INITIAL.sub(r"\1 .", tokens)
    return " ".join(word for word in tokens.split(" ") if word not in PUNCTUATION)
