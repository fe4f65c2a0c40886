"""`dvc repro` notices every edit of the user's own files, and its run cache brings no old result back."""

import json
import os
import shutil
from contextlib import chdir

import numpy as np
import pytest
import yaml
from dvc.cli import main as dvc
from PIL import Image

from pipeline.io.inputs import read_yaml
from tests import project_params
from tests.running import ROOT, succeed

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # DVC's own
ROWS = [(f"{n}.png", f"{n}x.png", split) for n, split in enumerate(("train", "val", "test"))]
PAIRS, IMAGES = "data/pairs/d.jsonl", "data/images/d.jsonl"


def enter(folder):
    """Write params.yaml with the dataset d."""
    tree = project_params.tree(datasets=["d"], models=["rr"])
    own = {"prepare": {"reader": "table", "root": "raw", "protocol": None}}
    tree["dataset"]["d"] = tree["dataset"]["clevr_change"] | own
    project_params.save(folder, tree)


def write_table(folder, word, name="pairs.csv"):
    keys = ("before", "after", "split", "caption")
    rows = [dict(zip(keys, (*row, f"the {word} moved"), strict=True)) for row in ROWS]
    lines = [",".join(keys), *(",".join(row.values()) for row in rows)]
    if name == "pairs.jsonl":
        lines = [json.dumps(row) for row in rows]
    (folder / "raw" / name).write_text("\n".join(lines) + "\n")


def write_image(folder, name, shade):
    Image.new("RGB", (8, 8), (shade, shade, 0)).save(folder / "raw" / name)


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A project with a dataset d of the user's own, whose stages run in this process."""
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    own = {name: stages[name] for name in ("settings", "prepare")}
    (tmp_path / "dvc.yaml").write_text(json.dumps({"stages": own}))
    shutil.copyfile(ROOT / ".dvcignore", tmp_path / ".dvcignore")
    for name in (".dvc", "models", "pipeline", "stages", "raw", "data/cards", "data/code"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / ".dvc/config").write_text("[core]\nno_scm = true\nanalytics = false\n")
    (tmp_path / "datasets.yaml").write_text("{}\n")
    (tmp_path / "data/cards/d.yaml").write_text(
        "{name: d, citation: own, source: raw, files: {pairs.csv: rows}}"
    )
    enter(tmp_path)
    for shade, name in enumerate(name for *pair, _ in ROWS for name in pair):
        write_image(tmp_path, name, 20 * shade)
    write_table(tmp_path, "car")

    def code(folder):
        folder.mkdir(parents=True, exist_ok=True)  # reading all sources takes seconds
        for each in ROOT.glob("stages/*.py"):
            (folder / f"{each.stem}.json").write_text("{}")

    def stage(executable, command, cwd, **_):
        succeed(cwd, command.removeprefix("python -m stages."))

    monkeypatch.setattr("dvc.stage.run._run", stage)
    monkeypatch.setattr("stages.settings.write_code", code)
    monkeypatch.setattr("stages.settings.check", lambda settings: None)  # building the models takes seconds
    return tmp_path


def captions(lab, *targets):
    """Run DVC up to the pairs, and return the word of their captions."""
    with chdir(lab):
        assert dvc(["repro", "--quiet", *(targets or ("prepare@d",))]) == 0
    return (lab / PAIRS).read_text().partition("the ")[2].split()[0]


@pytest.mark.slow
def test_an_edited_table_is_read_again_and_no_old_pairs_come_back(lab):
    assert captions(lab) == "car"
    write_table(lab, "bus")
    assert captions(lab) == "bus"
    for name in (PAIRS, IMAGES, "data/pairs/d.manifest.json"):
        (lab / name).unlink()
    assert captions(lab) == "bus"
    project_params.save(lab, project_params.tree())
    with chdir(lab):
        assert dvc(["repro", "--quiet", "settings"]) == 0
    write_table(lab, "tree")
    enter(lab)
    assert captions(lab) == "tree"
    write_table(lab, "car")
    assert captions(lab) == "car"
    (lab / "raw/pairs.csv").unlink()
    write_table(lab, "ball", "pairs.jsonl")
    assert captions(lab) == "ball"


@pytest.mark.slow
def test_a_changed_image_is_indexed_again_by_the_command_that_messages_name(lab):
    captions(lab)
    before = (lab / IMAGES).read_text()
    write_image(lab, "1x.png", 250)
    captions(lab)
    assert (lab / IMAGES).read_text() != before
    # an image with the old size and time is not noticed, and the second command of the message helps
    write_image(lab, "1x.png", 130)
    status = (lab / "raw/1x.png").stat()
    captions(lab)
    before = (lab / IMAGES).read_text()
    write_image(lab, "1x.png", 140)
    assert (lab / "raw/1x.png").stat().st_size == status.st_size
    os.utime(lab / "raw/1x.png", ns=(status.st_atime_ns, status.st_mtime_ns))
    captions(lab)
    assert (lab / IMAGES).read_text() == before
    captions(lab, "--force", "--single-item", "prepare@d")
    assert (lab / IMAGES).read_text() != before


def test_the_stage_watches_only_files_of_the_user(lab):
    watch = "settings --code code --settings settings"

    def written():
        succeed(lab, watch)
        shutil.rmtree(lab / "code")  # the fixture writes it without a record of this command
        return {
            str(path.relative_to(lab / "settings")): path.read_text()
            for path in (lab / "settings").rglob("*.*")
        }

    (lab / "npy").mkdir()
    np.save(lab / "npy/0.png.npy", np.zeros(3))
    tree = project_params.tree(pretraining__datasets=["cub"], pretraining__root={"cub": "raw"})
    tree["dataset"]["clevr_change"]["features"]["npy"] = "npy"
    project_params.save(lab, tree | {"datasets": ["tabletop", "clevr_change"]})
    before = written()
    assert "images" not in read_yaml(lab / "settings/tabletop/prepare.yaml", "")
    assert {"pretraining-cub/prepare.json", "pretraining-cub/features.json"} <= before.keys()
    np.save(lab / "npy/0.png.npy", np.ones(4))
    after = written()
    assert {name for name in after if after[name] != before[name]} == {
        "clevr_change/features.yaml",
        ".made.json",
    }
    found = read_yaml(lab / "settings/clevr_change/prepare.yaml", "")
    assert (found["annotations"], found["images"]) == ({}, None)
    write_image(lab, "0.png", 99)
    last = written()
    assert {name for name in after if after[name] != last[name]} == {
        "pretraining-cub/prepare.json",
        ".made.json",
    }
