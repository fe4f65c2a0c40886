"""Recognise pairs that the model was not trained for, by three distances: `unlike`, `appearance`, `scenes`.

`unlike` is the distance of a pair's features from the training images. Each channel of a feature grid is
averaged over the cells and standardised. The distance of an image is the root mean square over the channels:
a Mahalanobis distance with a diagonal covariance. `appearance` is the distance of a pair's colours and
textures from the training images (appearance.py). For both, the larger distance of the two images counts.

`scenes` is the distance between the two images of a pair. If the camera moves or one object changes, most
cells stay similar. If the images show different scenes, most cells differ.

B: pairs; C: channels; H, W: rows and columns of the grid.
"""

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field, FiniteFloat
from torch import Tensor

from pipeline.confidence import appearance
from pipeline.confidence.appearance import Appearance, rounded
from pipeline.confidence.probability import sigmoid
from pipeline.config.dataset_params import Strict

QUARTILE = 0.75
REFUSED = 0.0025  # share of validation pairs beyond each of the three thresholds
MARGINS = np.array([1.2, 1.0, 1.05])
"""Factors of the three thresholds, because the maximum of a few hundred validation pairs is too small.

The threshold `appearance` has its own margin (see `with_fall`).
"""
WIDEST = 1.5  # maximum factor by which `with_fall` raises the threshold `appearance`
FAMILIAR = 0.9  # share of familiar pairs in the collection to which the probability of a Fall belongs
LEAST = 1e-3  # minimum standard deviation of a channel
RIDGE = 0.1  # penalty of the squared slope of a Fall
DISTANCES = ("unlike", "appearance", "scenes")
"""Names of the distances. The thresholds in Familiarity have the same names."""
UNLIKE = "these images are unlike those the model was trained on"
OTHER_SCENE = "the two images do not show the same scene"


class Fall(Strict):
    """Logistic regression: the probability that a pair is familiar, which falls with its appearance.

    The probability is sigmoid(shift - slope * x), where x is the logarithm of the distance `appearance`
    divided by its threshold.
    """

    shift: FiniteFloat = 0.0
    slope: FiniteFloat = Field(default=0.0, ge=0)


class Familiarity(Strict):
    """Statistics and thresholds that refuse pairs for which the model was not trained.

    `mean` and `deviation` are of the channels of the training images' feature grids, and `statistics` are of
    their pixels. A pair is refused if one of its distances is above the threshold with the same name (see
    the module).
    """

    mean: list[FiniteFloat]  # C values
    deviation: list[FiniteFloat]  # C values
    statistics: Appearance
    unlike: FiniteFloat  # largest accepted distance
    appearance: FiniteFloat  # largest accepted distance
    scenes: FiniteFloat  # largest accepted distance
    fall: Fall = Fall(shift=30.0)

    def distances(
        self, before: Tensor, after: Tensor, before_statistics: np.ndarray, after_statistics: np.ndarray
    ) -> np.ndarray:
        """Return three distances of each pair, in the order of DISTANCES, (B, 3).

        before, after: feature grids of the images, (B, C, H, W); their statistics: (B, SIZE), by
            appearance.statistics_of
        """
        mean, deviation = np.array(self.mean), np.array(self.deviation)
        standardised = [(pooled(grids) - mean) / deviation for grids in (before, after)]
        unlike = np.sqrt(np.maximum(*((channels**2).mean(1) for channels in standardised)))
        appearances = np.maximum(
            *(self.statistics.distance(values) for values in (before_statistics, after_statistics))
        )
        return np.stack([unlike, appearances, scenes_apart(before, after)], 1)

    def reason(self, distances: np.ndarray) -> str | None:
        """Return why a pair with these DISTANCES is refused (one is above its threshold), or None."""
        unlike, appearance_distance, scenes = distances
        # NaN is refused, too
        if not (unlike <= self.unlike and appearance_distance <= self.appearance):
            return UNLIKE
        return None if scenes <= self.scenes else OTHER_SCENE

    def probability(self, distances: np.ndarray) -> np.ndarray:
        """Return each pair's probability of being familiar, (B, 3) -> (B,); a priori it is FAMILIAR."""
        return sigmoid(self.fall.shift - self.fall.slope * self._relative(distances[:, 1]))

    def with_fall(self, familiar: np.ndarray, foreign: np.ndarray) -> "Familiarity":
        """Return a copy whose `fall` is fitted to the appearance distances of both groups, (images,) each.

        The groups have the same weight, and the slope has a ridge penalty. The threshold `appearance` is
        raised, by at most WIDEST, to the distance at which an image is as probably familiar as foreign. Then
        the shift is corrected for the share FAMILIAR.
        """
        from scipy.optimize import minimize

        x = self._relative(np.concatenate([familiar, foreign]))
        is_familiar = np.arange(len(x)) < len(familiar)
        weights = np.where(is_familiar, 1 / len(familiar), 1 / len(foreign)) * len(x) / 2

        def loss(values: np.ndarray) -> float:
            z = values[0] - values[1] * x
            return float(weights @ (np.logaddexp(0, z) - is_familiar * z) + RIDGE * values[1] ** 2 / 2)

        shift, slope = minimize(loss, np.zeros(2), method="L-BFGS-B", bounds=[(None, None), (0, None)]).x
        wider = float(np.clip(shift / max(slope, 1e-9), 0, np.log(WIDEST)))
        prior = np.log(FAMILIAR / (1 - FAMILIAR))
        fall = Fall(shift=float(shift - slope * wider + prior), slope=float(slope))
        return self.model_copy(update={"fall": fall, "appearance": self.appearance * float(np.exp(wider))})

    def _relative(self, appearances: np.ndarray) -> np.ndarray:
        return np.log(np.maximum(appearances, 1e-9) / self.appearance)


def fitted(channels: np.ndarray, statistics: np.ndarray) -> Familiarity:
    """Return a Familiarity that knows the training images, but refuses none: (images, C), (images, SIZE).

    The function with_thresholds and the method `with_fall` set useful thresholds and probabilities.
    """
    deviation = np.maximum(channels.std(0), LEAST)
    return Familiarity(
        mean=rounded(channels.mean(0)),
        deviation=rounded(deviation),
        statistics=appearance.fitted(statistics),
        unlike=1e9,
        appearance=1e9,
        scenes=2.0,
    )


def with_thresholds(familiar: Familiarity, distances: np.ndarray) -> Familiarity:
    """Return a copy whose thresholds each refuse at most the share REFUSED of the distances, (B, 3)."""
    thresholds = MARGINS * np.quantile(distances, 1 - REFUSED, axis=0, method="higher")
    return familiar.model_copy(update=dict(zip(DISTANCES, thresholds.tolist(), strict=True)))


def pooled(grids: Tensor) -> np.ndarray:
    return grids.float().mean((2, 3)).cpu().numpy()


def scenes_apart(before: Tensor, after: Tensor) -> np.ndarray:
    """Return the upper quartile over cells of the images' cosine distance: (B, C, H, W) each -> (B,)."""
    cosine = F.cosine_similarity(before.float().flatten(2), after.float().flatten(2), dim=1)
    return torch.quantile(1 - cosine, QUARTILE, dim=1).cpu().numpy()
