"""Extraction: what the store holds is what the network gives; weights of every kind; resumption."""

from copy import deepcopy
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torchvision.models import resnet101

from models.backbone import MEAN, STD, Backbone, for_inference, load_backbone
from pipeline.compute.process_group import Ranks
from pipeline.datasets import images
from pipeline.errors import InputError
from pipeline.features import extraction, store_codec
from pipeline.features.extraction import Extractor, attributes, backbone, grid_shape
from pipeline.features.preprocessing import pixels
from pipeline.features.store import FeatureStore
from pipeline.features.store_contents import Spec
from pipeline.features.writer import Writer
from tests.synthetic import make_clevr_change

SPEC = Spec("random", "layer3", "pil_bicubic", 64)


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    return make_clevr_change(tmp_path_factory.mktemp("images") / "raw", scenes=10)


@pytest.fixture(scope="module")
def index(root):
    return list(images.index(root, [f"images/CLEVR_default_{number:06d}.png" for number in range(10)]))


@pytest.fixture(scope="module")
def network(root, index) -> Backbone:
    return backbone(SPEC, 1, root, index)[0]


def extract(network, root, index, folder, out):
    extractor = Extractor(network, root, index, SPEC, "float32")
    described = attributes(SPEC, "random-1", extractor.dtype, index)
    extraction.extract(extractor, Ranks(0, 1), folder).finish(out, described)


def test_the_store_holds_what_the_network_gives(network, root, index, tmp_path):
    extract(network, root, index, tmp_path / "scratch", tmp_path / "s.zarr")
    opened = FeatureStore(
        tmp_path / "s.zarr", {"layer": "layer3", "weights": "random", "resize": "pil_bicubic"}
    )
    for image in index[:3]:
        # the plainest way: Pillow, NumPy, the network on one image in float32
        picture = Image.open(root / image.name).convert("RGB").resize((64, 64), Image.Resampling.BICUBIC)
        scaled = (np.asarray(picture) / 255 - np.array(MEAN)) / np.array(STD)
        with torch.no_grad():
            grid = network.stages(torch.tensor(scaled.transpose(2, 0, 1)[None], dtype=torch.float32))
        np.testing.assert_allclose(opened.read([image.name])[0], grid[0].numpy(), rtol=2e-3, atol=2e-3)
    assert opened.attributes["sha256"] == [image.sha256 for image in index]


def test_an_interrupted_extraction_gives_the_same_bytes(network, root, index, tmp_path, monkeypatch):
    monkeypatch.setattr(store_codec, "SHARD", 4)
    monkeypatch.setattr(extraction, "BATCH", 2)
    extract(network, root, index, tmp_path / "a", tmp_path / "whole.zarr")
    write = Writer.write

    def killed(self, shard, block):
        if shard == 1:
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
    files = [path for path in (tmp_path / "whole.zarr").rglob("*") if path.is_file()]
    assert len(files) == 5
    for file in files:
        assert (
            file.read_bytes()
            == (tmp_path / "s.zarr" / file.relative_to(tmp_path / "whole.zarr")).read_bytes()
        )


def test_random_weights_follow_their_seed_and_show_the_image(root, index, network):
    again, name = backbone(SPEC, 1, root, index)
    other, _ = backbone(SPEC, 2, root, index)
    batch = torch.from_numpy(np.stack([pixels(root, image, 64, SPEC.resize) for image in index]))
    with torch.no_grad():
        first, same, different = (net(batch) for net in (network, again, other))
    assert name == "random-1"
    assert torch.equal(first, same)
    assert not torch.allclose(first, different)
    assert first.max() < 100  # far from float16's limit; without calibration it reaches 18,000
    assert (first[0] - first[1]).abs().mean() > 0.01


def test_calibration_matters(network):
    torch.manual_seed(1)
    plain = Backbone("layer3").eval()
    noise = torch.randint(0, 255, (2, 3, 64, 64), dtype=torch.uint8)
    assert plain(noise).max() > 50 * network(noise).max()


def test_weights_from_files(tmp_path, root, index):
    torch.manual_seed(0)
    tensors = resnet101(weights=None).state_dict()
    save_file(tensors, tmp_path / "w.safetensors")
    torch.save(tensors, tmp_path / "w.pth")
    batch = torch.from_numpy(np.stack([pixels(root, image, 64, SPEC.resize) for image in index[:2]]))
    expected = load_backbone("layer3", tensors)(batch)
    names = []
    for file in ("w.safetensors", "w.pth"):
        network, name = backbone(Spec(str(tmp_path / file), "layer3", "pil_bicubic", 64), 1, root, index)
        torch.testing.assert_close(network(batch), expected)
        names.append(name)
    assert names[0] != names[1]
    assert names[0].startswith("sha256:")


