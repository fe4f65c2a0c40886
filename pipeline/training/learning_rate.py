"""How the learning rate changes while a model is trained: a factor for each iteration."""

import math

WARM_UP = 100  # iterations of `cosine`
STEP_EPOCHS = 15  # of `step`: SCORER's released program
STEP_FACTOR = 0.1
WARM = 0.1  # of the run, in `warmup_cosine` and `warmup_linear`


def factor(schedule: str, iteration: int, iterations: int, epoch: int) -> float:
    """What the learning rate is multiplied by at an iteration, counted from 0.

    `constant`: 1 (SCORER section 4.3); `step`: times 0.1 every 15 epochs of `epoch` iterations (its
    released program); `cosine`: linear warm-up over 100 iterations (a tenth of a shorter run), then
    half a cosine down to 0 after the last of `iterations` (Loshchilov and Hutter, 2017).
    With x the share of the run that is done, 0 at the first iteration: `warmup_cosine` and `warmup_linear`
    are x/0.1 below 0.1, then (1 + cos pi x)/2, and (1-x)/0.9 (CLIP4IDC's released program).
    """
    if schedule == "constant":
        return 1.0
    if schedule == "step":
        return STEP_FACTOR ** (iteration // (STEP_EPOCHS * epoch))
    if schedule in ("warmup_cosine", "warmup_linear"):
        x = iteration / iterations
        after = (1 + math.cos(math.pi * x)) / 2 if schedule == "warmup_cosine" else (1 - x) / (1 - WARM)
        return x / WARM if x < WARM else after
    warm_up = min(WARM_UP, iterations // 10)
    if iteration < warm_up:
        return (iteration + 1) / warm_up
    return (1 + math.cos(math.pi * (iteration - warm_up) / (iterations - warm_up))) / 2
