"""Scenes labelled by hand: captions are judged by them, and a wrong label is named by its line and key."""

import json

import pytest

from pipeline.datasets import labelled_scenes
from pipeline.datasets.clevr_change import DEFAULT, DISTRACTOR, SEMANTIC
from pipeline.io.errors import InputError
from pipeline.judging.strict import judge


def item(size, color, material, shape, x, y):
    return {"size": size, "color": color, "material": material, "shape": shape, "x": x, "y": y}


OBJECTS = [
    item("large", "red", "rubber", "cube", 100, 100),
    item("small", "blue", "metal", "sphere", 300, 200),
    item("small", "blue", "metal", "sphere", 200, 50.5),
]
NEW = item("small", "gray", "rubber", "cylinder", 50, 60)


def labelled(folder, *lines, without=()):
    for number in range(len(lines)):
        for name in (DEFAULT, SEMANTIC, DISTRACTOR):
            if name not in without:
                (folder / name.format(number)).parent.mkdir(exist_ok=True)
                (folder / name.format(number)).write_bytes(b"")
    text = "".join(json.dumps({"scene": n, "objects": OBJECTS} | line) + "\n" for n, line in enumerate(lines))
    (folder / "labels.jsonl").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("change", "kind", "true", "false"),
    [
        (
            {"changed": 0, "new_color": "green"},
            "color",
            "the block that is left of the small blue ball turned green",
            "the large red block turned gray",
        ),
        (
            {"changed": 1, "new_material": "rubber"},
            "texture",
            "the sphere that is in front of the cube became matte",
            "the sphere that is behind the cube became matte",
        ),
        (
            {"changed": 2, "moved_to": [400, 300]},
            "move",
            "the ball that is behind the cube has been moved",
            "the ball that is in front of the cube has been moved",
        ),
        ({"changed": 0, "gone": True}, "drop", "the cube is gone", "the cube has appeared"),
        (
            {"added": NEW},
            "add",
            "the gray thing that is left of the cube has been added",
            "the cylinder that is right of the cube has appeared",
        ),
    ],
)
def test_captions_of_each_kind_of_change_are_judged(tmp_path, change, kind, true, false):
    changed, unchanged = labelled_scenes.read(labelled(tmp_path, change))
    assert (changed.change_type, unchanged.change_type) == (kind, "none")
    assert (changed.before, changed.after) == (DEFAULT.format(0), SEMANTIC.format(0))
    assert unchanged.after == DISTRACTOR.format(0)
    assert [judge(caption, changed).true for caption in (true, false)] == [True, False]
    assert [judge(caption, unchanged).true for caption in ("there is no change", true)] == [True, False]
    after = {each.number: each for each in changed.scene.after}
    if kind == "move":
        assert (after[2].x, after[2].y) == (400, -300)
    assert len(after) == len(OBJECTS) + {"add": 1, "drop": -1}.get(kind, 0)


def test_a_scene_gives_the_pairs_whose_images_exist(tmp_path):
    pairs = labelled_scenes.read(labelled(tmp_path, {}, {"added": NEW}))
    assert [pair.pair_id for pair in pairs] == ["000000.png_n", "000001.png", "000001.png_n"]
    (tmp_path / DISTRACTOR.format(1)).unlink()
    assert len(labelled_scenes.read(tmp_path)) == 2


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ({"changed": 0}, "changed"),
        ({"changed": 3, "gone": True}, "changed is 3"),
        ({"changed": 0, "gone": True, "new_color": "red"}, "one change"),
        ({"new_color": "red"}, "changed"),
        ({"changed": 0, "new_color": "pink"}, "new_color"),
        ({"changed": 0, "moved_to": [1]}, "moved_to"),
        ({"objects": []}, "objects"),
        ({"objects": [OBJECTS[0] | {"x": -1}]}, "objects.0.x"),
        ({"weather": "fine"}, "weather"),
    ],
)
def test_a_wrong_label_is_named_by_line_and_key(tmp_path, line, named):
    folder = labelled(tmp_path, {}, line)
    with pytest.raises(InputError) as refused:
        labelled_scenes.read(folder)
    assert "labels.jsonl, line 2" in str(refused.value)
    assert named in str(refused.value)


def test_a_missing_image_and_a_repeated_scene_are_named(tmp_path):
    folder = labelled(tmp_path, {"added": NEW}, without=(SEMANTIC,))
    with pytest.raises(InputError, match="CLEVR_semantic_000000"):
        labelled_scenes.read(folder)
    labelled(tmp_path, {}, {"scene": 0})
    with pytest.raises(InputError, match=r"labels\.jsonl, line 2"):
        labelled_scenes.read(tmp_path)
