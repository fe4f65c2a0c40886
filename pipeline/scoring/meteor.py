"""METEOR 1.5 through the jar that pycocoevalcap ships, in one JVM that we drive ourselves.

The jar reads `SCORE ||| reference ||| … ||| caption` and answers a line of statistics, those of the
reference that scores best; it reads `EVAL ||| statistics ||| …` and answers the score of each, then
that of all of them as one corpus. That corpus's statistics are the sums of its captions', but for
one thing: a caption equal to its reference, which is one chunk, adds none. Written so, sums of
lines give the very numbers of the corpus.
"""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from pycocoevalcap.meteor import meteor

from pipeline.errors import InputError
from pipeline.scoring.java import Jvm
from pipeline.scoring.meteor_formula import CHUNKS, MATCHES, STATISTICS, WORDS

JAR = Path(meteor.__file__).with_name(meteor.METEOR_JAR)
VERSION = JAR.stem.removeprefix("meteor-")
ARGUMENTS = ["-Xmx2G", "-jar", str(JAR), "-", "-", "-stdio", "-l", "en", "-norm"]
SEPARATOR = " ||| "
# Written ahead of the answers that are read, so that the JVM never waits for Python: twice as many
# answers, of at most 200 bytes each, fit into any pipe.
AT_ONCE = 128


@dataclass(frozen=True)
class Meteor:
    """Scores 0 to 1, and each pair's 23 counts."""

    subsets: dict[str, float]
    pairs: dict[str, float]
    statistics: dict[str, list[float]]


def start(timeout: float) -> Jvm:
    """A JVM that loads METEOR's tables from now on (6 s), and lives at most `timeout` seconds.

    Raises InputError where Java is missing.
    """
    return Jvm("METEOR", ARGUMENTS, timeout)


def scores(
    jvm: Jvm, captions: dict[str, str], references: dict[str, list[str]], subsets: dict[str, list[str]]
) -> Meteor:
    """The corpus value of each subset, the value and the statistics of each pair, from tokenised sentences.

    Raises InputError where Java dies, stalls or answers no number.
    """
    asked = {key: _question(captions[key], references[key]) for key in captions}
    answered = _statistics(jvm, list(dict.fromkeys(asked.values())))
    statistics = {key: answered[question] for key, question in asked.items()}
    sums = [np.sum([statistics[key] for key in members], 0).tolist() for members in subsets.values()]
    values = iter(_evaluated(jvm, [*statistics.values(), *sums]))
    pairs = dict(zip(statistics, islice(values, len(statistics)), strict=True))
    return Meteor(dict(zip(subsets, values, strict=True)), pairs, statistics)


def _question(caption: str, references: list[str]) -> str:
    # a separator inside a sentence would make two of it
    return SEPARATOR.join(["SCORE", *(text.replace("|||", "") for text in (*references, caption))])


def _statistics(jvm: Jvm, questions: list[str]) -> dict[str, list[float]]:
    """Question -> statistics. The next questions are written before the last ones' answers are read."""
    answers: list[str] = []
    unread = 0
    for first in range(0, len(questions) + AT_ONCE, AT_ONCE):
        some = questions[first : first + AT_ONCE]
        jvm.write("".join(f"{question}\n" for question in some).encode())
        answers += jvm.lines(unread)
        unread = len(some)
    return {question: _counts(answer) for question, answer in zip(questions, answers, strict=True)}


def _counts(answer: str) -> list[float]:
    """The statistics of a line, such that they can be summed."""
    counts = _numbers(answer.split())
    if len(counts) != STATISTICS:
        raise InputError(f"METEOR answered {answer[:100]!r} where statistics were due")
    if counts[CHUNKS] == 1 and counts[MATCHES] == counts[WORDS]:
        counts[CHUNKS] = 0.0
    return counts


def _evaluated(jvm: Jvm, statistics: list[list[float]]) -> list[float]:
    """The score of each."""
    lines = (" ".join(map(str, counts)) for counts in statistics)
    jvm.write(f"{SEPARATOR.join(['EVAL', *lines])}\n".encode())
    answers = jvm.lines(len(statistics) + 1)[:-1]  # the last is that of all lines together, sums and all
    if len(scores := _numbers(answers)) != len(answers):
        raise InputError(f"METEOR answered no number where scores were due: {answers[0][:100]!r}")
    return scores


def _numbers(words: list[str]) -> list[float]:
    """None at all where one of them is no number."""
    try:
        return [float(word) for word in words]
    except ValueError:
        return []
