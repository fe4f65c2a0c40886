"""Settings of any model, without naming it."""

import inspect

from models import MODELS
from pipeline.training import phases
from pipeline.training.phases import Beside

# SCORER's, DIRL's and their baselines
GRID_MODELS = [name for name, entry in MODELS.items() if entry.own is None]
# what both images have alike is gone after a subtraction
CANCELLED = {"subtraction": {"encoding.project.bias", "encoding.column.weight", "encoding.row.weight"}}
LEARNS = f"no gradient reaches these: if none is to, enter them in CANCELLED of {__file__}"
VALUES = {"dropout": 0.0, "temperature": 0.5, "alpha": 0.003}


class Noted:
    """Switches that note in `names` which of them are read."""

    def __init__(self, switches, names=None):
        self._switches, self.names = switches, set() if names is None else names

    def __getattr__(self, name):
        self.names.add(name)
        return getattr(self._switches, name)


def unlearnt(model):
    """What gets no gradient, but for a bias of every key: it shifts all scores of a query alike."""
    without = {n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum()}
    return {name for name in without if not name.endswith("key.bias")}


def settings_of(name, **values):
    """Those of the values (VALUES where not given) that the model takes."""
    wanted = inspect.signature(MODELS[name].build).parameters
    return {key: value for key, value in (VALUES | values).items() if key in wanted}


def phase_before(recipe, negatives=None, weights=None, number=-1):
    """One of a recipe's phases before captioning: the last one, or the one of that number."""
    return phases.before(recipe, recipe.before[number], Beside(negatives or {}, weights=weights))
