"""CUB and NABirds in their published layouts, made up: read, written and read back, and refused by line."""

from collections import Counter

import pytest

from pipeline.datasets import images
from pipeline.datasets.cub_nabirds import read_cub, read_nabirds
from pipeline.datasets.negatives import read_negatives
from pipeline.datasets.schema import ClassPair, Pair, images_of, read_pairs, write_pairs
from pipeline.io.errors import InputError
from pipeline.io.records import read_records
from tests.birds import CLASSES, make_birds, sentences
from tests.running import refuse, set_params, succeed


@pytest.fixture
def root(tmp_path):
    return make_birds(tmp_path / "raw")


def rewrite(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def same(pair):
    """Whether both images show the same class."""
    return pair.before_class == pair.after_class


def test_an_image_of_cub_has_its_sentences(root):
    found = read_cub(root)
    name = "images/001.Black_footed_Albatross/Bird_0001.jpg"
    assert found[0] == Pair("1", "1", "train", name, name, tuple(sentences(1)))
    assert Counter(image.split for image in found) == {"train": 9, "val": 3}


def test_half_of_nabirds_pairs_are_of_one_class(root):
    pairs = read_nabirds(root, seed=1)
    first = {"train": [f"{n}" for n in range(1, 13) if n % 4], "val": ["4", "8", "12"]}
    assert [pair.pair_id.split("_")[0] for pair in pairs] == first["train"] + first["val"]
    assert {pair.before_class for pair in pairs} == {0, 1, 2}
    for pair in pairs:
        folders = [name.split("/")[1] for name in (pair.before, pair.after)]
        assert [list(CLASSES.values()).index(f) for f in folders] == [pair.before_class, pair.after_class]
        assert same(pair) == (folders[0] == folders[1])
        assert pair.before != pair.after
        assert {int(part) % 4 == 0 for part in pair.pair_id.split("_")} == {pair.split == "val"}
    train = [pair for pair in pairs if pair.split == "train"]
    assert [same(pair) for pair in train] == [number % 2 == 0 for number in range(9)]
    # of a split with one image a class no pair can be of one
    assert not any(same(pair) for pair in pairs if pair.split == "val")


def test_the_seed_draws_the_pairs(root):
    assert read_nabirds(root, 1) == read_nabirds(root, 1)
    assert read_nabirds(root, 1) != read_nabirds(root, 2)


def test_records_are_written_and_read(root, tmp_path):
    path, pairs = tmp_path / "records.jsonl", read_nabirds(root, 1)
    write_pairs(path, pairs)
    assert list(read_records(path, ClassPair, "make it")) == pairs
    write_pairs(path, read_cub(root))
    assert read_pairs(path) == read_cub(root)
    with pytest.raises(InputError, match=r"line 1: the key before_class is missing; make it"):
        list(read_records(path, ClassPair, "make it"))


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("images.txt", "2 001", "1 001", r"images\.txt, line 2: 1 is listed before; keep one"),
        (
            "images.txt",
            "2 001.Black_footed_Albatross/Bird_0002.jpg",
            "2",
            r"line 2: '2' is not an id and a value",
        ),
        ("images.txt", "001.Black", "../../x", r"1\.images: must be a file in the dataset's folder"),
        ("images.txt", "12 009", "13 009", r"13\.image_class_labels is missing"),
        ("image_class_labels.txt", "12 9", "12 x", r"12\.image_class_labels: .* not 'x'"),
        ("train_test_split.txt", "3 1", "3 2", r"3\.train_test_split: .* not '2'"),
    ],
)
@pytest.mark.parametrize("read", [read_cub, lambda root: read_nabirds(root, 1)], ids=["cub", "nabirds"])
def test_wrong_lists_are_refused(root, read, file, old, new, said):
    rewrite(root / file, old, new)
    with pytest.raises(InputError, match=f"(?s){said}"):
        read(root)


def test_what_is_missing_is_named(root):
    (root / "text_c10/005.Crested_Auklet/Bird_0005.txt").unlink()
    (root / "text_c10/005.Crested_Auklet/Bird_0006.txt").write_text("\n \n")
    with pytest.raises(
        InputError,
        match=r"(?s)2 problem.*Bird_0005\.txt is missing, .*0006\.txt is .*or has no sentence",
    ):
        read_cub(root)
    (root / "train_test_split.txt").unlink()
    with pytest.raises(InputError, match=r"train_test_split\.txt is missing; data/README\.md lists"):
        read_nabirds(root, 1)
    (root / "images.txt").write_text("\n")
    (root / "train_test_split.txt").write_text("1 1\n")
    with pytest.raises(InputError, match=r"images\.txt is empty"):
        read_nabirds(root, 1)


def test_a_split_without_images_or_with_one_class_is_refused(root):
    lines = (root / "train_test_split.txt").read_text()
    (root / "train_test_split.txt").write_text(lines.replace(" 0", " 1"))
    with pytest.raises(InputError, match="has no image of val; both need images"):
        read_cub(root)
    (root / "train_test_split.txt").write_text(lines.replace("8 0", "8 1").replace("12 0", "12 1"))
    with pytest.raises(InputError, match="the split val has one class alone; pairs need two"):
        read_nabirds(root, 1)


@pytest.mark.parametrize("dataset", ["cub", "nabirds"])
def test_the_stage(root, tmp_path, dataset):
    command = f"prepare --dataset {dataset} --records out"
    set_params(tmp_path, pretraining__root__cub="raw", pretraining__root__nabirds="raw")
    succeed(tmp_path, command)
    records = tmp_path / "out/records.jsonl"
    read = read_pairs(records) if dataset == "cub" else list(read_records(records, ClassPair, ""))
    assert [image.name for image in images.read_index(tmp_path / "out/images.jsonl")] == images_of(read)
    first = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    assert ("negatives.jsonl" in first) == (dataset == "cub")
    (root / "images/009.Brewer_Blackbird/Bird_0012.jpg").write_bytes(b"")
    assert "Bird_0012.jpg is empty" in refuse(tmp_path, command, "put these images in place")
    assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()} == first


def test_single_images_get_negatives(root, tmp_path):
    set_params(tmp_path, pretraining__root__cub="raw")
    succeed(tmp_path, "prepare --dataset cub --records out")
    found = read_negatives(tmp_path / "out/negatives.jsonl")
    assert set(found) == {pair.pair_id for pair in read_cub(root)}
    assert all(len(set(own)) == 6 for own in found.values())
    assert '"confuse"' not in (tmp_path / "out/negatives.jsonl").read_text()
    set_params(tmp_path, pretraining__root__cub="raw", pretraining__seed=2)
    succeed(tmp_path, "prepare --dataset cub --records other")
    assert read_negatives(tmp_path / "other/negatives.jsonl") != found


def test_a_dataset_without_a_place_is_refused(tmp_path):
    set_params(tmp_path, pretraining={"datasets": ["cub"], "root": {}, "seed": 1})
    command = "prepare --dataset cub --records out"
    refuse(tmp_path, command, "datasets names 'cub', but root")
