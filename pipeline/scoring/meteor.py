"""METEOR 1.5: the jar that pycocoevalcap ships computes statistics, and Python computes the scores.

An input line of the jar is `SCORE ||| reference ||| … ||| caption`. The output is a line of statistics for
the best reference. The statistics of a corpus are the sums over its captions, with one exception: a caption
that is equal to its reference has one chunk, but adds no chunk to the sum.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pycocoevalcap.meteor import meteor

from pipeline.io.errors import InputError
from pipeline.scoring.java import Jvm, running
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


def questions(captions: Mapping[str, str], references: Mapping[str, list[str]]) -> dict[str, str]:
    """Return the jar's input line for each pair. Captions and references must be tokenised."""
    # a separator inside a sentence would split the sentence in two
    return {
        key: " ||| ".join(["SCORE", *(text.replace("|||", "") for text in (*references[key], caption))])
        for key, caption in captions.items()
    }


def started(asked: Mapping[str, str], timeout: float) -> AbstractContextManager[Jvm]:
    """Start a JVM that loads METEOR's tables (6 s), then answers the distinct lines of `asked`.

    `asked` is what `questions` returns. See java.running.
    """
    text = "".join(f"{question}\n" for question in dict.fromkeys(asked.values()))
    return running("METEOR", ARGUMENTS, timeout, text)


def scores(jvm: Jvm, asked: Mapping[str, str], subsets: Mapping[str, list[str]]) -> Meteor:
    """Return the METEOR of each subset, and the METEOR and the statistics of each pair.

    Raises InputError if Java dies, stalls or does not answer with statistics.
    """
    distinct, answers = [*dict.fromkeys(asked.values())], jvm.answer().split("\n")[:-1]
    if len(answers) != len(distinct):
        raise InputError(f"METEOR gave {len(answers)} answers to {len(distinct)} questions; try another Java")
    known = {question: _counts(answer) for question, answer in zip(distinct, answers, strict=True)}
    statistics = {key: known[question] for key, question in asked.items()}
    each = from_statistics(np.array([*statistics.values()])).tolist()
    sums = {name: np.sum([statistics[key] for key in own], 0) for name, own in subsets.items()}
    corpora = {name: float(from_statistics(own)) for name, own in sums.items()}
    return Meteor(corpora, dict(zip(statistics, each, strict=True)), statistics)


def _counts(answer: str) -> list[float]:
    """Parse a line of the jar's output into numbers that can be summed over captions."""
    try:
        counts = [float(word) for word in answer.split()]
    except ValueError:
        counts = []
    if len(counts) != STATISTICS:
        raise InputError(f"METEOR answered {answer[:100]!r} instead of statistics")
    if counts[CHUNKS] == 1 and counts[MATCHES] == counts[WORDS]:
        counts[CHUNKS] = 0.0
    return counts
