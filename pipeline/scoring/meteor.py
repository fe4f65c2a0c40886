"""METEOR 1.5: the jar that pycocoevalcap ships computes statistics, and Python computes the scores.

An input line of the jar is `SCORE ||| reference ||| … ||| caption`. The output is a line of
statistics for the best reference. For a corpus, the statistics are summed over its captions. The
number of chunks is an exception: a caption that is equal to its reference has one chunk, but counts
as 0 in the sum.
"""

from collections.abc import Mapping
from pathlib import Path

from pycocoevalcap.meteor import meteor

from pipeline.io.errors import InputError
from pipeline.scoring import java
from pipeline.scoring.meteor_formula import CHUNKS, MATCHES, STATISTICS, WORDS

JAR = Path(meteor.__file__).with_name(meteor.METEOR_JAR)
VERSION = JAR.stem.removeprefix("meteor-")
# the jar's default path to the table is wrong if a folder's name has spaces, non-ASCII letters or any of []#%
PARAPHRASES = JAR.parent / "data" / "paraphrase-en.gz"
ARGUMENTS = ["-Xmx2G", "-jar", str(JAR), *["-", "-", "-stdio", "-l", "en", "-norm", "-a"], str(PARAPHRASES)]


def statistics(
    captions: Mapping[str, str], references: Mapping[str, list[str]], timeout: float
) -> dict[str, list[float]]:
    """Return the 23 statistics of each tokenised caption, from which meteor_formula.py computes METEOR.

    Java needs about 6 s to load METEOR's tables. Raises InputError if Java fails, takes more than `timeout`
    seconds or does not answer with statistics.
    """
    questions = {key: question(text, references[key]) for key, text in captions.items()}
    distinct = list(dict.fromkeys(questions.values()))
    answers, _ = java.run("METEOR", ARGUMENTS, timeout, "".join(f"{line}\n" for line in distinct))
    lines = answers.splitlines()
    if len(lines) != len(distinct):
        raise InputError(f"METEOR gave {len(lines)} answers to {len(distinct)} questions; try another Java")
    counts = dict(zip(distinct, map(parsed, lines), strict=True))
    return {key: counts[line] for key, line in questions.items()}


def question(caption: str, references: list[str]) -> str:
    """Return the jar's input line for a caption."""
    # a separator inside a sentence would split the sentence in two
    return " ||| ".join(["SCORE", *(text.replace("|||", "") for text in (*references, caption))])


def parsed(answer: str) -> list[float]:
    """Parse a line of the jar's output into numbers that can be summed over captions."""
    try:
        counts = [float(word) for word in answer.split()]
    except ValueError:
        counts = []
    if len(counts) != STATISTICS:
        raise InputError(f"METEOR answered {answer[:100]!r} instead of statistics; try another Java")
    if counts[CHUNKS] == 1 and counts[MATCHES] == counts[WORDS]:
        counts[CHUNKS] = 0.0
    return counts
