"""Captions of many pairs go on behind a line that was cut anywhere; what is no line of theirs is left."""

import json

import pytest

from pipeline.captioning import many_pairs
from pipeline.captioning.pair_jobs import Job
from pipeline.captioning.picture_captioner import Search
from pipeline.io.errors import InputError


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Caption pairs that all have a fault: no captioner is needed. Names have letters of two bytes."""
    monkeypatch.setattr(many_pairs, "_described", lambda *_: "süß")
    pairs = [Job(f"pär {n}", "vorhär.png", "nachhär.png", tmp_path, "ä fault") for n in range(3)]
    return lambda out: many_pairs.caption(None, pairs, out, Search())


def test_a_run_goes_on_behind_a_line_that_was_cut_anywhere(run, tmp_path):
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    assert run(whole) == 3
    written = whole.read_bytes()
    assert [json.loads(line)["by"] for line in written.decode().splitlines()] == ["süß"] * 3
    for cut in range(len(written) + 1):
        out.write_bytes(written[:cut])
        assert run(out) == 3
        assert out.read_bytes() == written


@pytest.mark.parametrize(
    "own",
    [b"notes of mine", b'{"pair_id": "another', b"\xff\xfe", b"{", b"x\n", b"\xe4\n", b"[" * 100_000 + b"\n"],
    ids=lambda own: repr(own[:10]),
)
@pytest.mark.parametrize("before", [0, 1, 3])
def test_what_is_no_line_of_these_captions_is_left(run, tmp_path, own, before):
    """A file whose only line has no end was emptied."""
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    run(whole)
    text = b"".join(whole.read_bytes().splitlines(keepends=True)[:before]) + own
    out.write_bytes(text)
    if own == b"{" and before < 3:
        assert run(out) == 3  # as a line begins
        return
    with pytest.raises(InputError, match=rf"out\.jsonl, line {before + 1} is no .*; name another --out"):
        run(out)
    assert out.read_bytes() == text
