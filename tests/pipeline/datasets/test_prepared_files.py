"""Files that preparation writes: the index of images, the manifest, and negatives. Damaged ones are named."""

import hashlib
import json
from dataclasses import replace

import pytest

from pipeline.datasets import images, manifest
from pipeline.datasets.manifest import Manifest
from pipeline.datasets.negatives import Negative, PairNegatives, read_negatives, write_negatives
from pipeline.io.errors import InputError

NAMES = [f"images/CLEVR_default_{number:06d}.png" for number in range(20)]


def test_an_index_is_written_and_read(clevr_change, tmp_path):
    found = list(images.index(clevr_change, NAMES))
    data = (clevr_change / NAMES[3]).read_bytes()
    assert found[3] == images.Indexed(NAMES[3], 48, 32, len(data), hashlib.sha256(data).hexdigest())
    found.append(images.Indexed("a\u2028b\n.png", 1, 1, 1, ""))  # with line separators in its name
    images.write_index(tmp_path / "i.jsonl", found)
    assert images.read_index(tmp_path / "i.jsonl") == found


def test_missing_and_broken_images_are_listed_and_no_index_is_written(clevr_change, tmp_path):
    (clevr_change / NAMES[2]).unlink()
    whole = (clevr_change / NAMES[5]).read_bytes()
    (clevr_change / NAMES[5]).write_bytes(whole[: len(whole) // 2])
    (clevr_change / NAMES[7]).write_bytes(b"")
    with pytest.raises(InputError) as caught:
        images.write_index(tmp_path / "i.jsonl", images.index(clevr_change, NAMES))
    head, *lines = str(caught.value).split("\n")
    assert "3 problem(s)" in head
    assert all(NAMES[number] in line for number, line in zip((2, 5, 7), lines, strict=True))
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]
    with pytest.raises(InputError, match=r"25 problem\(s\) \(the first 20 of 25\)") as caught:
        list(images.index(tmp_path, [f"{number}.png" for number in range(25)]))
    assert len(str(caught.value).split("\n")) == 21


def test_a_manifest_is_written_and_read(tmp_path):
    merged = Manifest("spot_the_diff", "merged", {"annotations/test.json": "ab"}, {"test": {"pairs": 1270}})
    manifest.write(tmp_path / "manifest.json", merged)
    assert replace(manifest.read(tmp_path / "manifest.json"), hashes={}) == merged
    assert merged.references == "spot_the_diff, protocol merged"
    assert Manifest("clevr_change", None, {}, {}).references == "clevr_change"


@pytest.mark.parametrize(
    ("read", "text", "named"),
    [
        (images.read_index, '{"name": "a.png"}\n', "line 1: the key width is missing"),
        (manifest.read, "{}", "the key reader is missing"),
    ],
)
def test_a_wrong_index_or_manifest_is_named(tmp_path, read, text, named):
    (tmp_path / "file").write_text(text)
    with pytest.raises(InputError, match=rf"file.*{named}.*; run `dvc repro prepare`"):
        read(tmp_path / "file")


COLOURS = ("red", "blue", "gray", "cyan", "green", "brown")
SIX = tuple(Negative("replace", f"the ball turned {word}") for word in COLOURS)
PAIR = PairNegatives("000.png", "train", ("the ball turned yellow",), SIX)


def test_negatives_are_written_and_read(tmp_path):
    path = tmp_path / "negatives.jsonl"
    write_negatives(path, [PAIR, PairNegatives("001.png", "val", ("é",), SIX)])
    record = json.loads(path.read_text("utf-8").split("\n")[0])
    assert list(record) == ["pair_id", "split", "captions", "negatives"]
    assert record["negatives"][0] == {"kind": "replace", "caption": "the ball turned red"}
    assert read_negatives(path) == {name: [own.caption for own in SIX] for name in ("000.png", "001.png")}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"pair_id": 1}, "pair_id: "),
        ({"negatives": []}, "negatives: .* at least 6 items"),
        ({"negatives": [{"kind": "replace", "caption": "a"}] * 7}, "negatives: .* at most 6 items"),
        ({"negatives": [{"kind": "guess", "caption": "a"}] * 6}, "negatives.0.kind: .* not 'guess'"),
        ({}, "the pair_id '000.png' is in an earlier line; write it with"),
    ],
)
def test_wrong_negatives_are_named_by_line(tmp_path, change, named):
    path = tmp_path / "negatives.jsonl"
    write_negatives(path, [PAIR])
    path.write_text(path.read_text() + json.dumps(json.loads(path.read_text()) | change) + "\n")
    with pytest.raises(InputError, match=f"line 2: {named}"):
        read_negatives(path)
