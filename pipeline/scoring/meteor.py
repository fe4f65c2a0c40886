"""METEOR 1.5: the jar that pycocoevalcap ships computes statistics, and Python computes the scores.

An input line of the jar is `SCORE ||| reference ||| … ||| caption`. The output is a line of statistics for
the best reference: 23 counts, from which `from_statistics` computes the score. For a corpus, the statistics
are summed over its captions. The number of chunks is an exception: a caption that is equal to its reference
has one chunk, but counts as 0 in the sum.
"""

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np
from pycocoevalcap.meteor import meteor

from pipeline.io.errors import InputError
from pipeline.scoring import java

JAR = Path(meteor.__file__).with_name(meteor.METEOR_JAR)
VERSION = JAR.stem.removeprefix("meteor-")
# the jar's default path to the table is wrong if a folder's name has spaces, non-ASCII letters or any of []#%
PARAPHRASES = JAR.parent / "data" / "paraphrase-en.gz"
ARGUMENTS = ["-Xmx2G", "-jar", str(JAR), *["-", "-", "-stdio", "-l", "en", "-norm", "-a"], str(PARAPHRASES)]

Key = TypeVar("Key", bound=Hashable)


def statistics(
    captions: Mapping[Key, str], references: Mapping[Key, list[str]], timeout: float
) -> dict[Key, list[float]]:
    """Return the 23 statistics of each tokenised caption, from which `from_statistics` computes METEOR.

    Java needs about 6 s to load METEOR's tables. Raises InputError if Java fails, takes more than `timeout`
    seconds or does not answer with statistics.
    """
    questions = {key: question(text, references[key]) for key, text in captions.items()}
    distinct = list(dict.fromkeys(questions.values()))
    answers, _ = java.run("METEOR", ARGUMENTS, timeout, "".join(f"{line}\n" for line in distinct))
    lines = answers.removesuffix("\n").split("\n") if answers else []
    if len(lines) != len(distinct):
        raise InputError(f"METEOR gave {len(lines)} answers to {len(distinct)} questions; try another Java")
    counts = dict(zip(distinct, map(parsed, lines), strict=True))
    return {key: counts[line] for key, line in questions.items()}


def question(caption: str, references: list[str]) -> str:
    # a separator inside a sentence would split the sentence in two
    return " ||| ".join(["SCORE", *(text.replace("|||", "") for text in (*references, caption))])


def parsed(answer: str) -> list[float]:
    """Parse an output line of METEOR's jar: return the 23 counts, which can be summed over captions.

    Raises InputError if the line does not have 23 numbers.
    """
    try:
        counts = [float(word) for word in answer.split()]
    except ValueError:
        counts = []
    if len(counts) != STATISTICS:
        raise InputError(f"METEOR answered {answer[:100]!r} instead of statistics; try another Java")
    if counts[CHUNKS] == 1 and counts[MATCHES] == counts[WORDS]:
        counts[CHUNKS] = 0.0
    return counts


STATISTICS = 23
WORDS, FUNCTION, MATCHED, CHUNKS, MATCHES = slice(0, 2), slice(2, 4), slice(4, 20), 20, slice(21, 23)
# The task "rank" of English (Denkowski and Lavie 2014, table 2).
ALPHA, BETA, GAMMA, DELTA = 0.85, 0.20, 0.60, 0.75
WEIGHTS = np.array([1.0, 0.6, 0.8, 0.6])  # exact, stem, synonym, paraphrase


def from_statistics(statistics: np.ndarray) -> np.ndarray:
    """Return METEOR (0 to 1) from the 23 counts of a caption, (..., 23), or from their sums over a corpus.

    The result equals that of METEOR's Java program to the last digit. A matcher finds words of the caption
    that match words of the reference, for example synonyms. The counts, in order:

    words: 2 counts, in the caption and in its reference
    function words: 2 counts, in the caption and in its reference
    matched words of each matcher: 4 counts for each of the 4 matchers (content words in the caption and
        in its reference, then function words in the caption and in its reference)
    chunks (runs of matched words in the same order): 1 count; 0 if one chunk covers both sentences
    matched words of all matchers together: 2 counts, in the caption and in its reference
    """
    stats = np.asarray(statistics, dtype=np.float64)
    words, function = stats[..., WORDS], stats[..., FUNCTION]  # (..., caption/reference)
    # (..., matcher, content/function, caption/reference)
    matched = stats[..., MATCHED].reshape(*stats.shape[:-1], 4, 2, 2)
    terms = matched * WEIGHTS[:, None, None] * np.array([DELTA, 1 - DELTA])[:, None]
    weighted = np.cumsum(terms.reshape(*stats.shape[:-1], 8, 2), -2)[..., -1, :]  # sums in the jar's order
    share = _ratio(weighted, DELTA * (words - function) + (1 - DELTA) * function)
    precision, recall = share[..., 0], share[..., 1]
    mean = _ratio(np.where(share.all(-1), 1.0, 0.0), _ratio(1 - ALPHA, precision) + _ratio(ALPHA, recall))
    fragmentation = _ratio(stats[..., CHUNKS], stats[..., MATCHES].mean(-1))
    # Python's ** gives the jar's value; numpy's may differ in the last bit
    power = np.array([value**BETA for value in fragmentation.ravel().tolist()]).reshape(fragmentation.shape)
    return mean * (1 - GAMMA * power)


def _ratio(numerator: np.ndarray | float, denominator: np.ndarray) -> np.ndarray:
    return np.divide(numerator, denominator, out=np.zeros_like(denominator), where=denominator != 0)
