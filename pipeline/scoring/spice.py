"""SPICE 1.0 (Anderson et al., ECCV 2016) through the jar that pycocoevalcap ships, on any Java from 11 on.

Parsed sentences are cached in an LMDB database. A run cannot read the database while another run enlarges it,
and a killed run may hold the database's lock for ever. So each run works on its own copy. If the run
succeeds, the copy replaces the database. Concurrent runs may lose each other's new sentences, which are then
parsed again.
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
from pipeline.io.errors import InputError
from pipeline.scoring import java, spice_files

JAR = Path(spice.__file__).with_name(spice.SPICE_JAR)
VERSION = f"{JAR.stem.removeprefix('spice-')}, CoreNLP {spice_files.CORENLP}"
MAIN = "edu.anu.spice.SpiceScorer"
OLDEST_JAVA = 11  # Rhino and --add-opens need it or an earlier version; rounded up to a supported Java
HEAP = 3  # GiB; sentences of 20 words use 1.2
THREADS = min(4, os.cpu_count() or 1)  # each parser has its own chart in the heap
MAX_WORDS = 100  # limit for a sentence: 100 words take 20 s and 1.3 GiB, 400 words do not fit
PORTION = 2000  # sentences per batch (about 80 s); a stopped run loses at most one batch
WORTH_A_JVM = 50  # sentences parsed in the time that a JVM takes to start
# the cache's serializer reads fields of classes of java.base
OPENED = ("lang", "math", "util", "util.concurrent", "net", "text")
# the cache's native library exists only for these machines; on others every run parses all sentences
CACHES = platform.machine() in ("x86_64", "AMD64")
GRAPHS = "scene-graphs.mdb"


def unavailable(timeout: float) -> str | None:
    """Return the reason why SPICE cannot run here, with the remedy, in one phrase; None if SPICE can run.

    Checks Java (for at most `timeout` seconds), each jar, the cache folder and free memory.
    """
    try:
        found = java.version(timeout)
    except InputError as error:
        return str(error)
    if (major := re.match(r"\d+", found)) and int(major[0]) < OLDEST_JAVA:
        return f"Java is {found}, and SPICE needs {OLDEST_JAVA} or later; {java.REMEDY}"
    if said := spice_files.problem():
        return said
    folder, free = spice_files.folder(), memory.free()
    if {"site-packages", "dist-packages"} & set(folder.parts):
        return f"{spice_files.shown()} lies in site-packages; set {spice_files.VARIABLE} to another folder"
    if os.pathsep in str(folder):
        return f"{spice_files.shown()} has {os.pathsep!r} in its path, which Java splits there; move it"
    try:
        tempfile.TemporaryDirectory(dir=folder).cleanup()
    except OSError as error:
        return (
            f"cannot write to {spice_files.shown()} ({error.strerror}); "
            f"set {spice_files.VARIABLE} to a folder of yours"
        )
    if free < HEAP * 2**30:
        return f"{free / 2**30:.1f} GiB of memory are free, and SPICE needs {HEAP}; free some"
    return None


def scores(captions: dict[str, str], references: dict[str, list[str]], timeout: float) -> dict[str, float]:
    """Return SPICE (F1 over the tuples of scene graphs, 0 to 1) of each caption, in the captions' order.

    Sentences must be tokenised; a corpus's SPICE is the mean. F1 is 0 if a graph has no tuple, as in the
    library. Each run of Java may take `timeout` seconds; after a timeout, sentences parsed by earlier runs
    stay cached. Raises InputError if a sentence is longer than MAX_WORDS, or if Java is missing, dies,
    stalls, runs out of memory or returns no scores.
    """
    for key, caption in captions.items():
        for text in (caption, *references[key]):
            if (words := len(text.split())) > MAX_WORDS:
                raise InputError(
                    f"SPICE: a sentence of {key} has {words} words ({text[:30]!r} …), and its parser takes "
                    f"minutes and gigabytes for more than {MAX_WORDS}; shorten it"
                )
    if not captions:
        return {}
    # items are matched by number: the jar may answer in any order
    items = [_item(n, text, references[key]) for n, (key, text) in enumerate(captions.items())]
    try:
        with tempfile.TemporaryDirectory(prefix="run-", dir=spice_files.folder()) as scratch:
            _parse_each_once(items, Path(scratch), timeout)
            answer = _run(items, Path(scratch), timeout)
    except OSError as error:
        raise InputError(f"SPICE cannot write to {spice_files.shown()} ({error.strerror})") from None
    values = _f1(answer, len(items))
    return {key: values[n] for n, key in enumerate(captions)}


def _item(number: int, caption: str, references: list[str]) -> dict[str, Any]:
    return {"image_id": number, "test": caption, "refs": references}


def _parse_each_once(items: list[dict[str, Any]], scratch: Path, timeout: float) -> None:
    """Parse each distinct sentence once, and store the results in the cache.

    Without a cache, the jar parses repeated sentences again.
    """
    sentences = list(chain.from_iterable((item["test"], *item["refs"]) for item in items))
    distinct = list(dict.fromkeys(sentences))
    repeated = len(sentences) - len(distinct)
    if not CACHES or (repeated < WORTH_A_JVM and len(distinct) <= PORTION):
        return
    for first in range(0, len(distinct), PORTION):
        some = distinct[first : first + PORTION]
        _run([_item(n, text, [text]) for n, text in enumerate(some)], scratch, timeout)


def _run(items: list[dict[str, Any]], scratch: Path, timeout: float) -> Any:
    """Run the jar on `items`, with the cache, and return its answer."""
    question, answer = scratch / "question.json", scratch / "answer.json"
    answer.unlink(missing_ok=True)
    # written as ASCII, because Java reads the file in the system's encoding, whatever that is
    question.write_text(json.dumps(items), encoding="ascii")
    graphs, kept = scratch / "graphs" / "data.mdb", spice_files.folder() / GRAPHS
    graphs.parent.mkdir(exist_ok=True)
    if not graphs.exists() and kept.exists():
        shutil.copyfile(kept, graphs)
    before = _changed_at(graphs)
    cache = ["-cache", str(graphs.parent)] if CACHES else []
    arguments = [str(question), "-out", str(answer), "-silent", "-threads", str(THREADS), *cache]
    with java.running("SPICE", [*_options(scratch), MAIN, *arguments], timeout) as jvm:
        try:
            jvm.answer()
        except InputError:
            if found := re.search(r"LMDBException:? *(.*)", jvm.stderr()):
                raise InputError(
                    f"SPICE cannot use its cache ({found[1].strip()[:100]}); "
                    f"delete {GRAPHS} in {spice_files.shown()}, or free some disk space"
                ) from None
            raise
        # the parser continues without the sentence, and the score would depend on the number of cores
        if found := re.search(r"Parsing of sentence ran out of memory \(length=(\d+)\)", jvm.stderr()):
            raise InputError(
                f"SPICE's parser ran out of its {HEAP} GiB over a sentence of {found[1]} words; shorten it"
            )
    if _changed_at(graphs) != before:
        # copy to a unique name on the cache's disk, so that the replacement is atomic
        Path(shutil.copyfile(graphs, scratch / GRAPHS)).replace(kept)
    try:
        return json.loads(answer.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError) as error:
        raise InputError(
            f"SPICE wrote no answer ({type(error).__name__}); try another Java (JAVA_HOME)"
        ) from None


def _options(scratch: Path) -> list[str]:
    # our jars come first: the library may have downloaded other copies to the manifest's paths
    jars = [str(spice_files.folder() / name) for name in spice_files.JARS]
    return [
        f"-Xmx{HEAP}G",
        f"-Djava.io.tmpdir={scratch}",  # the native library is unpacked there
        "-Dfile.encoding=UTF-8",
        *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in OPENED),
        "-cp",
        os.pathsep.join([*jars, str(JAR)]),
    ]


def _changed_at(path: Path) -> int | None:
    return path.stat().st_mtime_ns if path.exists() else None


def _f1(answer: Any, count: int) -> dict[int, float]:
    """Return item number -> F1. Raises InputError for an answer without one F1 per item."""
    try:
        values = {item["image_id"]: float(item["scores"]["All"]["f"]) for item in answer}
    except (TypeError, KeyError, ValueError) as error:
        raise InputError(f"SPICE answered no numbers: {type(error).__name__} {error}") from None
    if sorted(values) != list(range(count)) or not all(0 <= value <= 1 for value in values.values()):
        raise InputError(f"SPICE answered {len(values)} scores instead of {count} from 0 to 1")
    return values
