"""The CLEVR-Change reader: both pairs of every scene, and what scenes.json adds."""

import json
from pathlib import Path

import pytest

from pipeline.datasets import readers
from pipeline.datasets.schema import Look, Placed, SceneFacts, images_of, of_split, read_pairs, write_pairs
from pipeline.io.errors import InputError

SHARED = Path(__file__).parents[4] / "shared" / "data" / "clevr-change"


def read(root):
    return readers.read("clevr_change", root)


def test_every_scene_gives_two_pairs(clevr_change):
    pairs = read(clevr_change)
    assert len(pairs) == 40
    first, second = pairs[:2]
    assert (first.pair_id, second.pair_id) == ("000000.png", "000000.png_n")
    assert first.before == second.before == "images/CLEVR_default_000000.png"
    assert first.after == "sc_images/CLEVR_semantic_000000.png"
    assert second.after == "nsc_images/CLEVR_nonsemantic_000000.png"
    assert (first.change_type, second.change_type) == ("color", "none")
    assert (first.changed, second.changed) == (True, False)
    assert read(clevr_change)[2].change_type == "texture"  # the papers' name of "material"
    assert [len(of_split(pairs, split)) for split in ("train", "val", "test")] == [32, 4, 4]
    assert len(images_of(pairs)) == 60


@pytest.mark.skipif(not SHARED.exists(), reason="CLEVR-Change's own annotation files are not here")
def test_the_real_splits_and_types(tmp_path):
    """The published counts, with made-up captions, because the real ones are not here."""
    for name in ("splits.json", "type_mapping.json"):
        (tmp_path / name).write_bytes((SHARED / name).read_bytes())
    numbers = [n for split in json.loads((tmp_path / "splits.json").read_text()).values() for n in split]
    captions = {f"CLEVR_default_{n:06d}.png": ["a sentence"] for n in numbers}
    for name in ("change_captions.json", "no_change_captions.json"):
        (tmp_path / name).write_text(json.dumps(captions))
    pairs = read(tmp_path)
    assert len(pairs) == 79_606
    scenes = [len(of_split(pairs, split)) // 2 for split in ("train", "val", "test")]
    assert scenes == [33_830, 1_988, 3_985]
    kinds = [pair.change_type for pair in pairs]
    counts = [kinds.count(kind) for kind in ("color", "texture", "add", "drop", "move", "none")]
    assert counts == [7_958, 7_963, 7_966, 7_961, 7_955, 39_803]


THING = {"number": 3, "size": "large", "color": "red", "material": "metal", "shape": "cube", "rotation": 1.0}
OTHER = THING | {"number": 1}
PLACED = THING | {"position": [1.0, -2, 0.5]}
VIEWS = {name: {"camera": [7.0, -6.0, 5.0]} for name in ("default", "semantic", "nonsemantic")}
MOVED = {"number": 0, "changed": 3, "before": [PLACED], "after": [PLACED], "views": VIEWS}


def read_with(root, *scenes):
    (root / "scenes.json").write_text(json.dumps({"scenes": scenes}))
    return read(root)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([THING], [THING | {"color": "blue"}], ("red", "blue")),
        ([OTHER, THING], [OTHER], ("red", None)),
        ([OTHER], [THING], (None, "red")),
    ],
)
def test_scenes_json_gives_the_changed_object(clevr_change, tmp_path, before, after, expected):
    scene = {"number": 0, "changed": 3, "before": before, "after": after}
    pairs = read_with(clevr_change, scene, {"number": 1, "before_box": None})
    changed = pairs[0].changed_object
    assert [look and look.color for look in (changed.before, changed.after)] == list(expected)
    assert (changed.before or changed.after) == Look("large", "red", "metal", "cube")
    assert [pair.changed_object for pair in pairs[1:4]] == [None] * 3
    write_pairs(tmp_path / "pairs.jsonl", pairs)
    assert read_pairs(tmp_path / "pairs.jsonl") == pairs


def test_a_complete_record_gives_the_scene(clevr_change, tmp_path):
    """Scene 1 is incomplete: its objects have no positions."""
    pairs = read_with(clevr_change, MOVED, MOVED | {"number": 1, "before": [THING]})
    item = Placed(3, "large", "red", "metal", "cube", 1.0, -2.0)
    camera = (7.0, -6.0, 5.0)
    assert pairs[0].scene == SceneFacts((item,), (item,), camera, camera, 3)
    assert pairs[1].scene == SceneFacts((item,), (item,), camera, camera, None)
    assert [pair.scene for pair in pairs[2:]] == [None] * 38
    write_pairs(tmp_path / "pairs.jsonl", pairs)
    assert read_pairs(tmp_path / "pairs.jsonl") == pairs


def test_each_pair_has_the_cameras_of_its_two_images(clevr_change):
    names = ("default", "semantic", "nonsemantic")
    views = {name: {"camera": [7.0, -6.0, float(place)]} for place, name in enumerate(names)}
    changed, unchanged = (pair.scene for pair in read_with(clevr_change, MOVED | {"views": views})[:2])
    assert changed.before_camera == unchanged.before_camera == (7.0, -6.0, 0.0)
    assert (changed.after_camera, unchanged.after_camera) == ((7.0, -6.0, 1.0), (7.0, -6.0, 2.0))


def test_boxes_and_overlaps_are_kept_as_they_are_written(clevr_change):
    scene = {"number": 0, "before_box": [1, 2.5, 3, 4], "semantic_iou": 0.5, "distractor_iou": 1}
    first, second = read_with(clevr_change, scene)[:2]
    assert repr(first.before_box) == "(1, 2.5, 3, 4)"
    assert (first.after_box, first.viewpoint_iou, second.viewpoint_iou) == (None, 0.5, 1)


@pytest.mark.parametrize(
    ("scenes", "named"),
    [
        ([{"number": 0, "changed": 3, "before": [{}]}], "before.0.number is missing"),
        ([{"number": 0, "before_box": [1, 2, 3]}], "before_box"),
        ([{"number": 0, "semantic_iou": 1.5}], "semantic_iou: .* not 1.5"),
        ([{"number": 0}, {"number": 0}], "describes a scene twice"),
        ([MOVED | {"after": []}], "scene 0: object 3, of the change 'color', is in"),
        ([MOVED | {"changed": 7}], "scene 0: object 7, of the change 'color', is in"),
    ],
)
def test_wrong_scenes_are_refused(clevr_change, scenes, named):
    with pytest.raises(InputError, match=rf"scenes\.json(?s:.)*{named}"):
        read_with(clevr_change, *scenes)


@pytest.mark.parametrize("scene", [{"before": [{}]}, 3])
def test_a_pair_with_a_wrong_scene_is_refused(clevr_change, tmp_path, scene):
    write_pairs(tmp_path / "pairs.jsonl", read(clevr_change))
    first, *others = (tmp_path / "pairs.jsonl").read_text().splitlines()
    lines = [json.dumps(json.loads(first) | {"scene": scene}), *others]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match=r"pairs\.jsonl, line 1: .*scene.*; run `dvc repro prepare`"):
        read_pairs(tmp_path / "pairs.jsonl")
