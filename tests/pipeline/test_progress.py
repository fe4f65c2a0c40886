"""Progress of long work: lines where there is no terminal, from the first of several processes only."""

import pytest

from pipeline.progress import track


@pytest.mark.parametrize(("rank", "lines"), [(None, 1), ("0", 1), ("1", 0)])
def test_the_first_process_alone_shows_its_progress(rank, lines, monkeypatch, capsys):
    monkeypatch.delenv("RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("RANK", rank)
    assert list(track("abc", "spelling", "letters", 5, done=2)) == ["a", "b", "c"]
    said = capsys.readouterr().err.splitlines()
    assert len(said) == lines
    assert all(line.startswith("spelling: 5/5 letters, ") for line in said)
