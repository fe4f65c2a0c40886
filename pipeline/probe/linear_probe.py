"""Linear probe: how well linear classifiers predict an object's attributes from one feature cell.

The classifiers are multinomial logistic regressions on standardised features (Alain and Bengio, 2017). They
are fitted on the train split and tested on another split. Only the choice of cells is random.

N: cells that show an object; C: channels of the features; H x W: cells of the grid; K: classes of one
attribute.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pipeline.io.errors import InputError
from pipeline.io.progress import track
from pipeline.probe.grid_labels import ATTRIBUTES, NOTHING

RIDGE = 1e-3  # factor of half the squared weights in the loss; without this term, the weights may diverge
STEPS = 100  # maximum number of steps of LBFGS
FOLDS = 5  # of the cross-validation in `separability`
READ = 64  # number of images that are read at once


# function that returns the feature grids of the images with the given keys, (images, C, H, W)
Reader = Callable[[Sequence[str]], np.ndarray]


@dataclass(frozen=True)
class Cells:
    """N feature cells that show an object, and the classes of the object's attributes."""

    features: Tensor  # (N, C) float32
    classes: Tensor  # (N, 4) int64, with the four attributes in the order of ATTRIBUTES


@dataclass(frozen=True)
class ProbeScores:
    """Accuracy on the held-out cells. Each dictionary is: attribute -> fraction of correct cells."""

    accuracy: dict[str, float]  # of the linear classifier
    majority: dict[str, float]  # of always predicting the most frequent class of the training cells


def gather(read: Reader, keys: Sequence[str], labels: np.ndarray, limit: int, description: str) -> Cells:
    """Return at most `limit` cells that show an object, drawn with a fixed seed, with their features.

    `labels` are the classes of the images' cells, (images, 4, H, W); `description` names the cells in
    messages.
    """
    indices = np.argwhere(labels[:, 0] != NOTHING)  # (n, 3): image, row, column
    if not len(indices):
        raise InputError(f"{description}: no cell of {len(keys)} images shows an object")
    if len(indices) > limit:
        indices = indices[np.sort(np.random.default_rng(0).permutation(len(indices))[:limit])]
    features = []
    starts = range(0, len(keys), READ)
    for start in track(starts, description, "batches", len(starts)):
        in_batch = (indices[:, 0] >= start) & (indices[:, 0] < start + READ)
        image, row, column = indices[in_batch].T
        features.append(read(keys[start : start + READ])[image - start, :, row, column])
    image, row, column = indices.T
    classes = torch.from_numpy(labels[image, :, row, column]).long()
    return Cells(torch.from_numpy(np.concatenate(features)).float(), classes)


def probe(train: Cells, held_out: Cells) -> ProbeScores:
    """Fit a classifier per attribute, and test it; return accuracies, also of the most frequent class."""
    features, held_out_features = standardised(train.features, held_out.features)
    accuracy, majority = {}, {}
    attributes = track(ATTRIBUTES.items(), "fitting", "attributes", len(ATTRIBUTES))
    for column, (name, values) in enumerate(attributes):
        classes, true_classes = train.classes[:, column], held_out.classes[:, column]
        predicted = predict(fit(features, classes, len(values)), held_out_features)
        accuracy[name] = (predicted == true_classes).float().mean().item()
        majority[name] = (true_classes == classes.bincount().argmax()).float().mean().item()
    return ProbeScores(accuracy, majority)


def standardised(reference: Tensor, *others: Tensor) -> list[Tensor]:
    """Standardise all features, (cells, C) each, by the channels of `reference`."""
    mean, deviation = reference.mean(0), reference.std(0, correction=0)
    scale = torch.where(deviation > 0, deviation, 1.0)
    return [(features - mean) / scale for features in (reference, *others)]


def separability(first: Cells, second: Cells) -> float:
    """Return a linear classifier's cross-validated accuracy in telling the sets apart; 0.5 by chance.

    The larger set is cut to the size of the smaller one. The folds are contiguous.
    """
    count = min(len(first.classes), len(second.classes))
    [features] = standardised(torch.cat([first.features[:count], second.features[:count]]))
    source = torch.arange(2).repeat_interleave(count)  # 0: first, 1: second
    fold = (torch.arange(count) * FOLDS // count).repeat(2)
    correct = torch.zeros(2 * count, dtype=torch.bool)
    for number in range(FOLDS):
        weights = fit(features[fold != number], source[fold != number], 2)
        correct[fold == number] = predict(weights, features[fold == number]) == source[fold == number]
    return correct.float().mean().item()


def fit(features: Tensor, classes: Tensor, class_count: int) -> Tensor:
    """Fit a multinomial logistic regression: (N, C), (N,) -> weights, and biases in the last row, (C + 1, K).

    LBFGS starts at zero and minimises the mean cross-entropy plus RIDGE / 2 times the squared weights (not
    the biases).
    """
    weights = features.new_zeros(features.shape[1] + 1, class_count, requires_grad=True)
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
    return (features @ weights[:-1] + weights[-1]).argmax(1)
