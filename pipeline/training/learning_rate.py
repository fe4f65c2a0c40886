"""Learning rate schedules, which give the factor of the learning rate at each iteration."""

import math
from collections.abc import Mapping
from typing import Any

WARM_UP = 100  # iterations of warm-up of the schedule `cosine`
STEP_EPOCHS = 15  # epochs between steps of `step` and `step_early`, as in the released programs
STEP_FACTOR = 0.1
WARM = 0.1  # share of the iterations that is warm-up, in `warmup_cosine` and `warmup_linear`
NOAM_FIRST = 1e-4  # factor of `noam` at iteration 0
FALLS = {"halves": 0.5, "tenths": 0.1}  # schedule -> factor at each milestone


def factor(settings: Mapping[str, Any], iteration: int, epoch: int) -> float:
    """Return the factor of the learning rate at an iteration; iterations are counted from 0.

    settings: settings of the training phase; `iterations` is the number of all iterations
    epoch: number of iterations of an epoch

    The setting `schedule` is one of:

    constant: 1 (SCORER, section 4.3)
    step: multiplied by 0.1 after every 15 epochs (SCORER's released program)
    step_early: multiplied by 0.1 one epoch earlier than in `step`, after 14, 29, ... epochs (released
        programs of DUDA and VARD, which count an epoch when it begins)
    cosine: linear warm-up over 100 iterations (or a tenth of the run, if that is shorter), then half a
        cosine, which reaches 0 after the last iteration (Loshchilov and Hutter, 2017)
    warmup_cosine, warmup_linear: x/0.1 while x < 0.1, then (1 + cos pi x)/2 or (1-x)/0.9, where
        x = iteration / iterations (CLIP4IDC's released program)
    noam: min(s/w, sqrt(w/s)) after s iterations, with w = `warm_up` (IDC-PCL)
    halves: multiplied by 0.5 at each of the iterations `milestones` (IDC-PCL)
    tenths: multiplied by 0.1 at each of the iterations `milestones` (CARD's released program)
    """
    schedule: str = settings["schedule"]
    iterations: int = settings["iterations"]
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
        warm_up: int = settings["warm_up"]
        return min(iteration / warm_up, math.sqrt(warm_up / iteration)) if iteration else NOAM_FIRST
    if schedule in FALLS:
        return FALLS[schedule] ** sum(iteration >= milestone for milestone in settings["milestones"])
    warm = min(WARM_UP, iterations // 10)
    if iteration < warm:
        return (iteration + 1) / warm
    return (1 + math.cos(math.pi * (iteration - warm) / (iterations - warm))) / 2
