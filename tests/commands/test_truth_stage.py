"""commands.truth judges weights on new scenes, and on labelled images."""

import itertools
import json
import os

import pytest
from PIL import Image

from pipeline.tabletop.dataset import IMAGES
from tests.running import refuse, set_params, succeed
from tests.small_lab import add_weights, make_lab


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    folder = make_lab(tmp_path_factory.mktemp("truth"))
    place = add_weights(folder, "scorer_cbr")
    set_params(folder, tabletop__width=96, tabletop__height=64)
    return folder, place


def test_it_prints_captions_and_the_share_of_true_ones_by_kind(lab, capsys):
    folder, place = lab
    succeed(folder, f"truth --weights {place} --scenes 1 --show 3")
    lines = capsys.readouterr().out.strip().split("\n")
    assert [line.split(":")[0] for line in lines[:3]] == ["color", "texture", "add"]
    assert all(line.count(" | ") == 2 for line in lines[:3])
    names = [line[:24].strip() for line in lines[3:]]
    assert names == ["pairs", "all changes", "color", "texture", "add", "drop", "move", "no change"]
    assert [int(line[24:30]) for line in lines[4:]] == [5, 1, 1, 1, 1, 1, 1]


def test_drawn_scenes_are_kept_and_read_again(lab, tmp_path, capsys):
    folder, place = lab
    kept = tmp_path / "kept"
    command = f"truth --weights {place} --scenes 1 --drawn {kept}"
    succeed(folder, command)
    first = capsys.readouterr().out
    images = sorted(kept.rglob("*.png"))
    assert len(images) == 12  # five kinds of change and no change, before and after
    succeed(folder, f"truth --weights {place} --scenes 1")
    assert capsys.readouterr().out == first
    for image in images:
        Image.new("RGB", (96, 64), (255, 0, 0)).save(image)
    succeed(folder, command)
    assert capsys.readouterr().out != first  # the images in the folder were captioned
    succeed(folder, f"{command} --seed 5")
    assert len(sorted(kept.rglob("*.png"))) == 24  # other scenes have other names


def test_the_scenes_of_the_training_are_refused(lab):
    folder, place = lab
    refuse(folder, f"truth --weights {place} --seed 1", "--seed 1 is the seed of the training scenes")


def test_the_laboratory_of_the_weights_may_be_elsewhere(lab, tmp_path, capsys):
    folder, place = lab
    up = os.path.relpath(folder, tmp_path)
    assert up.startswith("../")
    below = place.relative_to(folder)
    succeed(tmp_path, f"truth --weights {up}/{below} --lab {up} --scenes 1 --show 0")
    assert capsys.readouterr().out.startswith("pairs ")
    said = f"{tmp_path}/data/vocab/tabletop.json is missing; name the laboratory that made the weights"
    refuse(folder, f"truth --weights {place} --lab {tmp_path}", said)


def test_labelled_images_are_judged_by_kind_with_interval_and_faults(lab, tmp_path, capsys):
    folder, place = lab
    item = {"size": "large", "color": "red", "material": "rubber", "shape": "cube", "x": 40, "y": 30}
    lines = [
        {"scene": 0, "objects": [item], "changed": 0, "new_color": "blue"},
        {"scene": 1, "objects": [item], "changed": 0, "gone": True},
    ]
    (tmp_path / "labels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for number, name in itertools.product(range(2), IMAGES):
        path = tmp_path / name.format(number)
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", (96, 64), (90, 90, 20 * number)).save(path)
    succeed(folder, f"truth --weights {place} --labelled {tmp_path} --show 1")
    first, heading, *rows = capsys.readouterr().out.strip().split("\n")
    assert first.startswith("color: ")
    assert first.endswith("000000.png")
    assert heading.split()[:3] == ["pairs", "number", "true"]
    assert [row[:24].strip() for row in rows] == ["all changes", "color", "no change", "drop"]
    assert [int(row[24:30]) for row in rows] == [2, 1, 2, 1]
    (tmp_path / IMAGES[1].format(1)).unlink()
    refuse(folder, f"truth --weights {place} --labelled {tmp_path}", "sc_images/CLEVR_semantic_000001.png")
