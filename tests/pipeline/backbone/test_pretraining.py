"""Training of the backbone: repeatable, resumable; every stage learns; extraction loads what it saves."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import nn

from models.backbone import load_backbone, untrained_backbone
from models.grid_classifier import Namer
from pipeline.backbone import pretraining
from pipeline.backbone.pretraining import CLASSES, Labelled, Naming, build, draw, read_images, save, targets
from pipeline.compute import devices, memory
from pipeline.datasets.images import Indexed
from pipeline.errors import InputError
from pipeline.features.extraction import backbone
from pipeline.features.store_contents import Spec
from pipeline.params import Backbone
from pipeline.tabletop.grid_labels import ATTRIBUTES, NOTHING

SETTINGS = Backbone(datasets=(), iterations=12, batch=4, learning_rate=1e-2, seed=1, precision="float32")
SPEC = Spec("random", "layer3", "pil_bicubic", 64)


class Small(nn.Module):
    """uint8 images -> 6 channels of cells of 8 x 8 pixels."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 6, 8, stride=8), nn.BatchNorm2d(6)

    def forward(self, images):
        return self.norm(self.conv(images.float() / 255)).relu()


def made(count=10, cells=3, seed=0):
    """Images whose cells are plain colours, each its own class of every attribute."""
    rng = np.random.default_rng(seed)
    shade = rng.integers(-1, 2, (count, cells, cells))  # -1: no thing
    images = torch.from_numpy((shade + 1) * 100).to(torch.uint8)[:, None].repeat(1, 3, 1, 1)
    images = images.repeat_interleave(8, 2).repeat_interleave(8, 3)
    return Labelled(images, torch.from_numpy(shade.astype(np.int8))[:, None].repeat(1, 4, 1, 1))


def train(folder: Path, seed=1, data=None, killed_at=None, **changes):
    """Train a small network; `killed_at` raises before that iteration."""
    devices.repeatable()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        namer = Namer(Small(), 6, CLASSES)
    training = Naming(namer, SETTINGS.model_copy(update={"seed": seed} | changes), folder / "state.pt")
    step = training.step

    def killable(batch, iteration):
        if iteration == killed_at:
            raise KeyboardInterrupt
        return step(batch, iteration)

    training.step = killable
    training.run(made() if data is None else data)
    return training


def same(a, b):
    a, b = a.namer.state_dict(), b.namer.state_dict()
    return all(torch.equal(a[name], b[name]) for name in a)


def test_one_seed_one_result_another_seed_another(tmp_path):
    one, two, other = (train(tmp_path / name, seed) for name, seed in (("a", 1), ("b", 1), ("c", 2)))
    assert same(one, two)
    assert one.curve == two.curve
    assert not same(one, other)


@pytest.mark.parametrize("killed_at", [3, 4, 11])
def test_a_killed_run_ends_in_the_same_bits(tmp_path, monkeypatch, killed_at):
    monkeypatch.setattr(pretraining, "SAVE_EVERY", 4)
    whole = train(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "killed", killed_at=killed_at)
    assert (tmp_path / "killed/state.pt").exists() == (killed_at >= 4)
    resumed = train(tmp_path / "killed", killed_at=killed_at - 4)  # it does not begin anew
    assert same(whole, resumed)
    assert whole.curve == resumed.curve
    shorter = train(tmp_path / "shorter", iterations=11)
    assert not same(whole, shorter)


def test_it_learns_what_unseen_cells_show(tmp_path):
    data, unseen = made(40), made(20, seed=1)
    trained = train(tmp_path / "a", data=data, iterations=150)
    trained.calibrate(data.images)
    assert min(trained.accuracy(unseen).values()) > 0.95
    assert trained.curve[-1]["shown"] < trained.curve[0]["shown"] / 3
    others = replace(unseen, labels=unseen.labels.roll(1, 0))  # another image's
    assert max(trained.accuracy(others).values()) < 0.8


def test_accuracy_counts_cells(tmp_path):
    training, data = train(tmp_path), made(5, seed=3)
    found = training.accuracy(data)
    logits = training.namer.eval()(data.images)
    for place, name in enumerate(CLASSES):
        right = counted = 0
        for n, i, j in np.ndindex(5, 3, 3):
            thing = data.labels[n, 0, i, j] != NOTHING
            wanted = int(thing) if name == "shown" else int(data.labels[n, place, i, j])
            if name == "shown" or thing:
                right += int(logits[name][n, i, j].argmax()) == wanted
                counted += 1
        assert found[name] == pytest.approx(right / counted)


