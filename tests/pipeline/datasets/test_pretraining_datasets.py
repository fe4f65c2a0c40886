"""CUB and NABirds in their published layouts: read, prepared by the stage, and refused by line."""

from collections import Counter

import pytest

from pipeline.datasets import images
from pipeline.datasets.cub_nabirds import read_cub, read_nabirds
from pipeline.datasets.negatives import read_negatives
from pipeline.datasets.schema import ClassPair, Pair, images_of, read_pairs
from pipeline.io.errors import InputError
from pipeline.io.records import read_records
from tests.birds import CLASSES, make_birds, sentences
from tests.running import refuse, set_params, succeed


@pytest.fixture
def root(tmp_path):
    return make_birds(tmp_path / "raw")


def same(pair):
    return pair.before_class == pair.after_class


def test_an_image_of_cub_has_its_sentences(root):
    found = read_cub(root)
    name = "images/001.Black_footed_Albatross/Bird_0001.jpg"
    assert found[0] == Pair("1", "1", "train", name, name, tuple(sentences(1)))
    assert Counter(image.split for image in found) == {"train": 9, "val": 3}


def test_half_of_the_pairs_of_nabirds_are_of_one_class(root):
    pairs = read_nabirds(root, seed=1)
    first = {"train": [f"{n}" for n in range(1, 13) if n % 4], "val": ["4", "8", "12"]}
    assert [pair.pair_id.split("_")[0] for pair in pairs] == first["train"] + first["val"]
    assert {pair.before_class for pair in pairs} == {0, 1, 2}
    for pair in pairs:
        folders = [name.split("/")[1] for name in (pair.before, pair.after)]
        assert [list(CLASSES.values()).index(f) for f in folders] == [pair.before_class, pair.after_class]
        assert pair.before != pair.after
        assert {int(part) % 4 == 0 for part in pair.pair_id.split("_")} == {pair.split == "val"}
    train = [pair for pair in pairs if pair.split == "train"]
    assert [same(pair) for pair in train] == [number % 2 == 0 for number in range(9)]
    # val has one image per class, so no pair can be of one class
    assert not any(same(pair) for pair in pairs if pair.split == "val")
    assert pairs == read_nabirds(root, 1)
    assert pairs != read_nabirds(root, 2)


@pytest.mark.parametrize(
    ("file", "old", "new", "named"),
    [
        ("images.txt", "2 001.Black", "1 001.Black", r"images\.txt, line 2: 1 has two values"),
        ("images.txt", "001.Black", "../../x", r"1\.images: must be a file in the dataset's folder"),
        ("images.txt", "12 009", "13 009", r"13\.image_class_labels is missing"),
        ("image_class_labels.txt", "12 9", "12 x", r"12\.image_class_labels: .* not 'x'"),
        ("train_test_split.txt", "3 1", "3 2", r"3\.train_test_split: .* not '2'"),
    ],
)
@pytest.mark.parametrize("read", [read_cub, lambda root: read_nabirds(root, 1)], ids=["cub", "nabirds"])
def test_wrong_lists_are_refused(root, read, file, old, new, named):
    text = (root / file).read_text()
    assert old in text
    (root / file).write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=f"(?s){named}"):
        read(root)


def test_missing_sentences_lists_splits_and_classes_are_named(root):
    (root / "text_c10/005.Crested_Auklet/Bird_0005.txt").unlink()
    (root / "text_c10/005.Crested_Auklet/Bird_0006.txt").write_text("\n \n")
    with pytest.raises(InputError, match=r"(?s)2 problem.*Bird_0005\.txt is missing, .*0006\.txt is "):
        read_cub(root)
    splits = root / "train_test_split.txt"
    lines = splits.read_text()
    splits.write_text(lines.replace("8 0", "8 1").replace("12 0", "12 1"))
    with pytest.raises(InputError, match="the split val has only one class; pairs need two"):
        read_nabirds(root, 1)
    splits.write_text(lines.replace(" 0", " 1"))
    with pytest.raises(InputError, match="has no image of val; both need images"):
        read_nabirds(root, 1)
    splits.unlink()
    with pytest.raises(InputError, match=r"train_test_split\.txt is missing; data/README\.md lists"):
        read_nabirds(root, 1)


@pytest.mark.parametrize("dataset", ["cub", "nabirds"])
def test_the_stage_writes_records_an_index_and_the_negatives_of_cub(root, tmp_path, dataset):
    command = f"prepare --dataset {dataset} --records out"
    set_params(tmp_path, pretraining__root__cub="raw", pretraining__root__nabirds="raw")
    succeed(tmp_path, command)
    records = tmp_path / "out/records.jsonl"
    read = read_pairs(records) if dataset == "cub" else list(read_records(records, ClassPair, ""))
    assert read == (read_cub(root) if dataset == "cub" else read_nabirds(root, 1))
    assert [image.name for image in images.read_index(tmp_path / "out/images.jsonl")] == images_of(read)
    first = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    assert ("negatives.jsonl" in first) == (dataset == "cub")
    if dataset == "cub":
        found = read_negatives(tmp_path / "out/negatives.jsonl")
        assert set(found) == {pair.pair_id for pair in read}
        assert all(len(set(own)) == 6 for own in found.values())
        assert b'"confuse"' not in first["negatives.jsonl"]  # an image of CUB shows one bird
    (root / "images/009.Brewer_Blackbird/Bird_0012.jpg").write_bytes(b"")
    assert "Bird_0012.jpg is empty" in refuse(tmp_path, command, "put these images in place")
    assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()} == first


def test_a_dataset_without_a_folder_is_refused(tmp_path):
    set_params(tmp_path, pretraining={"datasets": ["cub"], "root": {}, "seed": 1})
    refuse(tmp_path, "prepare --dataset cub --records out", "datasets names 'cub', but root")
