"""Scoring without a JVM, for tests of what stands around it."""

from contextlib import nullcontext

import pytest

from pipeline.scoring import java, meteor, spice, tokenizer
from pipeline.scoring.meteor import Meteor


@pytest.fixture
def without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """METEOR and Java's version made up; the tokenizer's Java is an error."""

    def no_java(lines: list[str], timeout: float) -> list[str]:
        raise AssertionError("the PTB tokenizer was called")

    def scores(jvm: None, captions: dict, references: dict, subsets: dict) -> Meteor:
        half = dict.fromkeys(captions, 0.5)
        return Meteor(dict.fromkeys(subsets, 0.5), half, {key: [0.0] for key in captions})

    monkeypatch.setattr(tokenizer, "_tokenized", no_java)
    monkeypatch.setattr(meteor, "start", lambda timeout: nullcontext())
    monkeypatch.setattr(meteor, "scores", scores)
    monkeypatch.setattr(java, "version", lambda timeout: "none")
    monkeypatch.setattr(spice, "unavailable", lambda timeout: "not here")
