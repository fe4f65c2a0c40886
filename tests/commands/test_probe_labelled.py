"""The probe on labelled images, and fine-tuning, of a dataset that the test renders."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from pipeline.datasets.images import read_named
from pipeline.features.store import FeatureStore
from pipeline.probe import grid_labels, labelled_cells
from pipeline.probe.labelled_cells import ImageGrids
from pipeline.probe.linear_probe import Cells, gather, separability
from tests.running import refuse, set_params, succeed
from tests.small_lab import STAGES, STORES
from tests.stage_commands import CARD, EXTRACT, IMAGES, PAIRS

SCENES = "data/raw/tabletop/scenes.json"
PROBE = f"probe --features {STORES}/grid.zarr --pairs {PAIRS} --images {IMAGES} --scenes {SCENES}"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A lab whose rendered images lie in CLEVR-Change's layout, with labels that the scenes give."""
    folder = tmp_path_factory.mktemp("probe")
    small = {"scenes": 10, "width": 96, "height": 64}
    set_params(folder, **{f"tabletop__{key}": value for key, value in small.items()})
    for command in (f"render --dataset tabletop --out data/raw/tabletop --card {CARD}", *STAGES[:-1]):
        succeed(folder, command)
    scenes = json.loads((folder / SCENES).read_text())["scenes"]
    lines = [json.dumps({"scene": scene["number"], "objects": labels(scene)}) for scene in scenes]
    (folder / "data/raw/tabletop/labels.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def labels(scene):
    """The objects of the before image, each at the centre of its box."""
    return [
        {key: item[key] for key in ("size", "color", "material", "shape")}
        | {"x": left + width / 2, "y": top + height / 2}
        for item, (left, top, width, height) in zip(
            scene["before"], scene["views"]["default"]["boxes"], strict=True
        )
    ]


def test_labelled_cells_are_those_of_the_store(lab, monkeypatch):
    monkeypatch.chdir(lab)
    store = FeatureStore(f"{STORES}/grid.zarr", expected={})
    found = labelled_cells.cells(ImageGrids(store, Path()), Path("data/raw/tabletop"))
    names = sorted(name for name in store.row if "default" in name)
    places = grid_labels.centres(grid_labels.read_scenes(SCENES), read_named(IMAGES, names), store.shape[1:])
    expected = gather(store.read, names, places, 10**6, "reading")
    assert len(found.classes) > 20
    assert found.classes.tolist() == expected.classes.tolist()
    assert torch.allclose(found.features, expected.features, atol=0.02)  # the backbone's batches differ


def test_the_figures_are_printed_and_written(lab, capsys):
    succeed(lab, f"{PROBE} --labelled data/raw/tabletop --out probe.json")
    assert "(chance: 0.5)" in capsys.readouterr().out
    figures = json.loads((lab / "probe.json").read_text())["labelled"]
    assert set(figures["accuracy"]) == {"color", "shape", "material", "size"}
    assert 0 <= figures["told_apart"] <= 1


def test_a_store_of_pixels_and_a_folder_without_labels_are_refused(lab):
    pixels = PROBE.replace("grid.zarr", "pixels.zarr")
    refuse(lab, f"{pixels} --labelled data/raw/tabletop", "pixels.zarr")
    refuse(lab, f"{PROBE} --labelled data/raw/tabletop/images", "labels.jsonl")


def test_tuned_weights_fill_a_store_and_an_unknown_layer_is_refused(lab, tmp_path):
    """In a copy, because the lab's own store is of ImageNet's weights."""
    folder = shutil.copytree(lab, tmp_path / "lab")
    tune = f"tune --pairs {PAIRS} --images {IMAGES} --scenes {SCENES} --out tuned.safetensors"
    refuse(folder, f"{tune} --first blocks.99", "blocks.99")
    assert not (folder / "tuned.safetensors").exists()
    succeed(folder, f"{tune} --iterations 1")
    imagenet = FeatureStore(folder / f"{STORES}/grid.zarr", expected={}).attributes
    set_params(folder, features__weights="tuned.safetensors")
    succeed(folder, EXTRACT)
    tuned = FeatureStore(folder / f"{STORES}/grid.zarr", expected={}).attributes
    assert tuned["weights"] == "tuned.safetensors"
    assert tuned["weights_id"] != imagenet["weights_id"]


def test_two_sources_are_told_apart_where_they_differ_alone():
    draw = torch.Generator().manual_seed(0)
    ours, alike, other = (torch.randn(400, 8, generator=draw) for _ in range(3))
    other[:, 3] += 4
    classes = torch.zeros(400, 4, dtype=torch.int64)
    assert separability(Cells(ours, classes), Cells(other, classes)) > 0.95
    assert abs(separability(Cells(ours, classes), Cells(alike, classes)) - 0.5) < 0.08
