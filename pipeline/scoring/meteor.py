"""METEOR 1.5 through the jar that pycocoevalcap ships, in one JVM that we drive ourselves.

The jar reads `SCORE ||| reference ||| … ||| caption` and answers a line of statistics; it reads
`EVAL ||| statistics ||| …` and answers the score of each, then that of all of them as one corpus.
"""

from pathlib import Path

from pycocoevalcap.meteor import meteor

from pipeline.errors import InputError
from pipeline.scoring.java import Jvm

JAR = Path(meteor.__file__).with_name(meteor.METEOR_JAR)
VERSION = JAR.stem.removeprefix("meteor-")
SEPARATOR = " ||| "
# written before their answers are read: so many answers (at most 200 bytes each) fit into any pipe
AT_ONCE = 64


def start(timeout: float) -> Jvm:
    """A JVM that loads METEOR's tables from now on (6 s), and lives at most `timeout` seconds.

    Raises InputError where Java is missing.
    """
    return Jvm("METEOR", ["-Xmx2G", "-jar", str(JAR), "-", "-", "-stdio", "-l", "en", "-norm"], timeout)


def scores(
    jvm: Jvm, captions: dict[str, str], references: dict[str, list[str]], subsets: dict[str, list[str]]
) -> tuple[dict[str, float], dict[str, float]]:
    """The corpus value of each subset and the value of each pair, 0 to 1, from tokenised sentences.

    Raises InputError where Java dies, stalls or answers no number.
    """
    ids = list(captions)
    statistics = dict(
        zip(ids, _statistics(jvm, [_question(captions[i], references[i]) for i in ids]), strict=True)
    )
    corpus = {
        name: _evaluated(jvm, [statistics[i] for i in members])[-1] for name, members in subsets.items()
    }
    return corpus, dict(zip(ids, _evaluated(jvm, list(statistics.values()))[:-1], strict=True))


def _question(caption: str, references: list[str]) -> str:
    # a separator inside a sentence would make two of it
    return SEPARATOR.join(["SCORE", *(text.replace("|||", "") for text in (*references, caption))])


def _statistics(jvm: Jvm, questions: list[str]) -> list[str]:
    answers = []
    for first in range(0, len(questions), AT_ONCE):
        some = questions[first : first + AT_ONCE]
        jvm.write("".join(f"{question}\n" for question in some).encode())
        answers += jvm.lines(len(some))
    if odd := [answer for answer in answers if not answer[:1].isdigit()]:
        raise InputError(f"METEOR answered {odd[0][:100]!r} where statistics were due")
    return answers


def _evaluated(jvm: Jvm, statistics: list[str]) -> list[float]:
    """The score of each, and last the score of all as one corpus."""
    jvm.write(f"{SEPARATOR.join(['EVAL', *statistics])}\n".encode())
    answers = jvm.lines(len(statistics) + 1)
    try:
        return [float(answer) for answer in answers]
    except ValueError as error:
        raise InputError(f"METEOR answered no number: {error}") from None
