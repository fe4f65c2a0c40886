"""The probability that a caption is correct, fitted to captions that are known to be correct or wrong.

The inputs are the signals of a caption (signals.py). Two logistic regressions with a ridge penalty
compute a logit: one for captions that report a change, and one for captions that report no change. An
isotonic regression then maps the logit to the probability, if this lowers the cross-validated log-loss
(Zadrozny and Elkan, 2002). For another kind of images, only a slope and a shift of the logit are fitted
again. A few labelled pairs suffice for this (Platt, 1999).

P: captions; S: signals.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, FiniteFloat

from pipeline.config.dataset_params import Strict

RIDGE = 1.0  # penalty of the squared weights of standardised signals
FOLDS = 5
SLOPE = 1.0  # prior standard deviation of a refitted slope and shift
Method = Literal["logistic", "isotonic"]
Numbers = list[FiniteFloat]
Unit = Annotated[float, Field(ge=0, le=1)]


def sigmoid(z: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(-z)), also for large |z|. Importing scipy's expit takes a quarter of a second."""
    return np.exp(-np.logaddexp(0, -z))


class Logistic(Strict):
    """A logistic regression. Its logit is weights @ ((signals - mean) / deviation) + shift."""

    mean: Numbers
    deviation: Numbers
    weights: Numbers
    shift: FiniteFloat

    def logits(self, signals: np.ndarray) -> np.ndarray:
        """Return the logits of P captions, (P,), from their S signals, (P, S)."""
        standard = (signals - np.array(self.mean)) / np.array(self.deviation)
        return standard @ np.array(self.weights) + self.shift


class Steps(Strict):
    """An isotonic regression: probabilities at increasing logits, with linear interpolation between them."""

    logits: Numbers
    probabilities: list[Unit]


class Probability(Strict):
    """The fitted probability that a caption is correct.

    A logistic regression gives a logit z: `change` for captions that report a change, else `no_change`.
    The probability is sigmoid(slope * z + shift). With `steps`, an isotonic regression, the probability
    is the value of `steps` at z; then `slope` and `shift` are not used.
    """

    change: Logistic  # captions that report a change
    no_change: Logistic
    steps: Steps | None = None
    slope: FiniteFloat = 1.0  # factor of the logit, from a refit to other images
    shift: FiniteFloat = 0.0  # added to the logit, from the same refit

    def __call__(self, signals: np.ndarray, reports_change: np.ndarray) -> np.ndarray:
        """Return the probability that each caption is correct: signals (P, S), bool (P,) -> (P,)."""
        logits = self.logits(signals, reports_change)
        if self.steps is None:
            return sigmoid(self.slope * logits + self.shift)
        return np.interp(logits, self.steps.logits, self.steps.probabilities)

    def logits(self, signals: np.ndarray, reports_change: np.ndarray) -> np.ndarray:
        """Return the regressions' logits, (P,), without the corrections `slope`, `shift` and `steps`."""
        return np.where(reports_change, self.change.logits(signals), self.no_change.logits(signals))


@dataclass(frozen=True)
class Fitted:
    """The fitted probability, the chosen method, and the cross-validated log-loss of each method.

    The methods are "logistic" and "isotonic" (see the function `fit`).
    """

    probability: Probability
    method: Method
    losses: dict[Method, float]


def fit(
    signals: np.ndarray, reports_change: np.ndarray, correct: np.ndarray, scenes: Sequence[str]
) -> Fitted:
    """Fit the probability that a caption is correct to the signals, (P, S), of captions of these scenes.

    One logistic regression is fitted to captions that report a change, and one to the others. An isotonic
    regression of their logits follows if this lowers the log-loss in a cross-validation, whose folds hold out
    scenes. Raises ValueError if there are fewer scenes than FOLDS.
    """
    folds = _folds(scenes)
    held_out = np.zeros(len(signals))
    for fold in folds:
        regressions = _logistics(signals[fold], reports_change[fold], correct[fold])
        held_out[~fold] = regressions.logits(signals[~fold], reports_change[~fold])
    stepped = np.zeros(len(signals))
    for fold in folds:
        steps = _steps(held_out[fold], correct[fold])
        stepped[~fold] = np.interp(held_out[~fold], steps.logits, steps.probabilities)
    losses: dict[Method, float] = {
        "logistic": log_loss(sigmoid(held_out), correct),
        "isotonic": log_loss(stepped, correct),
    }
    method = min(losses, key=losses.__getitem__)
    probability = _logistics(signals, reports_change, correct)
    if method == "isotonic":
        probability = probability.model_copy(update={"steps": _steps(held_out, correct)})
    return Fitted(probability, method, losses)


