"""Linear probe: how well linear classifiers predict an object's attributes from one feature cell.

The classifiers are multinomial logistic regressions on standardised features (Alain and Bengio, 2017). They
are fitted on the train split and tested on another split. Only the choice of cells is random.

N: cells that show an object; C: channels of the features; H x W: cells of the grid; K: classes of one
attribute.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pipeline.io.errors import InputError
from pipeline.io.progress import track
from pipeline.probe.grid_labels import ATTRIBUTES, NOTHING

RIDGE = 1e-3  # factor of half the squared weights in the loss; without this term, the weights may diverge
STEPS = 100  # maximum number of steps of LBFGS
READ = 64  # number of images that are read at once


@dataclass(frozen=True)
class Cells:
    """N feature cells that show an object, and the classes of the object's attributes."""

    features: Tensor  # (N, C) float32
    classes: Tensor  # (N, 4) int64, with the four attributes in the order of ATTRIBUTES


class Grids(Protocol):
    """Source of feature grids of images: a store, or a backbone that computes them."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of the feature grid of one image, (C, H, W)."""
        ...

    def read(self, keys: Sequence[str]) -> np.ndarray:
        """Return the feature grids of images, (images, C, H, W), in the order of `keys`."""
        ...


@dataclass(frozen=True)
class Scores:
    """Accuracy on the held-out cells. Each dictionary is: attribute -> fraction of correct cells."""

    accuracy: dict[str, float]  # of the linear classifier
    majority: dict[str, float]  # of always predicting the most frequent class of the training cells


def gather(grids: Grids, keys: Sequence[str], labels: np.ndarray, most: int, description: str) -> Cells:
    """Return at most `most` of the cells that show an object, with their features.

    If there are more, cells are drawn uniformly with a fixed seed. `labels`, (images, 4, H, W), are the
    classes of the images' cells (grid_labels.py). `keys` name the images. `description` names the cells in
    messages. Raises InputError if no cell shows an object.
    """
    places = np.argwhere(labels[:, 0] != NOTHING)  # (n, 3): image, row, column
    if not len(places):
        raise InputError(f"{description}: no cell of {len(keys)} images shows an object")
    if len(places) > most:
        places = places[np.sort(np.random.default_rng(0).permutation(len(places))[:most])]
    features = np.empty((len(places), grids.shape[0]), dtype=np.float32)
    starts = range(0, len(keys), READ)
    for start in track(starts, description, "batches", len(starts)):
        rows = (places[:, 0] >= start) & (places[:, 0] < start + READ)
        image, line, column = places[rows].T
        read = grids.read(keys[start : start + READ])  # (images, C, H, W)
        features[rows] = read[image - start, :, line, column]
    image, line, column = places.T
    return Cells(torch.from_numpy(features), torch.from_numpy(labels[image, :, line, column]).long())


def probe(train: Cells, held_out: Cells) -> Scores:
    """Fit one classifier per attribute to the cells `train`. Return the accuracy on the cells `held_out`."""
    mean, deviation = train.features.mean(0), train.features.std(0, correction=0)
    # a constant channel is divided by 1 instead of 0
    scale = torch.where(deviation > 0, deviation, 1.0)
    known, unknown = ((cells.features - mean) / scale for cells in (train, held_out))
    accuracy, majority = {}, {}
    named = track(ATTRIBUTES.items(), "fitting", "attributes", len(ATTRIBUTES))
    for place, (name, values) in enumerate(named):
        seen, wanted = train.classes[:, place], held_out.classes[:, place]
        found = predict(fit(known, seen, len(values)), unknown)
        accuracy[name] = (found == wanted).float().mean().item()
        majority[name] = (wanted == seen.bincount().argmax()).float().mean().item()
    return Scores(accuracy, majority)


def told_apart(ours: Cells, others: Cells, folds: int = 5) -> float:
    """Return the accuracy of a linear classifier that separates `ours` from `others`. Chance is 0.5.

    The larger set is cut to the size of the smaller one: only its first cells are used. The accuracy is
    cross-validated with contiguous folds.
    """
    number = min(len(ours.classes), len(others.classes))
    features = torch.cat([ours.features[:number], others.features[:number]])
    deviation = features.std(0, correction=0)
    features = (features - features.mean(0)) / torch.where(deviation > 0, deviation, 1.0)
    source = torch.arange(2).repeat_interleave(number)
    fold = (torch.arange(number) * folds // number).repeat(2)
    right = torch.zeros(2 * number, dtype=torch.bool)
    for out in range(folds):
        weights = fit(features[fold != out], source[fold != out], 2)
        right[fold == out] = predict(weights, features[fold == out]) == source[fold == out]
    return right.float().mean().item()


def fit(features: Tensor, classes: Tensor, number: int) -> Tensor:
    """Fit a multinomial logistic regression. Return its weights and, in the last row, its biases, (C + 1, K).

    `features` are (N, C). `classes` are (N,), from 0 to K - 1. `number` is K. LBFGS starts at zero and
    minimises the mean cross-entropy plus RIDGE / 2 times the squared weights (not the biases).
    """
    weights = features.new_zeros(features.shape[1] + 1, number, requires_grad=True)
    solver = torch.optim.LBFGS([weights], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        solver.zero_grad()
        ridge = RIDGE / 2 * weights[:-1].square().sum()
        value = F.cross_entropy(features @ weights[:-1] + weights[-1], classes) + ridge
        value.backward()
        return value

    solver.step(loss)
    return weights.detach()


def predict(weights: Tensor, features: Tensor) -> Tensor:
    """Return the most likely class of each cell, (N,), from features (N, C) and the weights of `fit`."""
    return (features @ weights[:-1] + weights[-1]).argmax(1)
