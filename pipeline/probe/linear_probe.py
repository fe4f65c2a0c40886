"""Linear probe: accuracy of a linear classifier that reads an object's attributes from single feature cells.

It is multinomial logistic regression on standardised features (Alain and Bengio, 2017), fitted on the train
split and tested on another split. Only the choice of cells is random.
N: cells that show an object; C: feature channels; H x W: grid; K: classes of an attribute.
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

RIDGE = 1e-3  # weight of half the squared weights; without it, they may diverge
STEPS = 100  # most steps of LBFGS
READ = 64  # images per batch


@dataclass(frozen=True)
class Cells:
    """N single cells that show an object."""

    features: Tensor  # (N, C) float32
    classes: Tensor  # (N, 4) int64, in the order of ATTRIBUTES


class Grids(Protocol):
    """Feature grids by image name: of a store, or computed by a backbone."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W)."""
        ...

    def read(self, keys: Sequence[str]) -> np.ndarray:
        """Return the grids of these images, (images, C, H, W)."""
        ...


@dataclass(frozen=True)
class Scores:
    """Fractions of the held-out cells, by attribute."""

    accuracy: dict[str, float]
    majority: dict[str, float]  # accuracy of the most frequent training class


def gather(grids: Grids, keys: Sequence[str], labels: np.ndarray, most: int, description: str) -> Cells:
    """Read at most `most` cells that show an object, drawn uniformly with a fixed seed.

    `labels` (images, 4, H, W) are grid_labels.label of the images `keys`. Raises InputError without such a
    cell.
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
    """Fit one classifier per attribute on `train` and test it on `held_out`."""
    mean, deviation = train.features.mean(0), train.features.std(0, correction=0)
    # a constant channel is divided by 1
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
    """Return the share of cells that a linear classifier assigns to the right source; chance is 0.5.

    Each source gives the same number of cells, its first ones. Cross-validation: the cells are split into
    contiguous folds.
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
    """Return weights and, in the last row, biases of multinomial logistic regression, (C + 1, K).

    `features` are (N, C), `classes` (N,) of 0..K-1; K is `number`. LBFGS starts at zero and minimises the
    mean cross-entropy plus RIDGE / 2 times the squared weights (not the biases).
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
    """Return the most likely class of each row of features, (N,)."""
    return (features @ weights[:-1] + weights[-1]).argmax(1)
