"""The linear probe finds a planted linear signal, and in noise nothing; its optimum against loops."""

import math

import numpy as np
import pytest
import torch

from pipeline.features.store import FeatureStore
from pipeline.features.writer import Writer
from pipeline.io.errors import InputError
from pipeline.probe import linear_probe
from pipeline.probe.grid_labels import ATTRIBUTES, NOTHING
from pipeline.probe.linear_probe import RIDGE, Cells, fit, gather, probe


def made(seed, cells=600, signal=2.0):
    """Cells whose features hold each class along a random direction, and noise."""
    directions = torch.Generator().manual_seed(0)
    rng = torch.Generator().manual_seed(seed)
    features, classes = torch.randn(cells, 32, generator=rng), []
    for values in ATTRIBUTES.values():
        ways = torch.randn(len(values), 32, generator=directions)
        classes.append(torch.randint(len(values), (cells,), generator=rng))
        features += signal * ways[classes[-1]]
    return Cells(features, torch.stack(classes, 1))


def test_a_planted_signal_is_found_and_noise_is_not():
    told = probe(made(1), made(2))
    assert min(told.accuracy.values()) > 0.9
    noise = probe(made(1, signal=0.0), made(2, signal=0.0))
    for name, values in ATTRIBUTES.items():
        assert noise.accuracy[name] < 1 / len(values) + 0.1
        assert noise.majority[name] == pytest.approx(1 / len(values), abs=0.06)


def test_scale_and_a_dead_channel_do_not_matter():
    train, held_out = made(1), made(2)
    scale = torch.logspace(-3, 3, 32)
    scaled = [
        Cells(torch.cat([c.features * scale + 5, torch.full((600, 1), 7.0)], 1), c.classes)
        for c in (train, held_out)
    ]
    plain, other = probe(train, held_out), probe(*scaled)
    assert other.accuracy == pytest.approx(plain.accuracy, abs=0.01)


def objective(weights, features, classes):
    """The mean cross-entropy and the ridge, in loops."""
    total = 0.0
    for row, wanted in zip(features, classes, strict=True):
        scores = [
            sum(x * w for x, w in zip(row, column[:-1], strict=True)) + column[-1] for column in weights.T
        ]
        total += math.log(sum(math.exp(score) for score in scores)) - scores[wanted]
    return total / len(classes) + RIDGE / 2 * sum(w * w for w in weights[:-1].flat)


def test_the_fit_is_the_objectives_minimum():
    rng = np.random.default_rng(0)
    features, classes = rng.standard_normal((40, 3)), rng.integers(0, 3, 40)
    weights = fit(torch.from_numpy(features), torch.from_numpy(classes), 3).numpy()
    least = objective(weights, features, classes)
    assert least < objective(np.zeros((4, 3)), features, classes) - 0.001
    for place in np.ndindex(4, 3):
        for step in (-0.02, 0.02):
            moved = weights.copy()
            moved[place] += step
            assert objective(moved, features, classes) > least


@pytest.fixture
def store(tmp_path):
    writer = Writer(tmp_path / "scratch", 5, (6, 3, 3))
    grids = np.random.default_rng(0).standard_normal((5, 6, 3, 3)).astype(np.float16)
    writer.write(0, grids)
    writer.finish(tmp_path / "s.zarr", {"keys": list("abcde")})
    return FeatureStore(tmp_path / "s.zarr", {}), grids


def test_cells_are_gathered_with_their_classes(store, monkeypatch):
    monkeypatch.setattr(linear_probe, "READ", 2)
    opened, grids = store
    labels = np.random.default_rng(1).integers(0, 2, (5, 4, 3, 3)).astype(np.int8)
    hidden = np.random.default_rng(2).random((5, 3, 3)) < 0.5
    labels.transpose(0, 2, 3, 1)[hidden] = NOTHING
    found = gather(opened.read, list("abcde"), labels, 1000, "reading")
    row = 0
    for image in range(5):
        for line in range(3):
            for column in range(3):
                if not hidden[image, line, column]:
                    assert found.features[row].tolist() == grids[image, :, line, column].tolist()
                    assert found.classes[row].tolist() == labels[image, :, line, column].tolist()
                    row += 1
    assert row == len(found.classes) == len(found.features)
    some, again = (gather(opened.read, list("abcde"), labels, 7, "reading") for _ in range(2))
    assert len(some.classes) == 7
    assert torch.equal(some.features, again.features)


def test_no_object_in_any_cell(store):
    with pytest.raises(InputError, match="no cell of 5 images"):
        gather(
            store[0].read, list("abcde"), np.full((5, 4, 3, 3), NOTHING, np.int8), 10, "reading cells of val"
        )
