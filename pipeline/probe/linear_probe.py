"""A linear probe: how well a linear classifier reads a thing's attributes off single cells of features.

Multinomial logistic regression on standardised features (Alain and Bengio, 2017): cells of the
train split fit it, cells of another split are told by it. Nothing in it is random but the choice of cells.
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

RIDGE = 1e-3  # times half the squared weights, added to the mean cross-entropy: without it they have no end
STEPS = 100  # of LBFGS at most
READ = 64  # images at once


@dataclass(frozen=True)
class Cells:
    """N single cells that show a thing."""

    features: Tensor  # N x C float32
    classes: Tensor  # N x 4 int64, in the order of ATTRIBUTES


class Grids(Protocol):
    """Feature grids by the names of images: a store, or images that a backbone reads now."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """C x H x W."""
        ...

    def read(self, keys: Sequence[str]) -> np.ndarray:
        """Return the grids of these images, images x C x H x W."""
        ...


@dataclass(frozen=True)
class Scores:
    """Fractions of the cells of the split that was held out, by attribute."""

    accuracy: dict[str, float]
    majority: dict[str, float]  # that have the class which most training cells have


def gather(grids: Grids, keys: Sequence[str], labels: np.ndarray, most: int, description: str) -> Cells:
    """Read the cells that show a thing, at most `most` of them, drawn evenly and always the same.

    `labels` are images x 4 x H x W (cells.label) of the images `keys`.
    Raises InputError where no cell shows a thing.
    """
    places = np.argwhere(labels[:, 0] != NOTHING)  # n x (image, line, column)
    if not len(places):
        raise InputError(f"{description}: no cell of {len(keys)} images shows a thing")
    if len(places) > most:
        places = places[np.sort(np.random.default_rng(0).permutation(len(places))[:most])]
    features = np.empty((len(places), grids.shape[0]), dtype=np.float32)
    starts = range(0, len(keys), READ)
    for start in track(starts, description, "batches", len(starts)):
        rows = (places[:, 0] >= start) & (places[:, 0] < start + READ)
        image, line, column = places[rows].T
        read = grids.read(keys[start : start + READ])  # images x C x H x W
        features[rows] = read[image - start, :, line, column]
    image, line, column = places.T
    return Cells(torch.from_numpy(features), torch.from_numpy(labels[image, :, line, column]).long())


def probe(train: Cells, held_out: Cells) -> Scores:
    """Fit a classifier an attribute on `train` and read `held_out` with it."""
    mean, deviation = train.features.mean(0), train.features.std(0, correction=0)
    # a channel that never varies says nothing, whatever it is divided by
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
    """Return the share of cells that a linear classifier assigns to the right source; 0.5 is chance.

    Both sources give the same number of cells, their first ones. The cells are split into runs of
    neighbours, and each run is classified by a probe of the others (cross-validation).
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
    """Weights and, in the last row, biases of multinomial logistic regression, (C + 1) x K.

    `features` are N x C, `classes` N of 0..K-1, K is `number`. They minimise the mean cross-entropy
    plus RIDGE / 2 times the squared weights (biases are free), from zero, by LBFGS.
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
    """The likeliest class of each row of features, N."""
    return (features @ weights[:-1] + weights[-1]).argmax(1)
