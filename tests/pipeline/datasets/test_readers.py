"""What holds of every reader: all pairs, by names; what is missing or unknown is refused by name."""

import os
import re
from pathlib import Path

import pytest

from pipeline.datasets import annotations, readers
from pipeline.datasets.schema import CHANGE, CHANGE_TYPES, NO_CHANGE, Pair, images_of, of_split
from pipeline.decoding.gallery_pairs import choose
from pipeline.io.errors import InputError
from pipeline.scoring.subsets import subsets
from tests.synthetic_real import MAKERS, edit_json


@pytest.fixture(params=MAKERS)
def made(request, tmp_path) -> tuple[str, Path]:
    return request.param, MAKERS[request.param](tmp_path / "raw")


def test_all_pairs_are_read_and_their_images_are_there(made):
    reader, root = made
    pairs = readers.read(reader, root)
    assert len({pair.pair_id for pair in pairs}) == len(pairs)
    sizes = [len(of_split(pairs, split)) for split in ("train", "val", "test")]
    # two pairs a scene; a pair whose only sentence is empty
    expected = {"clevr_change": [32, 4, 4], "spot_the_diff": [15, 2, 2]}
    assert sizes == expected.get(reader, [16, 2, 2])
    assert all((root / name).is_file() for name in images_of(pairs))


def test_a_missing_image_shifts_nothing(made):
    reader, root = made
    before = readers.read(reader, root)
    (root / before[0].before).unlink()
    assert readers.read(reader, root) == before


def test_every_annotation_file_is_listed_and_missed(made):
    reader, root = made
    files = readers.annotation_files(reader, root)
    assert files == sorted(files, key=files.index)
    text = {path for path in root.rglob("*") if path.suffix in (".json", ".tsv")}
    assert set(files) == text
    for path in files:
        if path.name == "type_mapping.json" and reader == "clevr_dc":
            continue
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(InputError, match=re.escape(path.name)):
            readers.read(reader, root)
        path.write_bytes(content)


def test_a_file_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    def refuse(path, flags):
        raise PermissionError(13, "Permission denied", str(path))

    root = MAKERS["birds_to_words"](tmp_path / "birds")
    other = MAKERS["levir_cc"](tmp_path / "levir")
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(InputError, match=r"v1\.0\.tsv cannot be read \(Permission denied\)"):
        readers.read("birds_to_words", root)
    with pytest.raises(InputError, match=r"LevirCCcaptions\.json cannot be read \(Permission denied\)"):
        readers.read("levir_cc", other)


@pytest.mark.parametrize("reader", sorted(set(MAKERS) - {"spot_the_diff"}))
def test_a_protocol_is_refused_where_there_are_none(reader, tmp_path):
    with pytest.raises(InputError, match=f"prepare.protocol 'merged' of {reader}: there is null only"):
        readers.read(reader, tmp_path, "merged")
    assert readers.protocol_of(reader, None) is None


def test_unknown_readers_are_refused(tmp_path):
    for use in (readers.read, readers.annotation_files):
        with pytest.raises(InputError, match="unknown reader 'coco'; there are clevr_change, clevr_dc"):
            use("coco", tmp_path)


@pytest.mark.parametrize("name", ["/etc/a.png", "../a.png", "a/../../b.png", "..\\a.png", "", ".", "a\0"])
def test_images_stay_inside_the_folder(name):
    assert annotations.image_fault(name) is not None


def pair(number: int, before: str, after: str, split: str = "train", kind: str | None = None) -> Pair:
    return Pair(f"p{number}", "", split, before, after, ("c",), kind)


def test_pairs_that_share_images_are_one_scene():
    chain = [
        pair(0, "a", "b"),
        pair(1, "c", "d"),
        pair(2, "d", "b"),
        pair(3, "e", "f"),
        pair(4, "a", "g", "val"),
    ]
    assert [each.scene_id for each in annotations.scenes_by_images(chain)] == ["p0", "p0", "p0", "p3", "p4"]


def test_a_change_of_no_named_type_is_a_change():
    assert CHANGE not in CHANGE_TYPES
    pairs = [pair(n, "a", "b", "test", kind) for n, kind in enumerate((CHANGE, NO_CHANGE, CHANGE, "add"))]
    assert [each.changed for each in pairs] == [True, False, True, True]
    assert subsets(pairs) == {"change": ["p0", "p2", "p3"], "no_change": ["p1"], "add": ["p3"]}
    assert list(choose(pairs, 4)) == ["add", CHANGE, NO_CHANGE]


def test_captions_stay_as_they_are_written(tmp_path):
    root = MAKERS["levir_cc"](tmp_path / "raw")
    sentences = [{"raw": text} for text in ("  A \u2028b", "", " \t", "c")]
    edit_json(root / "LevirCCcaptions.json", lambda table: table["images"][0].update(sentences=sentences))
    assert readers.read("levir_cc", root)[0].captions == ("  A \u2028b", "c")
