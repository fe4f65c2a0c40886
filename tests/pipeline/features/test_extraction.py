"""Extraction: what the store holds is what the network gives, and by which statistics; resumption."""

from copy import deepcopy
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional as F

from models.backbones.backbone import MEAN, STD, Backbone, load
from pipeline.compute.process_group import ALONE
from pipeline.config.store_contents import Spec
from pipeline.datasets import images
from pipeline.features import backbone_weights, extraction, preprocessing, store_codec
from pipeline.features.backbone_weights import grid_shape
from pipeline.features.extraction import Extractor, attributes
from pipeline.features.preprocessing import pixels
from pipeline.features.store import FeatureStore
from pipeline.features.writer import Writer, fill
from pipeline.io.errors import InputError
from tests.backbones import TINY, write_tiny
from tests.folders import contents
from tests.synthetic import make_clevr_change

SPEC = Spec(TINY, "a file", 16, True, True, "pil_bicubic", 64)


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    return make_clevr_change(tmp_path_factory.mktemp("images") / "raw", scenes=10)


@pytest.fixture(scope="module")
def index(root):
    return list(images.index(root, [f"images/CLEVR_default_{number:06d}.png" for number in range(10)]))


@pytest.fixture(scope="module")
def network(root, index, tmp_path_factory) -> Backbone:
    file = write_tiny(tmp_path_factory.mktemp("weights") / "w.safetensors")
    return backbone_weights.load(replace(SPEC, weights=str(file)))[0]


def extract(network, root, index, folder, out, spec=SPEC):
    extractor = Extractor(network, root, index, spec, "float32")
    extractor.standardise(ALONE, index)
    extraction.extract(extractor, ALONE, folder).finish(out, attributes(extractor, "sha256:1"))
    return extractor


def test_the_store_holds_what_the_network_gives(network, root, index, tmp_path):
    extract(network, root, index, tmp_path / "scratch", tmp_path / "s.zarr")
    opened = FeatureStore(tmp_path / "s.zarr", {"backbone": TINY, "stride": 16, "resize": "pil_bicubic"})
    # the plainest way: Pillow, NumPy, the network on one image in float32, statistics of all cells
    grids = []
    for image in index:
        picture = Image.open(root / image.name).convert("RGB").resize((64, 64), Image.Resampling.BICUBIC)
        scaled = (np.asarray(picture) / 255 - np.array(MEAN)) / np.array(STD)
        with torch.no_grad():
            fine, coarse = network.network(torch.tensor(scaled.transpose(2, 0, 1)[None], dtype=torch.float32))
        grids.append(torch.cat([coarse, F.pixel_unshuffle(fine, 2)], 1)[0].double().numpy())
    cells = np.stack(grids)  # images x C x H x W
    mean, deviation = (each[None, :, None, None] for each in (cells.mean((0, 2, 3)), cells.std((0, 2, 3))))
    wanted = (cells - mean) / deviation
    found = opened.read([image.name for image in index]).astype(float)
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3)
    told = opened.attributes["statistics"]
    np.testing.assert_allclose(told["mean"], mean.ravel(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(told["deviation"], deviation.ravel(), rtol=1e-4)
    assert opened.attributes["sha256"] == [image.sha256 for image in index]


def test_an_interrupted_extraction_gives_the_same_bytes(network, root, index, tmp_path, monkeypatch):
    monkeypatch.setattr(store_codec, "SHARD", 4)
    monkeypatch.setattr(preprocessing, "BATCH", 2)
    extract(network, root, index, tmp_path / "a", tmp_path / "whole.zarr")
    write = Writer.write

    def killed(self, shard, block):
        if shard >= 1:
            raise KeyboardInterrupt
        write(self, shard, block)

    monkeypatch.setattr(Writer, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        extract(network, root, index, tmp_path / "b", tmp_path / "s.zarr")
    assert not (tmp_path / "s.zarr").exists()
    written = []
    monkeypatch.setattr(
        Writer, "write", lambda self, shard, block: (written.append(shard), write(self, shard, block))
    )
    extract(network, root, index, tmp_path / "b", tmp_path / "s.zarr")
    assert written == [1, 2]
    assert len(contents(tmp_path / "s.zarr")) == 5
    assert contents(tmp_path / "s.zarr") == contents(tmp_path / "whole.zarr")


def test_statistics_are_of_the_first_images_alone(network, root, index, monkeypatch):
    monkeypatch.setattr(extraction, "STATISTICS_IMAGES", 3)
    extractor = Extractor(network, root, index, SPEC, "float32")
    extractor.standardise(ALONE, index)
    few = Extractor(network, root, index, SPEC, "float32")
    few.standardise(ALONE, index[:3])
    assert torch.equal(extractor.network.standardise.mean, few.network.standardise.mean)
    monkeypatch.setattr(extraction, "STATISTICS_IMAGES", 64)
    few.standardise(ALONE, index)
    assert not torch.equal(extractor.network.standardise.mean, few.network.standardise.mean)
    with pytest.raises(InputError, match=r"features\.standardise: there is no train image"):
        few.standardise(ALONE, [])


def test_without_statistics_the_store_has_none(network, root, index, tmp_path):
    spec = replace(SPEC, standardise=False)
    plain = load(Backbone(TINY, 16, finer=True), network.network.state_dict())
    extract(plain, root, index, tmp_path / "scratch", tmp_path / "s.zarr", spec)
    opened = FeatureStore(tmp_path / "s.zarr", asdict(spec))
    assert "statistics" not in opened.attributes
    batch = torch.from_numpy(np.stack([pixels(root, index[0], 64, SPEC.resize)]))
    with torch.no_grad():
        wanted = plain(batch)[0].numpy()
    np.testing.assert_allclose(opened.read([index[0].name])[0], wanted, rtol=2e-3, atol=2e-3)


def test_features_that_overflow_are_refused(root, index, network, tmp_path):
    loud = deepcopy(network)
    loud.standardise.mean[7] = -1e6
    extractor = Extractor(loud, root, index, SPEC, "float32")
    writer = Writer(tmp_path / "s", len(index), grid_shape(SPEC))
    with pytest.raises(InputError, match=r"CLEVR_default_000000\.png overflow float16"):
        fill(writer, writer.missing, extractor.features, "extracting")


def test_the_resize_of_the_spec_is_what_the_network_sees(network, root, index, tmp_path):
    spec = replace(SPEC, resize="opencv_bicubic")
    extractor = extract(network, root, index, tmp_path / "scratch", tmp_path / "s.zarr", spec)
    opened = FeatureStore(tmp_path / "s.zarr", asdict(spec))
    batch = torch.from_numpy(np.stack([pixels(root, index[0], 64, "opencv_bicubic")]))
    with torch.no_grad():
        expected = extractor.network(batch)[0].numpy()
    np.testing.assert_allclose(opened.read([index[0].name])[0], expected, rtol=2e-3, atol=2e-3)
    with pytest.raises(InputError, match=r"its resize is 'opencv_bicubic', .* wants 'pil_bicubic'"):
        FeatureStore(tmp_path / "s.zarr", asdict(SPEC))
