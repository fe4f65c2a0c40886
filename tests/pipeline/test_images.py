"""Images: every one that is missing or broken is named; the index says what was seen."""

import hashlib

import pytest

from pipeline import images
from pipeline.errors import InputError

NAMES = [f"images/CLEVR_default_{number:06d}.png" for number in range(20)]


def test_index_and_its_file(clevr_change, tmp_path):
    found = images.index(clevr_change, NAMES)
    data = (clevr_change / NAMES[3]).read_bytes()
    assert found[3] == images.Indexed(NAMES[3], 48, 32, len(data), hashlib.sha256(data).hexdigest())
    images.write_index(tmp_path / "i.jsonl", found)
    assert images.read_index(tmp_path / "i.jsonl") == found


def test_missing_truncated_and_foreign_files_are_listed(clevr_change):
    (clevr_change / NAMES[2]).unlink()
    whole = (clevr_change / NAMES[5]).read_bytes()
    (clevr_change / NAMES[5]).write_bytes(whole[: len(whole) // 2])
    (clevr_change / NAMES[7]).write_bytes(b"")
    with pytest.raises(InputError) as caught:
        images.index(clevr_change, NAMES)
    lines = str(caught.value).split("\n")
    assert "3 problem(s)" in lines[0]
    assert [number for number in (2, 5, 7) if f"{number:06d}.png" in lines[1 + (2, 5, 7).index(number)]] == [
        2,
        5,
        7,
    ]


def test_only_the_first_twenty_are_listed(tmp_path):
    with pytest.raises(InputError, match=r"25 problem\(s\) \(the first 20 of 25\)") as caught:
        images.index(tmp_path, [f"{number}.png" for number in range(25)])
    assert len(str(caught.value).split("\n")) == 21


def test_a_damaged_index_is_named(tmp_path):
    (tmp_path / "i.jsonl").write_text('{"name": "a.png"}\n')
    with pytest.raises(InputError, match=r"i\.jsonl is not an index"):
        images.read_index(tmp_path / "i.jsonl")
