"""Scoring without Java."""

import pytest

from pipeline.scoring import java, spice, tokenizer


@pytest.fixture
def without_java(made_up_meteor: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """METEOR and Java's version are made up; a call of the tokenizer's Java is an error."""

    def no_java(lines: list[str], timeout: float) -> list[str]:
        raise AssertionError("the PTB tokenizer was called")

    monkeypatch.setattr(tokenizer, "_tokenized", no_java)
    monkeypatch.setattr(java, "version", lambda timeout: "none")
    monkeypatch.setattr(spice, "unavailable", lambda timeout: "not here")
