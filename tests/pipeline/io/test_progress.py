"""Progress of long work: without a terminal, lines of the first process only."""

import pytest
from torch import distributed

from pipeline.io.progress import rate_of, track


@pytest.mark.parametrize(("rank", "lines"), [(None, 1), (0, 1), (1, 0)])
@pytest.mark.parametrize("left_over", ["", "1", "x"])
def test_only_the_first_process_shows_its_progress(rank, lines, left_over, monkeypatch, capsys):
    monkeypatch.setenv("RANK", left_over)  # left over from an earlier launcher
    if rank is not None:
        monkeypatch.setattr(distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(distributed, "get_rank", lambda: rank)
    assert list(track("abc", "spelling", "letters", 5, done=2)) == ["a", "b", "c"]
    said = capsys.readouterr().err.splitlines()
    assert len(said) == lines
    assert all(line.startswith("spelling: 5/5 letters, ") for line in said)


@pytest.mark.parametrize(
    ("rate", "said"), [(123.44, "123.4 a/s"), (1.0, "1.0 a/s"), (0.0423, "0.042 a/s"), (0.003, "0.003 a/s")]
)
def test_a_slow_rate_is_not_zero(rate, said):
    assert rate_of(rate, "a") == said