class Evil:
    def __reduce__(self):
        return (Path.touch, (Path("executed"),))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "w.pth is missing"),
        (lambda path: path.write_bytes(b"nonsense"), "w.pth is no file of tensors"),
        (lambda path: torch.save([1, 2], path), "is no state dict"),
        (
            lambda path: torch.save({"a": Evil()}, path),
            "is no file of tensors .Unsupported global: GLOBAL getattr",
        ),
        (
            lambda path: torch.save({"conv1.weight": torch.zeros(1)}, path),
            "conv1.weight is .1,., not .64, 3, 7, 7.",
        ),
        (lambda path: torch.save({"fc.weight": torch.zeros(1)}, path), "tensor conv1.weight is missing"),
    ],
)
def test_bad_weight_files_are_refused_and_nothing_is_executed(tmp_path, monkeypatch, root, index, make, said):
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "w.pth")
    with pytest.raises(InputError, match=said):
        backbone(Spec(str(tmp_path / "w.pth"), "layer3", "pil_bicubic", 64), 1, root, index)
    assert not (tmp_path / "executed").exists()


def test_imagenet_weights_are_asked_for_by_name_where_they_cannot_be_had(tmp_path, monkeypatch, root, index):
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))

    def offline(*arguments, **options):
        raise OSError("no network")

    monkeypatch.setattr(torch.hub, "download_url_to_file", offline)
    with pytest.raises(InputError, match=r"put torchvision's resnet101-\w+\.pth into .*checkpoints"):
        backbone(Spec("imagenet", "layer3", "pil_bicubic", 64), 1, root, index)


def test_features_that_overflow_are_refused(root, index, network, tmp_path):
    loud = deepcopy(network)
    loud.stages.standardise.running_mean[7] = -1e6
    extractor = Extractor(loud, root, index, SPEC, "float32")
    writer = Writer(tmp_path / "s", len(index), grid_shape(SPEC))
    with pytest.raises(InputError, match=r"CLEVR_default_000000\.png overflow float16"):
        extractor.fill(writer, writer.missing)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_folded_norms_compute_the_same(network, root, index, precision):
    """With statistics that are not 0 and 1: those of images."""
    batch = torch.from_numpy(np.stack([pixels(root, image, 64, SPEC.resize) for image in index[:3]]))
    dtype = getattr(torch, precision)
    folded = for_inference(network, dtype)
    norms = [name for name, part in folded.named_modules() if isinstance(part, torch.nn.BatchNorm2d)]
    assert norms == ["stages.standardise"]
    with torch.no_grad():
        found, expected = folded(batch).float(), network(batch)
    # bfloat16 has 8 bits, and a hundred layers
    tolerance = 1e-4 if dtype == torch.float32 else 0.3
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    assert network.stages.conv1.weight.dtype == torch.float32  # it was not changed itself


def test_folding_keeps_trained_looking_weights(index, root):
    """Every norm with its own gain, shift, mean and variance, as in downloaded weights."""
    torch.manual_seed(0)
    plain = Backbone("layer4")
    for part in plain.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(part.weight, 0.2, 0.6)
            for tensor in (part.bias, part.running_mean):
                torch.nn.init.normal_(tensor, std=0.1)
            torch.nn.init.uniform_(part.running_var, 0.5, 2)
    batch = torch.from_numpy(np.stack([pixels(root, image, 64, SPEC.resize) for image in index[:2]]))
    with torch.no_grad():
        expected = plain.eval()(batch)
        found = for_inference(plain, torch.float32)(batch)
    assert expected.std() > 0.1
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_the_resize_of_the_spec_is_what_the_network_sees(network, root, index, tmp_path):
    spec = Spec("random", "layer3", "opencv_bicubic", 64)
    extractor = Extractor(network, root, index, spec, "float32")
    writer = Writer(tmp_path / "scratch", len(index), grid_shape(spec))
    extractor.fill(writer, writer.missing)
    writer.finish(tmp_path / "s.zarr", attributes(spec, "random-1", extractor.dtype, index))
    opened = FeatureStore(tmp_path / "s.zarr", asdict(spec))
    batch = torch.from_numpy(pixels(root, index[0], 64, "opencv_bicubic")[None])
    with torch.no_grad():
        expected = network(batch)[0].numpy()
    np.testing.assert_allclose(opened.read([index[0].name])[0], expected, rtol=2e-3, atol=2e-3)
    with pytest.raises(InputError, match=r"its resize is 'opencv_bicubic', .* wants 'pil_bicubic'"):
        FeatureStore(tmp_path / "s.zarr", asdict(SPEC))
