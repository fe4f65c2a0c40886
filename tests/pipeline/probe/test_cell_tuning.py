"""Fine-tuning: the trained layers, the loss, and equal weights for equal seeds."""

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from models.backbones import backbone
from models.backbones.backbone import Backbone
from pipeline.captioning import feature_backbone
from pipeline.captioning.feature_backbone import FeatureSource
from pipeline.config.store_contents import Spec
from pipeline.datasets import images as image_files
from pipeline.features import backbone_weights
from pipeline.features.preprocessing import batches
from pipeline.io.errors import InputError
from pipeline.probe import cell_tuning
from pipeline.probe.cell_tuning import Labelled, augmented, compact
from pipeline.probe.grid_labels import NOTHING
from tests.backbones import TINY, spread

SPEC = Spec(TINY, "imagenet", 32, finer=True, standardise=False, resize="pil_bicubic", size=64)
FIRST = "blocks.3"
COLORS = ((200, 30, 30), (30, 30, 200))  # of two classes: the rest of the four attributes is alike


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Twelve images of 2 x 2 cells; one cell of each is an object, red or blue."""
    root = tmp_path_factory.mktemp("cells")
    classes = np.full((12, 4, 2, 2), NOTHING, dtype=np.int8)
    for row in range(12):
        pixels = np.full((64, 64, 3), 120, dtype=np.uint8)
        line, column = row // 2 % 2, row // 4 % 2
        pixels[line * 32 : line * 32 + 32, column * 32 : column * 32 + 32] = COLORS[row % 2]
        classes[row, :, line, column] = (row % 2, 0, 0, 0)
        Image.fromarray(pixels).save(root / f"{row:02d}.png")
    images = list(image_files.index(root, [f"{row:02d}.png" for row in range(12)]))
    return Labelled(root, images, classes)


def network(seed=1):
    torch.manual_seed(seed)
    return spread(Backbone(TINY, 32, finer=True)).eval()


def tuned(data, seed=1, iterations=30, first=FIRST):
    found = network()
    cell_tuning.tune(found, first, SPEC, data, iterations, seed)
    return {name: tensor.clone() for name, tensor in found.network.state_dict().items()}


def test_only_the_last_layers_change(data):
    before, after = network().network.state_dict(), tuned(data, iterations=2)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    late = [f"inner.blocks.{block}" for block in range(3, 7)]
    assert changed
    assert all(name.startswith(tuple(late)) for name in changed)
    assert not any("running" in name for name in changed)


def test_the_same_seed_gives_the_same_weights_and_another_does_not(data):
    once, again, other = tuned(data, iterations=2), tuned(data, iterations=2), tuned(data, 2, iterations=2)
    assert all(torch.equal(once[name], again[name]) for name in once)
    assert not all(torch.equal(once[name], other[name]) for name in once)


def test_the_loss_equals_a_loop_over_objects(data):
    found = network()
    classifier = cell_tuning._Classifier(found, SPEC, data)
    grids = found.raw(torch.from_numpy(next(batches(data.root, data.images, SPEC))))
    classes = torch.from_numpy(data.classes)
    expected = []
    for grid, labels in zip(grids, classes, strict=True):
        for line, column in np.argwhere(labels[0].numpy() != NOTHING):
            cell = classifier.standardise(grid[None])[0, :, line, column]
            scores = classifier.linear(cell).split(classifier.sizes)
            wanted = labels[:, line, column].long()
            logs = [each.log_softmax(0)[target] for each, target in zip(scores, wanted, strict=True)]
            expected.append(-sum(logs))
    assert len(expected) == 12
    assert torch.allclose(classifier.loss(grids, classes), torch.stack(expected).mean(), atol=1e-5)


def test_it_learns_the_objects_color(data, monkeypatch):
    losses = []

    class Watched(cell_tuning._Classifier):
        def loss(self, grids, classes):
            losses.append(super().loss(grids, classes))
            return losses[-1]

    monkeypatch.setattr(cell_tuning, "_Classifier", Watched)
    monkeypatch.setattr(cell_tuning, "CLASSIFIER_RATE", 0.02)
    tuned(data, iterations=150)
    assert torch.stack(losses[-5:]).mean() < 0.6  # guessing between the two colours costs ln 2


def test_a_mirrored_image_has_mirrored_classes():
    torch.manual_seed(0)
    image = torch.full((3, 64, 64), 60, dtype=torch.uint8)
    image[:, :, :32] = 200
    classes = torch.tensor([[[1, 0], [1, 0]]], dtype=torch.int8)
    mirrored = 0
    for _ in range(20):
        pixels, labels = augmented(image, classes)
        left, right = pixels[..., :32].float().mean(), pixels[..., 32:].float().mean()
        assert bool(labels[0, 0, 0] == 1) == bool(left > right)
        mirrored += bool(left < right)
    assert 0 < mirrored < 20


def test_an_unknown_layer_and_images_without_objects_are_refused(data):
    with pytest.raises(InputError, match=r"blocks\.99"):
        tuned(data, first="blocks.99")
    empty = Labelled(data.root, data.images, np.full_like(data.classes, NOTHING))
    with pytest.raises(InputError, match="12 images"):
        tuned(empty)


def test_a_package_keeps_compact_weights_as_they_are(tmp_path):
    """Compact weights are float16 and load to the same bits; other weights stay float32."""
    tuned = backbone.load(network(), compact(network().network.state_dict()))
    for name, weights in (("tuned", tuned), ("other", network(2))):
        (tmp_path / name).mkdir()
        feature_backbone.pack(tmp_path / name, weights, FeatureSource("", "float32"), carried=True)
    stored = {name: load_file(tmp_path / name / "backbone.safetensors") for name in ("tuned", "other")}
    kernel = "inner.conv_stem.weight"
    assert (stored["tuned"][kernel].dtype, stored["other"][kernel].dtype) == (torch.float16, torch.float32)
    again = backbone.load(network(3), stored["tuned"])
    assert backbone_weights.identity(again) == backbone_weights.identity(tuned)
