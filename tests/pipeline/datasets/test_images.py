"""The index of images: it says what was seen, names what is missing or broken, and is streamed."""

import hashlib
import threading

import pytest

from pipeline.datasets import images
from pipeline.io.errors import InputError

NAMES = [f"images/CLEVR_default_{number:06d}.png" for number in range(20)]


def test_index_and_its_file(clevr_change, tmp_path):
    found = list(images.index(clevr_change, NAMES))
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
        list(images.index(clevr_change, NAMES))
    lines = str(caught.value).split("\n")
    assert "3 problem(s)" in lines[0]
    assert [number for number in (2, 5, 7) if f"{number:06d}.png" in lines[1 + (2, 5, 7).index(number)]] == [
        2,
        5,
        7,
    ]


def test_an_index_with_a_broken_image_is_not_written(clevr_change, tmp_path):
    (clevr_change / NAMES[-1]).unlink()
    with pytest.raises(InputError, match=r"1 problem\(s\)"):
        images.write_index(tmp_path / "i.jsonl", images.index(clevr_change, NAMES))
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]


def test_only_a_few_images_are_held_at_a_time(clevr_change, monkeypatch):
    """However many there are: each was read shortly before it is asked for, and is let go after."""
    monkeypatch.setattr(images.os, "cpu_count", lambda: 2)
    lock, opened = threading.Lock(), []
    inspect = images._inspect

    def watched(root, name):
        with lock:
            opened.append(name)
        return inspect(root, name)

    monkeypatch.setattr(images, "_inspect", watched)
    names = NAMES * 50
    for taken, image in enumerate(images.index(clevr_change, names), 1):
        assert image.name == names[taken - 1]
        assert len(opened) <= taken + 9
    assert len(opened) == len(names)


def test_a_damaged_index_is_named(tmp_path):
    (tmp_path / "i.jsonl").write_bytes(b'{"name": "a.png"}\n')
    with pytest.raises(InputError, match=r"i\.jsonl, line 1: the key width is missing; run `dvc repro"):
        images.read_index(tmp_path / "i.jsonl")


def test_names_with_line_separators_come_back(tmp_path):
    seen = [images.Indexed("a\u2028b\n.png", 1, 1, 1, "")]
    images.write_index(tmp_path / "i.jsonl", seen)
    assert images.read_index(tmp_path / "i.jsonl") == seen


def test_only_the_first_twenty_are_listed(tmp_path):
    with pytest.raises(InputError, match=r"25 problem\(s\) \(the first 20 of 25\)") as caught:
        list(images.index(tmp_path, [f"{number}.png" for number in range(25)]))
    assert len(str(caught.value).split("\n")) == 21
