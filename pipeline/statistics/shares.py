"""Shares of captions with 95 % intervals. Scenes are resampled, because the pairs of a scene are alike."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.statistics.bootstrap import draws

RESAMPLES, SEED = 2000, 0


@dataclass(frozen=True)
class Share:
    """Share of captions with its 95 % interval, and the number of all captions."""

    value: float
    low: float
    high: float
    number: int

    @property
    def interval(self) -> str:
        """Bounds of the interval in percent."""
        return f"({100 * self.low:.0f} to {100 * self.high:.0f})"


def share(values: Sequence[bool], scenes: Sequence[str]) -> Share:
    """Return the share of True with its interval. Whole scenes, with all their captions, are resampled."""
    names = {scene: place for place, scene in enumerate(dict.fromkeys(scenes))}
    rows = [names[scene] for scene in scenes]
    sums = np.bincount(rows, weights=np.array(values, dtype=float), minlength=len(names))
    sizes = np.bincount(rows, minlength=len(names)).astype(float)
    drawn = np.concatenate(
        [(counts @ sums) / (counts @ sizes) for counts in draws(len(names), RESAMPLES, SEED)]
    )
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Share(float(np.mean(values)), float(low), float(high), len(values))
