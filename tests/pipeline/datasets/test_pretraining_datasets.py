"""CUB and NABirds in their published layouts, made up: read, written and read back, and refused by line."""

from collections import Counter

import numpy as np
import pytest
from PIL import Image

from pipeline.datasets import cub, images, nabirds
from pipeline.datasets.pretraining_schema import (
    CaptionedImage,
    ClassPair,
    as_pairs,
    images_of,
    read_captioned_images,
    read_class_pairs,
    write_records,
)
from pipeline.errors import InputError
from pipeline.negatives.generation import generate
from tests.running import refuse, set_params, succeed

CLASSES = {1: "001.Black_footed_Albatross", 5: "005.Crested_Auklet", 9: "009.Brewer_Blackbird"}
COLOURS = ("black", "white", "red", "green", "yellow", "blue", "brown")


def sentences(number):
    """Two of the image of that number."""
    own = [COLOURS[(number + k) % len(COLOURS)] for k in range(3)]
    return [f"this bird has a {own[k]} head and a {own[k + 1]} belly." for k in range(2)]


def make_birds(root, per_class=4, captions=True):
    """Images of three classes; the last one of each is not for training."""
    lists = {"images": [], "image_class_labels": [], "train_test_split": [], "classes": []}
    number = 0
    for label, folder in CLASSES.items():
        (root / "images" / folder).mkdir(parents=True)
        lists["classes"].append(f"{label} {folder}")
        for place in range(per_class):
            number += 1
            name = f"{folder}/Bird_{number:04d}"
            shade = np.full((8, 8, 3), 20 * number, np.uint8)
            Image.fromarray(shade).save(root / "images" / f"{name}.jpg")
            lists["images"].append(f"{number} {name}.jpg")
            lists["image_class_labels"].append(f"{number} {label}")
            lists["train_test_split"].append(f"{number} {int(place < per_class - 1)}")
            if captions:
                (root / "text_c10" / folder).mkdir(parents=True, exist_ok=True)
                texts = sentences(number)
                (root / "text_c10" / f"{name}.txt").write_text("\n ".join(texts) + "  \n\n")
    for file, lines in lists.items():
        (root / f"{file}.txt").write_text("\n".join(lines) + "\n")
    return root


@pytest.fixture
def root(tmp_path):
    return make_birds(tmp_path / "raw")


def rewrite(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def test_an_image_of_cub_has_its_sentences(root):
    found = cub.read(root)
    assert found[0] == CaptionedImage(
        "1",
        "train",
        "images/001.Black_footed_Albatross/Bird_0001.jpg",
        tuple(sentences(1)),
    )
    assert Counter(image.split for image in found) == {"train": 9, "val": 3}


def test_half_of_nabirds_pairs_are_of_one_class(root):
    pairs = nabirds.read(root, seed=1)
    first = {"train": [f"{n}" for n in range(1, 13) if n % 4], "val": ["4", "8", "12"]}
    assert [pair.pair_id.split("_")[0] for pair in pairs] == first["train"] + first["val"]
    assert {pair.before_class for pair in pairs} == {0, 1, 2}
    for pair in pairs:
        folders = [name.split("/")[1] for name in (pair.before, pair.after)]
        assert [list(CLASSES.values()).index(f) for f in folders] == [pair.before_class, pair.after_class]
        assert pair.same_class == (folders[0] == folders[1])
        assert pair.before != pair.after
        assert {int(part) % 4 == 0 for part in pair.pair_id.split("_")} == {pair.split == "val"}
    train = [pair for pair in pairs if pair.split == "train"]
    assert [pair.same_class for pair in train] == [number % 2 == 0 for number in range(9)]
    # of a split with one image a class no pair can be of one
    assert not any(pair.same_class for pair in pairs if pair.split == "val")


def test_the_seed_draws_the_pairs(root):
    assert nabirds.read(root, 1) == nabirds.read(root, 1)
    assert nabirds.read(root, 1) != nabirds.read(root, 2)


def test_records_are_written_and_read(root, tmp_path):
    for records, read in ((cub.read(root), read_captioned_images), (nabirds.read(root, 1), read_class_pairs)):
        write_records(tmp_path / "records.jsonl", records)
        assert read(tmp_path / "records.jsonl") == records
        with pytest.raises(InputError, match=r"line 1: its fields must be .*run `dvc repro prepare"):
            ({read_captioned_images, read_class_pairs} - {read}).pop()(tmp_path / "records.jsonl")
    (tmp_path / "records.jsonl").write_text("{\n")
    with pytest.raises(InputError, match="line 1: its fields must be image_id, split, image, captions"):
        read_captioned_images(tmp_path / "records.jsonl")


def test_single_images_get_negatives(root):
    pairs = as_pairs(cub.read(root))
    made = list(generate("birds", pairs, seed=1))
    assert [each.pair_id for each in made[:2]] == ["1", "2"]
    assert {negative.kind for each in made for negative in each.negatives} <= {"retrieve", "replace"}


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("images.txt", "2 001", "1 001", r"images\.txt, line 2: 1 stands there before; keep one"),
        (
            "images.txt",
            "2 001.Black_footed_Albatross/Bird_0002.jpg",
            "2",
            r"line 2: '2' is not an id and a value",
        ),
        ("images.txt", "001.Black", "../../x", "images.txt: 1: .* leads out of the dataset's folder"),
        ("images.txt", "12 009", "13 009", r"image_class_labels\.txt has no 13"),
        ("image_class_labels.txt", "12 9", "12 x", "12: 'x' is no number of a class"),
        ("train_test_split.txt", "3 1", "3 2", r"train_test_split\.txt: 3: '2', not 1 \(train\) or 0"),
    ],
)
@pytest.mark.parametrize("read", [cub.read, lambda root: nabirds.read(root, 1)], ids=["cub", "nabirds"])
def test_wrong_lists_are_refused(root, read, file, old, new, said):
    rewrite(root / file, old, new)
    with pytest.raises(InputError, match=f"(?s){said}"):
        read(root)