def test_targets_leave_out_cells_without_a_thing():
    found = targets(made().labels)
    assert list(found) == [*ATTRIBUTES, "shown"]
    assert torch.equal(found["shown"] == 0, found["color"] == -1)
    assert 0 < found["shown"].sum() < found["shown"].numel()


def test_an_epoch_shows_every_image_once_and_mirrors_labels_with_images():
    data = made(10)
    rows = torch.arange(10, dtype=torch.uint8)
    named = replace(data, images=rows[:, None, None, None].expand(10, 3, 24, 24))
    for epoch in range(2):
        seen = torch.cat([draw(named, 5, 1, 2 * epoch + i).images[:, 0, 0, 0] for i in range(2)])
        assert sorted(seen.tolist()) == list(range(10))
    mirrored = 0
    for iteration in range(10):
        batch, plain = draw(data, 4, 1, iteration), draw(named, 4, 1, iteration).images[:, 0, 0, 0]
        for image, labels, row in zip(batch.images, batch.labels, plain.tolist(), strict=True):
            turned = not torch.equal(labels, data.labels[row])
            mirrored += turned
            flip = (lambda x: x.flip(-1)) if turned else (lambda x: x)
            assert torch.equal(labels, flip(data.labels[row]))
            assert torch.equal(image, flip(data.images[row]))
    assert 5 < mirrored < 35


def test_errors(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"backbone\.batch is 4 images, but the train split has 3; lower it"):
        train(tmp_path / "a", data=made(3))
    with pytest.raises(InputError, match=r"not finite by iteration \d+; lower backbone\.learning_rate"):
        train(tmp_path / "b", learning_rate=1e38)
    assert not (tmp_path / "b/state.pt").exists()
    monkeypatch.setattr(memory, "free", lambda: 10_000)
    with pytest.raises(InputError, match="1 images of 64 x 64 pixels take"):
        read_images(tmp_path, [Indexed("a.png", 8, 8, 1, "")], SPEC)


def test_resnet_learns_in_every_stage_and_its_file_is_loaded_by_features(tmp_path):
    settings = SETTINGS.model_copy(update={"iterations": 2, "batch": 2, "learning_rate": 1e-3})
    images = torch.randint(0, 255, (4, 3, 64, 64), dtype=torch.uint8)
    labels = torch.randint(-1, 2, (4, 1, 4, 4)).repeat(1, 4, 1, 1).to(torch.int8)
    namer = build(SPEC, 1)
    before = {name: tensor.clone() for name, tensor in namer.backbone.named_parameters()}
    plain = untrained_backbone("layer3", 1).state_dict()
    assert all(torch.equal(before[name], plain[name]) for name in before)
    training = Naming(namer, settings, tmp_path / "state.pt")
    training.run(Labelled(images, labels))
    for name, parameter in namer.backbone.named_parameters():
        if name.startswith(("stages.conv1", "stages.layer")):
            assert not torch.equal(parameter, before[name]), name
    training.calibrate(images)
    file = tmp_path / "w.safetensors"
    save(file, namer.backbone, {"seed": 1, "size": 64})
    with safe_open(file, "pt") as opened:
        assert json.loads(opened.metadata()["made"]) == {"seed": 1, "size": 64}
    loaded, name = backbone(replace(SPEC, weights=str(file)), 1, tmp_path, [])
    assert name.startswith("sha256:")
    with torch.no_grad():
        grids = loaded(images)
        assert torch.equal(grids, namer.backbone(images))
        # it ends in standardised channels: these images gave the statistics
        torch.testing.assert_close(grids.mean((0, 2, 3)), torch.zeros(1024), atol=0.2, rtol=0)
        assert grids.std((0, 2, 3)).mean() == pytest.approx(1, abs=0.2)
    tensors = namer.backbone.stages.state_dict()
    with pytest.raises(ValueError, match=r"tensor layer4\.0\.conv1\.weight is missing"):
        load_backbone("layer4", tensors)
    with pytest.raises(ValueError, match=r"standardise\.running_mean is \(7,\), not \(1024,\)"):
        load_backbone("layer3", tensors | {"standardise.running_mean": torch.zeros(7)})
