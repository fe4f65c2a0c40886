"""METEOR 1.5: the jar that pycocoevalcap ships computes statistics, and Python computes the scores.

An input line of the jar is `SCORE ||| reference ||| … ||| caption`. The output is a line of statistics
for the best reference. The statistics of a corpus are the sums over its captions. There is one
exception, the number of chunks: a caption that is equal to its reference has one chunk, but it adds 0
to the sum.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pycocoevalcap.meteor import meteor

from pipeline.io.errors import InputError
from pipeline.scoring import java
from pipeline.scoring.meteor_formula import CHUNKS, MATCHES, STATISTICS, WORDS, from_statistics

JAR = Path(meteor.__file__).with_name(meteor.METEOR_JAR)
VERSION = JAR.stem.removeprefix("meteor-")
# the jar's default path to the table is wrong if a folder's name has spaces, non-ASCII letters or any of []#%
PARAPHRASES = JAR.parent / "data" / "paraphrase-en.gz"
ARGUMENTS = ["-Xmx2G", "-jar", str(JAR), *["-", "-", "-stdio", "-l", "en", "-norm", "-a"], str(PARAPHRASES)]


@dataclass(frozen=True)
class Meteor:
    """METEOR of each subset and of each pair (0 to 1), and the 23 statistics of each pair."""

    subsets: dict[str, float]
    pairs: dict[str, float]
    statistics: dict[str, list[float]]


def scores(
    captions: Mapping[str, str],
    references: Mapping[str, list[str]],
    subsets: Mapping[str, list[str]],
    timeout: float,
) -> Meteor:
    """Return METEOR of tokenised captions, for each pair and each subset.

    Java needs about 6 s to load METEOR's tables. Raises InputError if Java fails, takes more than `timeout`
    seconds or does not answer with statistics.
    """
    asked = {key: question(text, references[key]) for key, text in captions.items()}
    distinct = list(dict.fromkeys(asked.values()))
    answers, _ = java.run("METEOR", ARGUMENTS, timeout, "".join(f"{line}\n" for line in distinct))
    lines = answers.splitlines()
    if len(lines) != len(distinct):
        raise InputError(f"METEOR gave {len(lines)} answers to {len(distinct)} questions; try another Java")
    known = dict(zip(distinct, map(parsed, lines), strict=True))
    statistics = {key: known[line] for key, line in asked.items()}
    each = from_statistics(np.array([*statistics.values()])).tolist()
    sums = {name: np.sum([statistics[key] for key in own], 0) for name, own in subsets.items()}
    corpora = {name: float(from_statistics(own)) for name, own in sums.items()}
    return Meteor(corpora, dict(zip(statistics, each, strict=True)), statistics)


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
