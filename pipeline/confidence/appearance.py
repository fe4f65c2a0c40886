"""Appearance of an image: 54 statistics of its colours and textures, and the distance from training images.

The statistics are computed from pixels, not by the backbone. A backbone that was fine-tuned on rendered
objects finds such objects in a photograph, too, but the colours and textures of a photograph differ.
B: images; K: values of a cell; P: pixels of a side.
"""

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import FiniteFloat
from torch import Tensor

from pipeline.config.dataset_params import Strict

SIDE = 224  # pixels to which an image is resized
CELLS = 14  # rows and columns of cells in which values are computed
LEVELS = 4  # scales of the textures, each half as fine as the one before
FLOOR = 1.5  # grey levels; weaker textures count as this strong, so that grain and compression matter little
COLOURS = torch.tensor([[1 / 3, 1 / 3, 1 / 3], [0.5, -0.5, 0.0], [0.25, 0.25, -0.5]])
"""Rows: grey, red against green, yellow against blue."""
SIZE = 2 * (3 + LEVELS * 6)  # number of statistics of an image
SHRINKAGE = 1.0  # added to the variances of the standardised statistics along each principal axis
LEAST = 1e-3  # minimum standard deviation of a statistic
SMOOTHING = torch.tensor([1.0, 4.0, 6.0, 4.0, 1.0]) / 16


class Appearance(Strict):
    """Statistics of the training images: mean, standard deviation and correlations of the SIZE statistics.

    `whitening` is a matrix, SIZE x SIZE. Standardised statistics of training images, multiplied by it, are
    uncorrelated, and have a variance of at most 1.
    """

    mean: list[FiniteFloat]
    deviation: list[FiniteFloat]
    whitening: list[list[FiniteFloat]]

    def distance(self, statistics: np.ndarray) -> np.ndarray:
        """Return the regularised Mahalanobis distance from the training images: (B, SIZE) -> (B,)."""
        standardised = (statistics - np.array(self.mean)) / np.array(self.deviation)
        return np.sqrt(((standardised @ np.array(self.whitening)) ** 2).mean(1))


def fitted(statistics: np.ndarray) -> Appearance:
    """Fit an Appearance to the statistics of training images, (images, SIZE)."""
    mean, deviation = statistics.mean(0), np.maximum(statistics.std(0), LEAST)
    standardised = (statistics - mean) / deviation
    variances, axes = np.linalg.eigh(standardised.T @ standardised / len(statistics))
    whitening = axes / np.sqrt(np.maximum(variances, 0) + SHRINKAGE)
    return Appearance(
        mean=rounded(mean), deviation=rounded(deviation), whitening=[rounded(row) for row in whitening]
    )


def rounded(values: np.ndarray) -> list[float]:
    return [float(f"{value:.4g}") for value in values]


@torch.inference_mode()
def statistics_of(images: np.ndarray) -> np.ndarray:
    """Return the statistics of uint8 RGB images: (B, 3, rows, columns) -> (B, SIZE).

    In each cell, K values are computed: the mean of each colour axis, and for each scale the strength of the
        texture on each colour axis, its direction (two numbers) and the peakedness of its grey values. The
        statistics are the mean and the standard deviation of the K values over the cells.
    """
    resized = F.interpolate(
        torch.from_numpy(np.array(images, dtype=np.float32)),
        (SIDE, SIDE),
        mode="bilinear",
        antialias=True,
        align_corners=False,
    )
    colours = torch.einsum("kc,bchw->bkhw", COLOURS, resized)
    values = [_of_cells(colours) / 20]  # 20 grey levels: a deviation of natural size
    for _ in range(LEVELS):
        smooth = _smoothed(colours)
        values += _texture(colours - smooth, smooth[:, :1])
        colours = smooth[..., ::2, ::2]
    cells = torch.cat(values, 1).flatten(2)
    return torch.cat([cells.mean(2), cells.std(2, correction=0)], 1).double().numpy()


def _texture(band: Tensor, grey: Tensor) -> list[Tensor]:
    """Return six values of each cell at one scale, as (B, 3 + 2 + 1, CELLS, CELLS) in three parts.

    `band`: the image minus its smoothed copy, (B, 3, P, P); `grey`: the grey values of this copy,
    (B, 1, P, P)
    """
    power = _of_cells(band**2) + FLOOR**2
    down = (grey[..., 2:, :] - grey[..., :-2, :])[..., 1:-1]
    right = (grey[..., 2:] - grey[..., :-2])[..., 1:-1, :]
    rows, columns, both = _of_cells(down**2), _of_cells(right**2), _of_cells(down * right)
    total = rows + columns + 4 * FLOOR**2
    peakedness = (_of_cells(band[:, :1].abs()) + FLOOR) / power[:, :1].sqrt()
    return [power.log() / 2, (columns - rows) / total, 2 * both / total, peakedness.log()]


def _of_cells(values: Tensor) -> Tensor:
    return F.adaptive_avg_pool2d(values, (CELLS, CELLS))


def _smoothed(images: Tensor) -> Tensor:
    channels = images.shape[1]
    row = SMOOTHING.expand(channels, 1, 1, -1)
    padded = F.pad(images, (2, 2, 2, 2), mode="replicate")
    return F.conv2d(F.conv2d(padded, row, groups=channels), row.transpose(2, 3), groups=channels)