def refit(
    fitted: Probability, signals: np.ndarray, reports_change: np.ndarray, correct: np.ndarray
) -> Probability:
    """Adapt a probability to P captions of other images, by a slope and a shift of the logit.

    Only the logistic regression of `fitted` is adapted. Slope and shift have normal priors with the means 1
    and 0 and the standard deviation SLOPE, which limit the effect of a few pairs.
    """
    from scipy.optimize import minimize

    logits, target = fitted.logits(signals, reports_change), correct.astype(float)

    def loss(values: np.ndarray) -> float:
        z = values[0] * logits + values[1]
        prior = ((values - [1.0, 0.0]) ** 2).sum() / (2 * SLOPE**2)
        return float(np.logaddexp(0, z).sum() - target @ z + prior)

    slope, shift = minimize(loss, np.array([1.0, 0.0]), method="L-BFGS-B", bounds=[(0, None), (None, None)]).x
    return fitted.model_copy(update={"steps": None, "slope": float(slope), "shift": float(shift)})


def held_out_refits(
    fitted: Probability,
    signals: np.ndarray,
    reports_change: np.ndarray,
    correct: np.ndarray,
    scenes: Sequence[str],
) -> np.ndarray:
    """Return each caption's probability, (P,), `fitted` to the other folds; a scene is in one fold."""
    probabilities = np.zeros(len(signals))
    for fold in _folds(scenes):
        refitted = refit(fitted, signals[fold], reports_change[fold], correct[fold])
        probabilities[~fold] = refitted(signals[~fold], reports_change[~fold])
    return probabilities


def log_loss(probabilities: np.ndarray, correct: np.ndarray) -> float:
    """Return the mean negative log-likelihood. Probabilities are clipped to the range 1e-3 to 1 - 1e-3."""
    p = np.clip(probabilities, 1e-3, 1 - 1e-3)
    return float(-np.where(correct, np.log(p), np.log1p(-p)).mean())


def _folds(scenes: Sequence[str]) -> list[np.ndarray]:
    """Return a mask (P,) for each fold, False for its held-out scenes; ValueError for few scenes."""
    numbers = {scene: number for number, scene in enumerate(dict.fromkeys(scenes))}
    if len(numbers) < FOLDS:
        raise ValueError(f"{len(numbers)} scenes are fewer than {FOLDS}")
    folds = np.array([numbers[scene] % FOLDS for scene in scenes])
    return [folds != fold for fold in range(FOLDS)]


def _logistics(signals: np.ndarray, reports_change: np.ndarray, correct: np.ndarray) -> Probability:
    groups = (reports_change, ~reports_change)
    change, no_change = (_logistic(signals[group], correct[group]) for group in groups)
    return Probability(change=change, no_change=no_change)


def _logistic(signals: np.ndarray, correct: np.ndarray) -> Logistic:
    """Fit a logistic regression to these captions and to a correct and a wrong one with mean signals."""
    from scipy.optimize import minimize

    count, S = signals.shape
    mean = signals.mean(0) if count else np.zeros(S)
    deviation = signals.std(0) if count else np.ones(S)
    deviation = np.where(deviation > 1e-6, deviation, 1.0)
    rows = np.vstack([(signals - mean) / deviation, np.zeros((2, S))])
    rows = np.hstack([rows, np.ones((len(rows), 1))])
    target = np.concatenate([correct, [True, False]]).astype(float)
    penalty = RIDGE * np.append(np.ones(S), 0)

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        z = rows @ w
        value = np.logaddexp(0, z).sum() - target @ z + (penalty * w**2).sum() / 2
        return float(value), rows.T @ (sigmoid(z) - target) + penalty * w

    w: Any = minimize(loss, np.zeros(S + 1), jac=True, method="L-BFGS-B", options={"maxiter": 1000}).x
    return Logistic(
        mean=mean.tolist(), deviation=deviation.tolist(), weights=w[:-1].tolist(), shift=float(w[-1])
    )


def _steps(logits: np.ndarray, correct: np.ndarray) -> Steps:
    """Fit an isotonic regression to n captions, clipped to the range from 1 / (2n) to 1 - 1 / (2n)."""
    from scipy.optimize import isotonic_regression

    order = np.argsort(logits, kind="stable")
    regression = isotonic_regression(correct[order].astype(float))
    least = 0.5 / len(order)
    probabilities = np.clip(regression.x, least, 1 - least)
    blocks = list(pairwise(regression.blocks.tolist()))
    centres = [float(logits[order][start:end].mean()) for start, end in blocks]
    return Steps(logits=centres, probabilities=[float(probabilities[start]) for start, _ in blocks])
