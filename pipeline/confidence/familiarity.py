"""Recognise pairs that the model was not trained for, by two distances: `unlike` and `scenes`.

`unlike` is the distance of a pair from the training images. Each channel of a feature grid is averaged over
the cells and standardised. The distance of an image is the root mean square over the channels: a Mahalanobis
distance with a diagonal covariance. The larger distance of the two images counts.

`scenes` is the distance between the two images of a pair. If the camera moves or one object changes, most
cells stay similar. If the images show different scenes, most cells differ.

B: pairs; C: channels; H, W: rows and columns of the grid.
"""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import FiniteFloat
from torch import Tensor

from pipeline.config.dataset_params import Strict

QUARTILE = 0.75
REFUSED = 0.005  # share of validation pairs beyond each of the two thresholds
LEAST = 1e-3  # minimum standard deviation of a channel
UNLIKE = "these images are unlike those the model was trained on"
OTHER_SCENE = "the two images do not show the same scene"


class Familiarity(Strict):
    """Statistics and thresholds that refuse pairs for which the model was not trained.

    `mean` and `deviation` are of the channels of the training images' feature grids. A pair is
    refused if its distance from the training images is above `unlike`, or if the distance between its
    two images is above `scenes` (see the module).
    """

    mean: list[FiniteFloat]  # C values
    deviation: list[FiniteFloat]  # C values
    unlike: FiniteFloat  # largest accepted distance
    scenes: FiniteFloat  # largest accepted distance

    def distances(self, before: Tensor, after: Tensor) -> np.ndarray:
        """Return two distances of each pair, `unlike` and `scenes`, (B, 2).

        `unlike` is the distance from the training images, the larger one of the two images. `scenes` is
        the distance between the two images.
        `before`, `after`: feature grids of the images, (B, C, H, W).
        """
        mean, deviation = np.array(self.mean), np.array(self.deviation)
        standardised = [(pooled(grids) - mean) / deviation for grids in (before, after)]
        unlike = np.sqrt(np.maximum(*((channels**2).mean(1) for channels in standardised)))
        return np.stack([unlike, scenes_apart(before, after)], 1)

    def reason(self, distances: Sequence[float]) -> str | None:
        """Return the reason why a pair of images is refused, or None if it is accepted.

        `distances` has two numbers: the distance of the pair from the training images, and the distance
        between the scenes of its two images. A pair is refused if a number is above its accepted maximum.
        """
        unlike, scenes = distances
        if not unlike <= self.unlike:  # NaN is refused, too
            return UNLIKE
        return None if scenes <= self.scenes else OTHER_SCENE


def fitted(training: np.ndarray) -> Familiarity:
    """Return a Familiarity with the mean and standard deviation of each channel over the training images.

    `training`: channel means of the images, (images, C), from `pooled`. The thresholds `unlike` and
    `scenes` are so large that no pair is refused. The function with_thresholds sets useful thresholds.
    """
    deviation = np.maximum(training.std(0), LEAST)
    return Familiarity(mean=_rounded(training.mean(0)), deviation=_rounded(deviation), unlike=1e9, scenes=2.0)


def with_thresholds(familiar: Familiarity, distances: np.ndarray) -> Familiarity:
    """Return a copy of `familiar` with new thresholds `unlike` and `scenes`.

    `distances`, (B, 2), are the distances of B pairs, from the method `Familiarity.distances`. Each
    threshold, applied alone, refuses at most the share REFUSED of these pairs.
    """
    unlike, scenes = np.quantile(distances, 1 - REFUSED, axis=0, method="higher")
    return familiar.model_copy(update={"unlike": float(unlike), "scenes": float(scenes)})


def pooled(grids: Tensor) -> np.ndarray:
    """Average each channel of B grids over the cells: from (B, C, H, W) to (B, C)."""
    return grids.float().mean((2, 3)).cpu().numpy()


def scenes_apart(before: Tensor, after: Tensor) -> np.ndarray:
    """Return the distance between the scenes of the two images of each pair, (B,).

    `before` and `after` are the feature grids of the images, (B, C, H, W) each. At each cell, the
    cosine distance between the two images is computed. The result is the upper quartile of these
    distances.
    """
    cosine = F.cosine_similarity(before.float().flatten(2), after.float().flatten(2), dim=1)
    return torch.quantile(1 - cosine, QUARTILE, dim=1).cpu().numpy()


def _rounded(values: np.ndarray) -> list[float]:
    return [float(f"{value:.4g}") for value in values]
