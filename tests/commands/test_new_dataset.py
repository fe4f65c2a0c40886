"""A folder of pairs becomes a dataset: three lines in params.yaml, checked, prepared, and settled for DVC."""

import shutil

import pytest
from PIL import Image

import models
from pipeline.config import params, resolving
from pipeline.datasets.schema import SPLITS
from pipeline.io.inputs import read_yaml
from tests.running import ROOT, refuse, stage, succeed


def folder_with_table(tmp_path):
    for name in ("params.yaml", "datasets.yaml"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    (tmp_path / "own").mkdir()
    rows = [f"{n}.png,{n}x.png,a thing moved,{split}" for n, split in enumerate(SPLITS)]
    (tmp_path / "own/pairs.csv").write_text("\n".join(["before,after,caption,split", *rows]))
    return tmp_path


OWN = ("clip", "duda", "vard", "vard_transformer", "mccformers", "card")  # tabletop's that have select: truth


def test_the_entry_and_nothing_else(tmp_path):
    folder = folder_with_table(tmp_path)
    before = (folder / "params.yaml").read_text()
    succeed(folder, "new_dataset mine own --like tabletop")
    after = (folder / "params.yaml").read_text()
    own = ", ".join(f"{name}: {{train: {{select: CIDEr-D}}}}" for name in OWN)
    lines = [
        "  mine:",
        "    prepare: {reader: table, root: own, protocol: null}",
        "    like: tabletop",
        "    train: {select: CIDEr-D}",
        f"    own: {{{own}}}",
    ]
    at = after.index("\n".join(lines))
    assert before == after[:at] + after[at:].removeprefix("\n".join(lines) + "\n")
    found = params.load(folder / "params.yaml")
    mine, other = found.dataset["mine"], found.dataset["tabletop"]
    assert (mine.sizes, mine.text, mine.own["idc_pcl"]) == (other.sizes, other.text, other.own["idc_pcl"])
    assert mine.train == other.train.model_copy(update={"select": "CIDEr-D"})
    assert (mine.prepare.reader, other.prepare.reader) == ("table", "clevr_change")
    succeed(folder, "new_dataset mine own --like tabletop")
    assert (folder / "params.yaml").read_text() == after


# the other two are like one themselves
DATASETS = {*params.load(ROOT / "params.yaml").dataset} - {"tabletop_wide", "tabletop_extreme"}


@pytest.mark.parametrize("like", sorted(DATASETS))
def test_every_model_can_be_trained_on_what_was_entered(tmp_path, like):
    """By settings: each recipe is made, and chooses its snapshots by what a table has."""
    folder = folder_with_table(tmp_path)
    succeed(folder, f"new_dataset mine own --like {like}")
    found = params.load(folder / "params.yaml")
    for model in found.model:
        if models.entry_of(model).own in (None, *found.dataset["mine"].own):
            assert resolving.resolve(found, "mine", model).train["select"] not in ("truth", "CIDEr-D/change")


@pytest.mark.parametrize("command", ["show_settings mine scorer_cbr", "check_data --dataset mine"])
def test_truth_without_scenes_is_refused_before_any_work(tmp_path, command):
    folder = folder_with_table(tmp_path)
    for number, name in enumerate(f"{n}{x}.png" for n in range(3) for x in ("", "x")):
        (folder / "own" / name).write_bytes(bytes([number]))
    succeed(folder, "new_dataset mine own --like tabletop")
    succeed(folder, command)
    text = (folder / "params.yaml").read_text()
    (folder / "params.yaml").write_text(text.replace("    train: {select: CIDEr-D}\n", ""))
    refuse(folder, command, "set dataset.mine.train.select: CIDEr-D")


def test_what_is_refused_changes_nothing(tmp_path):
    folder = folder_with_table(tmp_path)
    before = (folder / "params.yaml").read_text()
    refuse(folder, "new_dataset tabletop own", "has a dataset 'tabletop' already")
    refuse(folder, "new_dataset levir_cc own", "has a dataset 'levir_cc' already")
    refuse(folder, "new_dataset mine own --like nowhere", "no dataset 'nowhere' to be like; there are")
    refuse(folder, "new_dataset mi-ne own", "'mi-ne' is no name of a dataset")
    refuse(folder, f"new_dataset {'x' * 300} own", "is no name of a dataset")
    (folder / "data").mkdir()
    (folder / "data/cards").write_text("in the way")
    refuse(folder, "new_dataset mine own", "cannot write data/cards")
    shutil.rmtree(folder / "data")
    for name in ("123", "null", "true", "1_0", "0x1"):
        refuse(
            folder,
            f"new_dataset {name} own",
            f"{name!r} is no name of a dataset; use letters, digits and _",
        )
    said = refuse(
        folder, "new_dataset mine own --like tabletop_wide", "params.yaml: dataset.mine.like must name one"
    )
    assert "partial" not in said
    refuse(folder, "new_dataset mine elsewhere", "elsewhere does not exist")
    assert (folder / "params.yaml").read_text() == before
    assert not (folder / "data").exists()


def test_checked_and_prepared(tmp_path):
    folder = folder_with_table(tmp_path)
    succeed(folder, "new_dataset mine own --like tabletop")
    said = refuse(folder, "check_data --dataset mine", "6 problem(s)")
    assert "line 4: 2x.png: missing" in said
    for number, name in enumerate(f"{n}{x}.png" for n in range(3) for x in ("", "x")):
        (folder / "own" / name).write_bytes(bytes([number]))
    assert stage(folder, "check_data --dataset mine").returncode == 0
    outputs = "--pairs pairs.jsonl --images images.jsonl --manifest manifest.json"
    refuse(folder, f"prepare --dataset mine --card data/cards/mine.yaml {outputs}", "is no image with pixels")
    assert not (folder / "pairs.jsonl").exists()


def test_the_resolved_settings_are_what_dvc_compares(tmp_path):
    folder = folder_with_table(tmp_path)
    succeed(folder, "new_dataset mine own --like tabletop")
    text = (folder / "params.yaml").read_text().replace("datasets:\n- tabletop\n", "datasets:\n- mine\n", 1)
    (folder / "params.yaml").write_text(text)
    succeed(folder, "settings --code code --settings settings")
    tree = read_yaml(folder / "params.yaml", "")["dataset"]
    for name in ("features", "text", "loss", "sizes"):
        assert read_yaml(folder / f"settings/mine/{name}.yaml", "") == tree["tabletop"][name]
    text = (folder / "params.yaml").read_text().replace("{select: CIDEr-D}\n", "{select: last, batch: 3}\n")
    (folder / "params.yaml").write_text(text)
    succeed(folder, "settings --code code --settings settings")
    mine = tree["tabletop"]["train"] | {"select": "last", "batch": 3}
    assert read_yaml(folder / "settings/mine/train.yaml", "") == mine


def test_the_same_picture_in_two_splits_is_refused_by_prepare(tmp_path):
    folder = folder_with_table(tmp_path)
    succeed(folder, "new_dataset mine own --like tabletop")
    for number, name in enumerate(f"{n}{x}.png" for n in range(3) for x in ("", "x")):
        Image.new("RGB", (8, 8), (number % 5, 0, 0)).save(folder / "own" / name)
    command = "prepare --dataset mine --card data/cards/mine.yaml"
    outputs = "--pairs pairs.jsonl --images images.jsonl --manifest manifest.json"
    refuse(folder, f"{command} {outputs}", "2x.png in test is the same image as 0.png in train")
    assert not [*folder.glob("*.json*")]
    Image.new("RGB", (8, 8), "white").save(folder / "own/2x.png")
    succeed(folder, f"{command} {outputs}")
