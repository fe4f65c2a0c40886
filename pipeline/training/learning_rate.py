"""How the learning rate changes while a model is trained: a factor for each iteration."""

import math
from collections.abc import Sequence

WARM_UP = 100  # iterations of `cosine`
STEP_EPOCHS = 15  # of `step` and `step_early`: the released programs
STEP_FACTOR = 0.1
WARM = 0.1  # of the run, in `warmup_cosine` and `warmup_linear`
NOAM_FIRST = 1e-4  # of `noam`, before any step
FALLS = {"halves": 0.5, "tenths": 0.1}  # at each milestone


def factor(
    schedule: str,
    iteration: int,
    iterations: int,
    epoch: int,
    warm_up: int | None = None,
    milestones: Sequence[int] = (),
) -> float:
    """What the learning rate is multiplied by at an iteration, counted from 0.

    `constant`: 1 (SCORER section 4.3); `step`: times 0.1 every 15 epochs of `epoch` iterations (its
    released program); `step_early`: the same an epoch earlier, after 14, 29, ... (DUDA's and VARD's: counted
    up where an epoch begins); `cosine`: linear warm-up over 100 iterations (a tenth of a shorter run), then
    half a cosine down to 0 after the last of `iterations` (Loshchilov and Hutter, 2017).
    With x the share of the run that is done, 0 at the first iteration: `warmup_cosine` and `warmup_linear`
    are x/0.1 below 0.1, then (1 + cos pi x)/2, and (1-x)/0.9 (CLIP4IDC's released program).
    `noam`: min(s/w, sqrt(w/s)) after s steps, w the `warm_up`; `halves`: halved at each of the
    `milestones` (both IDC-PCL's); `tenths`: times 0.1 at each (CARD's released program).
    """
    if schedule == "constant":
        return 1.0
    if schedule == "step":
        return STEP_FACTOR ** (iteration // (STEP_EPOCHS * epoch))
    if schedule == "step_early":
        return STEP_FACTOR ** ((iteration // epoch + 1) // STEP_EPOCHS)
    if schedule in ("warmup_cosine", "warmup_linear"):
        x = iteration / iterations
        after = (1 + math.cos(math.pi * x)) / 2 if schedule == "warmup_cosine" else (1 - x) / (1 - WARM)
        return x / WARM if x < WARM else after
    if schedule == "noam":
        assert warm_up is not None  # params.yaml is refused without it
        return min(iteration / warm_up, math.sqrt(warm_up / iteration)) if iteration else NOAM_FIRST
    if schedule in FALLS:
        return FALLS[schedule] ** sum(iteration >= each for each in milestones)
    warm = min(WARM_UP, iterations // 10)
    if iteration < warm:
        return (iteration + 1) / warm
    return (1 + math.cos(math.pi * (iteration - warm) / (iterations - warm))) / 2
