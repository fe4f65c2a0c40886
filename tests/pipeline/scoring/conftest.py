"""Scoring without a JVM, for tests of what stands around it; and a JVM that is made up."""

import time
from pathlib import Path

import pytest

from pipeline.scoring import java, spice, tokenizer


@pytest.fixture
def without_java(made_up_meteor: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """METEOR and Java's version made up; the tokenizer's Java is an error."""

    def no_java(lines: list[str], timeout: float) -> list[str]:
        raise AssertionError("the PTB tokenizer was called")

    monkeypatch.setattr(tokenizer, "_tokenized", no_java)
    monkeypatch.setattr(java, "version", lambda timeout: "none")
    monkeypatch.setattr(spice, "unavailable", lambda timeout: "not here")


def left_behind(pids: Path) -> list[str]:
    """Command lines of processes that still run, 5 seconds on, in the groups whose numbers `pids` holds."""
    groups = {int(line) for line in pids.read_text().split()} if pids.exists() else set()
    patience = time.monotonic() + 5  # what was killed needs a moment to vanish
    while (found := _running(groups)) and time.monotonic() < patience:
        time.sleep(0.05)
    return found


def _running(groups: set[int]) -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(group) in groups and state != "Z":
                found.append((folder / "cmdline").read_text())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