def test_what_is_missing_is_named(root):
    (root / "text_c10/005.Crested_Auklet/Bird_0005.txt").unlink()
    (root / "text_c10/005.Crested_Auklet/Bird_0006.txt").write_text("\n \n")
    with pytest.raises(
        InputError, match=r"(?s)2 problem.*Bird_0005\.txt is missing.*0006\.txt has no sentence"
    ):
        cub.read(root)
    (root / "train_test_split.txt").unlink()
    with pytest.raises(InputError, match=r"train_test_split\.txt is missing; data/README\.md lists"):
        nabirds.read(root, 1)
    (root / "images.txt").write_text("\n")
    (root / "train_test_split.txt").write_text("1 1\n")
    with pytest.raises(InputError, match=r"images\.txt is empty"):
        nabirds.read(root, 1)


def test_a_split_without_images_or_with_one_class_is_refused(root):
    lines = (root / "train_test_split.txt").read_text()
    (root / "train_test_split.txt").write_text(lines.replace(" 0", " 1"))
    with pytest.raises(InputError, match="has no image of val; both splits need images"):
        cub.read(root)
    (root / "train_test_split.txt").write_text(lines.replace("8 0", "8 1").replace("12 0", "12 1"))
    with pytest.raises(InputError, match="the split val has one class alone; pairs need two"):
        nabirds.read(root, 1)


@pytest.mark.parametrize("dataset", ["cub", "nabirds"])
def test_the_stage(root, tmp_path, dataset):
    command = f"prepare_pretraining --dataset {dataset} --records out.jsonl --images images.jsonl"
    set_params(tmp_path, pretraining__root__cub="raw", pretraining__root__nabirds="raw")
    succeed(tmp_path, command)
    read = {"cub": read_captioned_images, "nabirds": read_class_pairs}[dataset]
    names = images_of(read(tmp_path / "out.jsonl"))
    assert [image.name for image in images.read_index(tmp_path / "images.jsonl")] == names
    first = (tmp_path / "out.jsonl").read_bytes()
    (root / "images/009.Brewer_Blackbird/Bird_0012.jpg").write_bytes(b"")
    assert "Bird_0012.jpg is empty" in refuse(tmp_path, command, "put these images in place")
    assert (tmp_path / "out.jsonl").read_bytes() == first
    assert ClassPair("a", "val", "x", "y", 3, 3).same_class


def test_a_dataset_without_a_place_is_refused(tmp_path):
    set_params(tmp_path, pretraining={"datasets": ["cub"], "root": {}, "seed": 1})
    command = "prepare_pretraining --dataset cub --records out.jsonl --images images.jsonl"
    refuse(tmp_path, command, "datasets names 'cub', and root does not say where it lies")
