"""`render` writes CLEVR-Change's layout, with the same bytes after an interruption; facts of its card."""

import json
import multiprocessing
from collections import Counter
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipeline.config.params import Tabletop
from pipeline.datasets import readers
from pipeline.datasets.schema import read_pairs, write_pairs
from pipeline.io.errors import InputError
from pipeline.io.folder_records import RECORD
from pipeline.io.outputs import replacing, write_text
from pipeline.judging.strict import judge
from pipeline.tabletop import dataset, scene_sampling
from pipeline.tabletop.dataset_card import moved
from tests.folders import contents

REPOSITORY = Path(__file__).parents[3]
SMALL = Tabletop(scenes=30, seed=3, min_objects=3, max_objects=6, width=96, height=64, viewpoint="moderate")
NAMES = ("images/CLEVR_default", "sc_images/CLEVR_semantic", "nsc_images/CLEVR_nonsemantic")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """SMALL, rendered by two processes without interruption."""
    folder = tmp_path_factory.mktemp("whole")
    with chdir(folder):
        dataset.render(SMALL, Path("data/raw/tabletop"), processes=2)
    assert [path.name for path in (folder / "data/raw").iterdir()] == ["tabletop"]
    return folder / "data/raw/tabletop"


def table(root, name):
    return json.loads((root / f"{name}.json").read_text())


def test_the_layout_is_clevr_changes(whole):
    tables = ("change_captions", "no_change_captions", "splits", "type_mapping", "scenes")
    pictures = {f"{name}_{number:06d}.png" for name in NAMES for number in range(30)}
    assert set(contents(whole)) == pictures | {f"{name}.json" for name in tables} | {RECORD}
    for name in pictures:
        with Image.open(whole / name) as image:
            assert (image.format, image.mode, image.size) == ("PNG", "RGB", (96, 64))
    for name in tables[:2]:
        captions = table(whole, name)
        assert set(captions) == {f"CLEVR_default_{number:06d}.png" for number in range(30)}
        assert {len(set(sentences)) for sentences in captions.values()} == {6}


def test_the_reader_of_clevr_change_reads_the_scenes_that_were_drawn(whole, tmp_path):
    write_pairs(tmp_path / "pairs.jsonl", readers.read("clevr_change", whole))
    pairs = {pair.pair_id: pair for pair in read_pairs(tmp_path / "pairs.jsonl")}
    assert len(pairs) == 60
    kinds = Counter(pair.change_type for pair in pairs.values() if pair.changed)
    assert kinds == dict.fromkeys(("color", "texture", "add", "drop", "move"), 6)
    for pair in pairs.values():
        assert 0 < pair.viewpoint_iou < 1
        assert all(judge(caption, pair).true for caption in pair.captions)
        assert not pair.changed or (pair.before_box is None) == (pair.change_type == "add")
        assert not pair.changed or (pair.after_box is None) == (pair.change_type == "drop")
    for number in range(30):
        drawn = scene_sampling.sample(SMALL, number, scene_sampling.generator(SMALL.seed, number))
        assert pairs[f"{number:06d}.png"].scene == drawn.facts(changed=True)
        assert pairs[f"{number:06d}.png_n"].scene == drawn.facts(changed=False)


@pytest.mark.parametrize("scenes", [10, 17, 100, 403])
def test_splits_of_any_size(scenes):
    types = {kind: list(range(at, scenes, 5)) for at, kind in enumerate("abcde")}
    splits = dataset.split(types, seed=1)
    assert sorted(number for numbers in splits.values() for number in numbers) == list(range(scenes))
    assert len(splits["train"]) == round(0.8 * scenes)
    assert abs(len(splits["val"]) - len(splits["test"])) <= 1
    for numbers in splits.values():
        counts = Counter(number % 5 for number in numbers)
        assert max(counts.values()) - min(counts[kind] for kind in range(5)) <= 1
    assert any(dataset.split(types, seed) != splits for seed in range(2, 6))


