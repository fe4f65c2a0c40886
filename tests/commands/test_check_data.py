"""commands.check_data: counts, missing images, and changes since a dataset was prepared."""

import json
from pathlib import Path

import pytest

from pipeline.config.params import read_tree
from pipeline.datasets import manifest
from tests import project_params
from tests.synthetic_real import MAKERS, make_spot_the_diff

ROOT = Path(__file__).parents[2]
STD = "data/raw/spot_the_diff"


@pytest.fixture
def repository(tmp_path, monkeypatch) -> Path:
    project_params.copy(tmp_path)
    (tmp_path / "data/cards").mkdir(parents=True)
    for card in (ROOT / "data/cards").glob("*.yaml"):
        if card.stem != "tabletop":  # `make repro` writes that one
            (tmp_path / "data/cards" / card.name).symlink_to(card)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def check(leaves):
    return lambda dataset="spot_the_diff": leaves("check_data", "--dataset", dataset)


@pytest.mark.parametrize("dataset", MAKERS)
def test_a_complete_folder(repository, check, dataset):
    MAKERS[dataset](repository / "data/raw" / dataset)
    code, out, err = check(dataset)
    assert code == 0
    assert [line for line in err.splitlines() if not line.startswith("measuring")] == []  # progress
    assert "images are there\nnot prepared yet" in out
    assert "published" in out
    assert "\x1b" not in out


def test_counts_are_compared_with_the_published_ones(repository, check):
    make_spot_the_diff(repository / STD)
    _, out, _ = check()
    assert "protocol merged" in out
    assert "\nval: 2 pairs, published 1,493 (4 blank)\n" in out


def test_captions_that_a_program_wrote_are_named(repository, check):
    path = make_spot_the_diff(repository / STD) / "annotations/val.json"
    entries = json.loads(path.read_text())
    entries[0]["sentences"] = ["the car &amp; the bus left", "左边的红色汽车不见了", "nan"]
    path.write_text(json.dumps(entries))
    code, _, err = check()
    assert code == 0
    lines = [line for line in err.splitlines() if line.startswith("warning: 1 of ")]
    assert len(lines) == 3
    for line, piece in zip(lines, ("'&amp;'", "'左边的红色汽车不见了'", "'nan'"), strict=True):
        assert piece in line
        assert str(entries[0]["img_id"]) in line


def test_missing_and_empty_images(repository, check):
    root = make_spot_the_diff(repository / STD)
    for number in range(2, 14):
        (root / f"resized_images/{number}.png").unlink()
        (root / f"resized_images/{number}_2.png").unlink()
    (root / "resized_images/0.png").write_bytes(b"")
    code, out, err = check()
    assert code == 2
    assert "are there" not in out
    lines = err.splitlines()
    assert lines[0].startswith(f"error: {STD}: 25 problem(s) (the first 20 of 25); put these images in place")
    assert lines[1:3] == ["  resized_images/0.png: empty (0 bytes)", "  resized_images/2.png: missing"]
    assert len(lines) == 21


def test_unknown_datasets_and_protocols(repository, check):
    code, _, err = check("coco")
    assert (code, err.split(";")[0]) == (2, "error: unknown dataset 'coco'")
    tree = read_tree(repository / "params.yaml")
    tree["dataset"]["spot_the_diff"]["prepare"]["protocol"] = "single"
    project_params.save(repository, tree)
    code, _, err = check()
    assert code == 2
    assert "prepare.protocol 'single' of spot_the_diff: there is merged, per_entry, multi" in err


def test_a_dataset_without_a_card(repository, check):
    MAKERS["clevr_change"](repository / "data/raw/tabletop")
    code, out, _ = check("tabletop")
    assert code == 0
    assert "40 pairs, 60 images, 80 captions\nthere are no published counts to compare" in out


def test_changes_since_the_dataset_was_prepared(repository, check, leaves):
    root = make_spot_the_diff(repository / STD)
    files = ("--pairs", "data/pairs/spot_the_diff.jsonl", "--images", "data/images/spot_the_diff.jsonl")
    more = ("--card", "data/cards/spot_the_diff.yaml", "--manifest", "data/pairs/spot_the_diff.manifest.json")
    code, out, _ = leaves("prepare", "--dataset", "spot_the_diff", *files, *more)
    assert code == 0
    assert "note: val: 2 pairs, published 1,493 (4 blank)" in out
    prepared = manifest.read("data/pairs/spot_the_diff.manifest.json")
    assert prepared.references == "spot_the_diff, protocol merged"
    assert "nothing has changed since the dataset was prepared" in check()[1]
    (root / "resized_images/5.png").write_bytes(b"x")
    entries = json.loads((root / "annotations/val.json").read_text())
    entries[0]["sentences"] = ["a bird flew by"]
    entries.append({"img_id": "1", "sentences": ["two men came"]})
    (root / "annotations/val.json").write_text(json.dumps(entries))
    train = root / "annotations/train.json"
    train.write_text(train.read_text().replace('"1"', '"4"'))
    code, out, _ = check()
    assert code == 0
    assert out[out.index("since the dataset was prepared:") :].splitlines()[1:] == [
        "  resized_images/5.png: other content",
        "  images that are new: 2, such as resized_images/1.png, resized_images/1_2.png",
        "  annotation files that are changed: 2, such as annotations/train.json, annotations/val.json",
        "  pairs that are new: 1, such as 1",
        "  pairs that are changed: 1, such as 16",
        "prepare it again: dvc repro --force --single-item prepare@spot_the_diff",
    ]
