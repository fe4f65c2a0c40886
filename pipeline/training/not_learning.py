"""Signs that a training does not learn, so that a long run can be stopped early.

Two signs are read at each validation after a third of the iterations (docs/methods.md, "A run that
does not learn").
On `tabletop_extreme`, SCORER is at chance during the first quarter of its iterations, and learns later.
"""

import math
from collections.abc import Mapping, Sequence

from torch import nn

from models.kernels.matching import Contrast

SHARE = 1 / 3  # share of the iterations after which the signs are read
RECENT = 0.1  # share of the iterations over which the mean of a contrast's loss is taken
HELP = 'docs/methods.md says what to do ("A run that does not learn")'


def sign(
    iteration: int,
    iterations: int,
    losses: Sequence[Mapping[str, float]],
    distinct: float | None,
    chances: Mapping[str, float],
) -> str | None:
    """Return one sentence that says why the training does not seem to learn, or None.

    losses: rows of the learning curve so far, loss term -> mean, with the key `iteration`
    distinct: number of different captions of the validation pairs; None if captions are not validated
    chances: contrastive loss term -> its value for a model that cannot tell the right item from the others
    """
    if iteration < SHARE * iterations:
        return None
    done = f"after {iteration} of {iterations} iterations"
    if distinct == 1:
        return f"{done}, all validation pairs have the same caption"
    recent = [row for row in losses if row["iteration"] > iteration - RECENT * iterations] or losses[-1:]
    for term, chance in chances.items():
        mean = sum(row[term] for row in recent) / len(recent)
        if mean >= chance:
            return f"{done}, the contrast {term!r} has a loss of {mean:.2f}; chance is {chance:.2f}"
    return None


def chances(regularisers: Mapping[str, nn.Module]) -> dict[str, float]:
    """Return contrastive loss term -> its loss at chance, log(number of items), from the last batch."""
    contrasts = {name: getattr(module, "contrast", None) for name, module in regularisers.items()}
    return {
        name: math.log(contrast.items)
        for name, contrast in contrasts.items()
        if isinstance(contrast, Contrast) and contrast.items > 1
    }
