"""Published datasets are loaded by other tools, offline, and any pair is kept. A test needs its library."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from change_captioning_lab.judge import judge, pair_of
from pipeline.compute import worker_processes
from pipeline.datasets.schema import CHANGE_TYPES, ChangedObject, Look, Pair, Placed, SceneFacts, read_pairs
from pipeline.io.errors import InputError
from pipeline.publishing import rows as published_rows
from pipeline.publishing.dataset import FOLDERS
from tests import project_params
from tests.running import refuse, succeed
from tests.stage_commands import PAIRS, PREPARE

pytestmark = pytest.mark.filterwarnings("ignore")
pq = pytest.importorskip("pyarrow.parquet", reason="the extra `publish` is not installed")
SMALL = {"tabletop__scenes": 10, "tabletop__width": 48, "tabletop__height": 32}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBER = st.floats(-1e6, 1e6)
POINT = st.tuples(NUMBER, NUMBER, NUMBER)
LOOK = st.builds(Look, TEXT, TEXT, TEXT, TEXT)
OBJECTS = st.lists(st.builds(Placed, st.integers(0, 9), TEXT, TEXT, TEXT, TEXT, NUMBER, NUMBER), max_size=3)
CHANGED = st.none() | st.integers(0, 9)
SCENES = st.builds(SceneFacts, OBJECTS.map(tuple), OBJECTS.map(tuple), POINT, POINT, CHANGED)
BOX = st.none() | st.tuples(NUMBER, NUMBER, st.floats(1, 1e6), st.floats(1, 1e6))
ANY_PAIRS = st.builds(
    Pair,
    pair_id=TEXT,
    scene_id=TEXT,
    split=st.just("test"),
    before=TEXT,
    after=TEXT,
    captions=st.lists(TEXT, min_size=1, max_size=3).map(tuple),
    change_type=st.none() | st.sampled_from(CHANGE_TYPES),
    before_box=BOX,
    after_box=BOX,
    viewpoint_iou=st.none() | st.floats(0, 1),
    changed_object=st.none() | st.builds(ChangedObject, st.none() | LOOK, st.none() | LOOK),
    scene=st.none() | SCENES,
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A rendered dataset, prepared and published."""
    folder = tmp_path_factory.mktemp("lab")
    project_params.write(folder, **SMALL)
    with patch.object(worker_processes, "pool", lambda _: ThreadPoolExecutor(1)):  # faster than processes
        succeed(folder, "render --dataset tabletop --out data/raw/tabletop --card data/cards/tabletop.yaml")
    succeed(folder, PREPARE)
    succeed(folder, "publish tabletop --out out")
    return folder


def pixels(file):
    with Image.open(file) as image:
        return np.asarray(image.convert("RGB"))


def test_load_dataset_reads_the_shards(lab, tmp_path, monkeypatch):
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    datasets.disable_progress_bars()
    files = {split: str(lab / f"out/webdataset/{split}-*.tar") for split in FOLDERS.values()}
    found = datasets.load_dataset("webdataset", data_files=files, cache_dir=str(tmp_path / "cache"))
    for split, folder in FOLDERS.items():
        read = {row["json"]["pair_id"]: pair_of(row["json"], split) for row in found[folder]}
        for pair in (pair for pair in read_pairs(lab / PAIRS) if pair.split == split):
            files = {"before": pair.before, "after": pair.after}
            assert replace(read.pop(pair.pair_id), **files) == pair
        assert not read


