"""How the learning rate changes while a model is trained: a factor for each iteration."""

import math

WARM_UP = 100  # iterations of `cosine`
STEP_EPOCHS = 15  # of `step`: SCORER's released program
STEP_FACTOR = 0.1


def factor(schedule: str, iteration: int, iterations: int, epoch: int) -> float:
    """What the learning rate is multiplied by at an iteration, counted from 0.

    `constant`: 1 (SCORER section 4.3); `step`: times 0.1 every 15 epochs of `epoch` iterations (its
    released program); `cosine`: linear warm-up over 100 iterations (a tenth of a shorter run), then
    half a cosine down to 0 after the last of `iterations` (Loshchilov and Hutter, 2017).
    """
    if schedule == "constant":
        return 1.0
    if schedule == "step":
        return STEP_FACTOR ** (iteration // (STEP_EPOCHS * epoch))
    warm_up = min(WARM_UP, iterations // 10)
    if iteration < warm_up:
        return (iteration + 1) / warm_up
    return (1 + math.cos(math.pi * (iteration - warm_up) / (iterations - warm_up))) / 2
