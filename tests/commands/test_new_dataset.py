"""commands.new_dataset: the entry in params.yaml, and what the next commands make of it."""

import subprocess

import pytest
from PIL import Image

import models
from pipeline.config import params, resolving
from pipeline.datasets.schema import SPLITS
from tests import project_params
from tests.running import refuse, succeed


@pytest.fixture
def folder(tmp_path):
    """A folder with settings, and a folder `own` with a table of pairs."""
    project_params.copy(tmp_path)
    (tmp_path / "own").mkdir()
    rows = [f"{n}.png,{n}x.png,a thing moved,{split}" for n, split in enumerate(SPLITS)]
    (tmp_path / "own/pairs.csv").write_text("\n".join(["before,after,caption,split", *rows]))
    return tmp_path


NAMES = [f"{n}{x}.png" for n in range(3) for x in ("", "x")]


def test_the_entry_and_nothing_else(folder):
    before = (folder / "params.yaml").read_text()
    succeed(folder, "new_dataset mine own --like tabletop")
    after = (folder / "params.yaml").read_text()
    lines = [
        "  mine:",
        "    prepare: {reader: table, root: own, protocol: null}",
        "    like: tabletop",
        "    train: {select: CIDEr-D}",
    ]
    at = after.index("\n".join(lines))
    assert before == after[:at] + after[at:].removeprefix("\n".join(lines) + "\n")
    found = params.load(folder / "params.yaml")
    mine, other = found.dataset["mine"], found.dataset["tabletop"]
    assert (mine.sizes, mine.text, mine.models["idc_pcl"]) == (
        other.sizes,
        other.text,
        other.models["idc_pcl"],
    )
    assert mine.train == other.train.model_copy(update={"select": "CIDEr-D"})
    assert (mine.prepare.reader, other.prepare.reader) == ("table", "clevr_change")
    succeed(folder, "new_dataset mine own --like tabletop")
    assert (folder / "params.yaml").read_text() == after


@pytest.mark.parametrize("is_tracked", [False, True])
def test_the_root_is_absolute_if_git_tracks_no_file_of_the_folder(folder, is_tracked):
    """An experiment in DVC's copy of the repository finds an untracked folder only so."""
    (folder / "own[1]").mkdir()
    (folder / "own").rename(folder / "own[1]/own")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    if is_tracked:
        subprocess.run(["git", "add", "own[1]"], cwd=folder, check=True)
    for _ in range(2):
        succeed(folder, ["new_dataset", "mine", "own[1]/own"])
        root = params.load(folder / "params.yaml").dataset["mine"].prepare.root
        assert root == ("own[1]/own" if is_tracked else f"{folder}/own[1]/own")
        subprocess.run(["git", "add", "."], cwd=folder, check=True)


# the other two have `like` themselves
DATASETS = {*project_params.tree()["dataset"]} - {"tabletop_wide", "tabletop_extreme"}


@pytest.mark.parametrize("like", sorted(DATASETS))
def test_every_model_has_settings_that_need_only_a_table(folder, like):
    succeed(folder, f"new_dataset mine own --like {like}")
    found = params.load(folder / "params.yaml")
    for model in found.model:
        if models.entry_of(model).family in (None, *found.dataset["mine"].models):
            select = resolving.resolve(found, "mine", model).phases["train"]["select"]
            assert select not in ("truth", "CIDEr-D/change")


@pytest.mark.parametrize("command", ["show_settings mine scorer_cbr", "check_data --dataset mine"])
def test_truth_without_scenes_is_refused_before_any_work(folder, command):
    write_images(folder)
    succeed(folder, "new_dataset mine own --like tabletop")
    succeed(folder, command)
    text = (folder / "params.yaml").read_text()
    (folder / "params.yaml").write_text(text.replace("    train: {select: CIDEr-D}\n", ""))
    refuse(folder, command, "set dataset.mine.train.select: CIDEr-D")


def test_refused_entries_change_nothing(folder):
    before = (folder / "params.yaml").read_text()
    for words, named in {
        "tabletop own": "has a dataset 'tabletop' already",
        "levir_cc own": "has a dataset 'levir_cc' already",
        "mine own --like nowhere": "no dataset 'nowhere' to be like; there are",
        "mine own --like tabletop_wide": "params.yaml: dataset.mine.like must name one",
        "mine elsewhere": "elsewhere does not exist",
        **{f"{name} own": f"{name!r} is no name of a dataset" for name in ("mi-ne", "123", "null", "0x1")},
    }.items():
        assert "partial" not in refuse(folder, f"new_dataset {words}", named)
    (folder / "data").mkdir()
    (folder / "data/cards").write_text("in the way")
    refuse(folder, "new_dataset mine own", "cannot write data/cards")
    assert (folder / "params.yaml").read_text() == before


def write_images(folder, shades=range(6)):
    for name, shade in zip(NAMES, shades, strict=True):
        Image.new("RGB", (8, 8), (shade, 0, 0)).save(folder / "own" / name)


def test_check_data_and_prepare_name_wrong_images(folder):
    prepare = (
        "prepare --dataset mine --card data/cards/mine.yaml --pairs pairs.jsonl --images images.jsonl "
        "--manifest manifest.json"
    )
    succeed(folder, "new_dataset mine own --like tabletop")
    said = refuse(folder, "check_data --dataset mine", "6 problem(s)")
    assert "line 4: 2x.png: missing" in said
    write_images(folder, [0, 1, 2, 3, 4, 0])
    refuse(folder, prepare, "2x.png in test is the same image as 0.png in train")
    (folder / "own/2x.png").write_bytes(b"no image")
    succeed(folder, "check_data --dataset mine")
    refuse(folder, prepare, "is no image with pixels")
    assert not [*folder.glob("*.json*")]
    write_images(folder)
    succeed(folder, prepare)
