"""METEOR without its table of paraphrases, which loads for seconds: the same numbers without paraphrases.

`python -m tests.light_meteor ...` is `python -m stages.score ...` with it.
"""

import gzip
import tempfile
from pathlib import Path
from unittest.mock import patch

from pipeline.scoring import java, meteor
from stages import run, score


def arguments(folder: Path) -> list[str]:
    """The arguments of METEOR, with an empty table in `folder`."""
    table = folder / "none.gz"
    table.write_bytes(gzip.compress(b""))
    return [*meteor.ARGUMENTS, "-a", str(table)]


def answers(folder: Path, questions: list[str]) -> list[list[float]]:
    """The numbers that the jar answers to SCORE and EVAL lines."""
    found, _ = java.run("METEOR", arguments(folder), 120, "".join(f"{line}\n" for line in questions))
    return [[float(word) for word in line.split()] for line in found.splitlines()]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made, patch.object(meteor, "ARGUMENTS", arguments(Path(made))):
        run(score.main)