def test_viewpoint_iou_is_the_mean_over_unchanged_objects(whole):
    for scene in table(whole, "scenes")["scenes"]:
        here = masks_of(scene, "before", "default")
        for key, shown, view in (
            ("semantic_iou", "after", "semantic"),
            ("distractor_iou", "before", "nonsemantic"),
        ):
            there = masks_of(scene, shown, view)
            unchanged = (here.keys() & there.keys()) - {scene["changed"]}
            ious = [(here[n] & there[n]).sum() / (here[n] | there[n]).sum() for n in unchanged]
            assert scene[key] == pytest.approx(np.mean(ious), abs=1e-6)


def masks_of(scene, shown, view):
    """Return an object's number -> mask of its box, for the objects of a view."""
    masks = {}
    for item, (x, y, width, height) in zip(scene[shown], scene["views"][view]["boxes"], strict=True):
        masks[item["number"]] = np.zeros((64, 96), dtype=bool)
        masks[item["number"]][y : y + height, x : x + width] = True
    return masks


def test_one_process_makes_the_same_bytes(whole, tmp_path, monkeypatch):
    """It replaces an older dataset, but no folder with another file in it."""
    monkeypatch.chdir(tmp_path)
    with replacing(tmp_path / "out", dataset.CONTENTS) as scratch:
        write_text(scratch / "images/CLEVR_default_000099.png", "")
    (tmp_path / "out/old").touch()
    with pytest.raises(InputError, match=r"^out holds 'old'"):
        dataset.render(SMALL, Path("out"), processes=1)
    (tmp_path / "out/old").unlink()
    dataset.render(SMALL, Path("out"), processes=1)
    assert contents(tmp_path / "out") == contents(whole)


def test_a_killed_rendering_resumes_to_the_same_bytes(whole, tmp_path, monkeypatch):
    """Its worker is killed after some scenes. The next run does not render these scenes again."""
    monkeypatch.chdir(tmp_path)
    track = dataset.track

    def killing(finished, *arguments, **options):
        for count, each in enumerate(track(finished, *arguments, **options)):
            if count == 5:
                for child in multiprocessing.active_children():
                    child.kill()
            yield each

    monkeypatch.setattr(dataset, "track", killing)
    with pytest.raises(InputError, match=r"a rendering process was killed .* it goes on where it stopped"):
        dataset.render(SMALL, Path("out"), processes=1)
    assert not Path("out").exists()
    monkeypatch.setattr(dataset, "track", track)
    done = [path.stem for path in tmp_path.glob(".out.*.scratch/scenes/*.json")]
    assert 5 <= len(done) < 30
    name = f"images/CLEVR_default_{min(done)}.png"
    moment = next(tmp_path.glob(f".out.*.scratch/dataset/{name}")).stat().st_mtime_ns
    dataset.render(SMALL, Path("out"), processes=2)
    assert contents(tmp_path / "out") == contents(whole)
    assert Path("out", name).stat().st_mtime_ns == moment


def test_scratch_of_other_settings_or_other_code_is_not_reused(monkeypatch):
    keys = {dataset.key(SMALL), dataset.key(SMALL.model_copy(update={"seed": 4}))}
    monkeypatch.setattr(dataset, "version", lambda library: "0")
    assert len(keys | {dataset.key(SMALL)}) == 3


def too_crowded(*_):
    raise InputError("tabletop: no scene of 10 objects")


def test_an_error_of_a_worker_reaches_the_user(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dataset, "_render_scene", too_crowded)
    with pytest.raises(InputError, match="no scene of 10 objects"):
        dataset.render(SMALL, Path("out"), processes=2)
    assert not Path("out").exists()


def boxes_of(default, nonsemantic):
    return {"views": {"default": {"boxes": default}, "nonsemantic": {"boxes": nonsemantic}}}


def test_places_are_counted_in_cells_of_the_squashed_image():
    # 280 x 140 pixels: a cell is 20 wide and 10 high; the box's middle goes 3 cells right and 4 down
    found = moved([boxes_of([(0, 0, 20, 10)], [(50, 35, 40, 20)])], 280, 140)
    assert found == pytest.approx((5.0, 5.0))


def test_the_median_and_nine_tenths_of_all_objects_of_all_scenes():
    still, right = (0, 0, 10, 10), (20, 0, 10, 10)
    median, most = moved([boxes_of([still] * 3, [still, still, right]), boxes_of([right], [right])], 140, 140)
    assert median == 0.0
    assert most == pytest.approx(0.7 * 2)  # numpy's linear quantile of 0, 0, 0, 2
