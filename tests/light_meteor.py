"""METEOR without its table of paraphrases, which loads for seconds: the same numbers without paraphrases.

`python -m tests.light_meteor ...` is `python -m stages.score ...` with it.
"""

import gzip
import tempfile
from pathlib import Path
from unittest.mock import patch

from pipeline.scoring import meteor
from pipeline.scoring.java import Jvm
from stages import run, score


def arguments(folder: Path) -> list[str]:
    """METEOR's, with an empty table in `folder`."""
    table = folder / "none.gz"
    table.write_bytes(gzip.compress(b""))
    return [*meteor.ARGUMENTS, "-a", str(table)]


def start(folder: Path) -> Jvm:
    """As meteor.start, at once."""
    return Jvm("METEOR", arguments(folder), 120)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made, patch.object(meteor, "ARGUMENTS", arguments(Path(made))):
        run(score.main)
