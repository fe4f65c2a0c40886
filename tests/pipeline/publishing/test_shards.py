"""WebDataset shards keep every value in the real loader, whatever the first pairs lack."""

import io
import json
import tarfile
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from pipeline.datasets.schema import ChangedObject, Look, Pair, Placed, SceneFacts
from pipeline.publishing import rows, shards

pytestmark = pytest.mark.filterwarnings("ignore")
ROW_OF = partial(rows.row_of, seed=None, licence="mit")
SPLITS = ("train", "validation")


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    """Return a function: folder of shards -> rows of each split, in the loader of `datasets`."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
            patch.setenv(name, "1")
        patch.setenv("HF_HOME", str(home))
        datasets = pytest.importorskip("datasets", reason="datasets is not installed")
        datasets.disable_progress_bars()

        def loaded(folder):
            files = {split: str(folder / f"{split}-*.tar") for split in SPLITS}
            found = datasets.load_dataset("webdataset", data_files=files, cache_dir=str(folder / "cache"))
            return {split: list(found[split]) for split in SPLITS}

        yield loaded


def image(folder, name, value):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), (value, value, value)).save(path, quality=100 if name.endswith("jpg") else None)


def written(folder, pairs_of):
    """Write the images and shards of pairs, a dictionary split -> pairs."""
    folder.mkdir(exist_ok=True)
    everything = [pair for pairs in pairs_of.values() for pair in pairs]
    needed, end = shards.required_paths(everything, ROW_OF), shards.ending(everything)
    for split, pairs in pairs_of.items():
        for number, pair in enumerate(pairs):
            for name in (pair.before, pair.after):
                image(folder / "images", name, number)
        shards.write(folder, split, pairs, ROW_OF, folder / "images", needed, end)


def pair_of(number, split="train", ending="png", **values):
    names = (f"{split}/{number}{side}.{ending}" for side in "ab")
    return Pair(f"{split} {number}", "s", split, *names, (f"caption {number}",), **values)


def assert_same(found, pairs_of):
    for split, pairs in pairs_of.items():
        by_id = {row["json"]["pair_id"]: row for row in found[split]}
        assert len(found[split]) == len(pairs) == len(by_id)
        for number, pair in enumerate(pairs):
            row = by_id[pair.pair_id]
            assert rows.pair_of(row["json"], pair.split) == pair
            sides = [value for key, value in row.items() if key.startswith(("before.", "after."))]
            assert len(sides) == 2
            assert all((np.asarray(side) == number).all() for side in sides)


LOOK = Look("small", "red", "metal", "cube")
LATER = {  # name -> values of pair n
    "kind and boxes": lambda n: {"change_type": "move", "before_box": (1, 2, 3, 4)} if n > 6 else {},
    "whole numbers first": lambda n: {"after_box": (1, 2, 3, 4.5 if n == 8 else 4)},
    "one side": lambda n: {"before_box" if n % 2 else "after_box": (0.5, 2, 3, 4)} if n > 5 else {},
    "object": lambda n: {"changed_object": ChangedObject(LOOK if n == 9 else None, LOOK if n == 7 else None)},
    "nothing": lambda n: {},
}


@pytest.mark.parametrize("values", LATER.values(), ids=list(LATER))
def test_columns_that_later_pairs_have(load, tmp_path, values):
    pairs_of = {"train": [pair_of(n, **values(n)) for n in range(10)]}
    pairs_of["validation"] = [pair_of(n, "val", **values(n)) for n in range(9, 5, -1)]
    written(tmp_path / "out", pairs_of)
    assert_same(load(tmp_path / "out"), pairs_of)


@pytest.mark.parametrize("one_has", [False, True])
def test_columns_that_another_split_has(load, tmp_path, one_has):
    known = {
        "change_type": "add",
        "before_box": (1, 2, 3, 4),
        "after_box": (0, 0, 2, 2),
        "viewpoint_iou": 0.5,
    }
    thing = Placed(1, "small", "red", "metal", "cube", 0.5, 1.0)
    camera = (1.0, 2.0, 3.0)
    known |= {
        "scene": SceneFacts((thing,), (), camera, camera, 1),
        "changed_object": ChangedObject(LOOK, None),
    }
    less = {"changed_object": ChangedObject(None, LOOK)} if one_has else {}
    less |= {"scene": SceneFacts((), (thing,), camera, camera, None)} if one_has else {}
    few = {"train": [pair_of(n, **less) for n in range(7)], "validation": [pair_of(0, "val", **known)]}
    many = {"train": [pair_of(n, **known) for n in range(7)], "validation": [pair_of(0, "val", **less)]}
    for number, pairs_of in enumerate((few, many)):
        written(tmp_path / f"{number}", pairs_of)
        assert_same(load(tmp_path / f"{number}"), pairs_of)


def test_images_of_two_formats(load, tmp_path):
    pairs_of = {"train": [pair_of(n, ending="jpg" if n % 3 else "png") for n in range(7)]}
    pairs_of["validation"] = [pair_of(0, "val")]
    written(tmp_path / "out", pairs_of)
    assert_same(load(tmp_path / "out"), pairs_of)


BOX = st.none() | st.tuples(*[st.integers(0, 9) | st.floats(0, 9)] * 2, *[st.integers(1, 9)] * 2)
VALUES = st.fixed_dictionaries(
    {"change_type": st.sampled_from((None, "add", "none")), "before_box": BOX, "after_box": BOX}
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=12), st.lists(VALUES, min_size=1, max_size=3))
def test_any_values_come_back(load, tmp_path_factory, train, val):
    folder = tmp_path_factory.mktemp("any")
    pairs_of = {"train": [pair_of(n, **values) for n, values in enumerate(train)]}
    pairs_of["validation"] = [pair_of(n, "val", **values) for n, values in enumerate(val)]
    written(folder / "out", pairs_of)
    assert_same(load(folder / "out"), pairs_of)


def test_a_second_shard_continues_the_keys(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "PAIRS", 4)
    pairs = [pair_of(n, change_type="add" if n == 8 else None) for n in range(9)]
    written(tmp_path / "out", {"train": pairs})
    found = []
    for path in sorted((tmp_path / "out").glob("*.tar")):
        with tarfile.open(path) as tar:
            names = [member.name for member in tar if member.name.endswith(".json")]
            found += [
                (name, json.load(io.BytesIO(tar.extractfile(name).read()))["pair_id"]) for name in names
            ]
    assert [name for name, _ in found] == [f"{n:08d}.json" for n in range(9)]
    assert [pair_id for _, pair_id in found] == [pairs[n].pair_id for n in (8, *range(8))]