@pytest.mark.parametrize("builder", ["imagefolder", None])
def test_load_dataset_gives_pixels_references_and_scenes(lab, tmp_path, monkeypatch, builder):
    """With the builder's name, and with the front matter of the card."""
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    datasets.disable_progress_bars()
    place = {"path": builder, "data_dir": str(lab / "out")} if builder else {"path": str(lab / "out")}
    found = datasets.load_dataset(**place, cache_dir=str(tmp_path / "cache"))
    pairs = read_pairs(lab / PAIRS)
    assert {name: split.num_rows for name, split in found.items()} == {
        folder: sum(pair.split == split for pair in pairs) for split, folder in FOLDERS.items()
    }
    rows = {row["pair_id"]: row for split in found.values() for row in split}
    for pair in pairs:
        row = rows[pair.pair_id]
        for side in ("before", "after"):
            original = pixels(lab / "data/raw/tabletop" / getattr(pair, side))
            assert np.array_equal(np.asarray(row[side].convert("RGB")), original)
        known = json.loads(json.dumps(asdict(pair)))
        for key in ("captions", "change_type", "scene_id", "scene", "changed_object", "before_box"):
            assert row[key] == known[key]
        assert (row["seed"], row["licence"]) == (1, "mit")
        assert judge(pair.captions[0], pair_of(row)).true


def test_rows_are_pairs_again_and_are_judged(lab):
    rows = pq.read_table(lab / "out/test/metadata.parquet").to_pylist()
    pairs = [pair for pair in read_pairs(lab / PAIRS) if pair.split == "test"]
    assert [pair_of(row, "test") for row in rows] == pairs
    assert [pair_of(json.loads(json.dumps(row)), "test") for row in rows] == pairs
    assert all(judge(pair.captions[0], pair_of(row)).true for pair, row in zip(pairs, rows, strict=True))
    with pytest.raises(InputError, match="captions"):
        pair_of({key: value for key, value in rows[0].items() if key != "captions"})


def test_croissant_metadata_are_valid_and_read_the_records(lab, caplog):
    mlcroissant = pytest.importorskip("mlcroissant", reason="mlcroissant is not installed")
    dataset = mlcroissant.Dataset(str(lab / "out/croissant.json"))
    assert not dataset.metadata.ctx.issues.errors
    assert "not standard" not in caplog.text
    pairs = [pair for pair in read_pairs(lab / PAIRS) if pair.split == "val"]
    for pair, record in zip(pairs, dataset.records("validation"), strict=True):
        assert record["validation/pair_id"].decode() == pair.pair_id
        assert [text.decode() for text in record["validation/captions"]] == list(pair.captions)


def test_webdataset_reads_the_shards(lab):
    webdataset = pytest.importorskip("webdataset", reason="webdataset is not installed")
    found = webdataset.WebDataset(str(lab / "out/webdataset/train-000000.tar"), shardshuffle=False)
    pairs = [pair for pair in read_pairs(lab / PAIRS) if pair.split == "train"]
    samples = {sample["json"]["pair_id"]: sample for sample in found.decode("rgb8")}
    assert sorted(samples) == sorted(pair.pair_id for pair in pairs)
    for pair in pairs:
        sample = samples[pair.pair_id]
        assert sample["json"]["captions"] == list(pair.captions)
        assert np.array_equal(sample["before.png"], pixels(lab / "data/raw/tabletop" / pair.before))


def test_the_front_matter_is_a_dataset_card(lab):
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    card = hub.DatasetCard.load(lab / "out/README.md")
    assert (card.data.license, card.data.size_categories) == ("mit", ["n<1K"])
    assert [split["split"] for split in card.data.configs[0]["data_files"]] == [*FOLDERS.values()]


def test_settings_that_changed_after_rendering_are_refused(lab, tmp_path):
    (tmp_path / "data").symlink_to(lab / "data")
    project_params.write(tmp_path, **SMALL, tabletop__seed=2)
    refuse(tmp_path, "publish tabletop --out out", "tabletop")
    assert not (tmp_path / "out").exists()


@given(pairs=st.lists(ANY_PAIRS, min_size=1, max_size=4))
def test_pairs_are_the_same_after_parquet_and_json(tmp_path_factory, pairs):
    path = tmp_path_factory.mktemp("rows") / published_rows.NAME
    written = [published_rows.row_of(pair, 1, "mit") for pair in pairs]
    published_rows.write(path, iter(written))
    assert [pair_of(row, "test") for row in pq.read_table(path).to_pylist()] == pairs
    assert [pair_of(row, "test") for row in json.loads(json.dumps(written))] == pairs
