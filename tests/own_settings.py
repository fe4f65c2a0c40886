"""Settings for tests of all models."""

import inspect

from models import MODELS
from pipeline.training import phases
from pipeline.training.phases import PhaseInputs

# models of SCORER and DIRL, and their baselines
GRID_MODELS = [name for name, entry in MODELS.items() if entry.family is None]
# tensors without a gradient, because a subtraction cancels them
CANCELLED = {"subtraction": {"encoding.project.bias", "encoding.column.weight", "encoding.row.weight"}}
LEARNS = f"no gradient reaches these: if none is to, enter them in CANCELLED of {__file__}"
VALUES = {"dropout": 0.0, "temperature": 0.5, "alpha": 0.003}


class Noted:
    """Switches that record in `names` which switches are read."""

    def __init__(self, switches, names=None):
        self._switches, self.names = switches, set() if names is None else names

    def __getattr__(self, name):
        self.names.add(name)
        return getattr(self._switches, name)


def unlearnt(model):
    """Return the tensors without a gradient, except biases of keys, which change no attention."""
    without = {n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum()}
    return {name for name in without if not name.endswith("key.bias")}


def settings_of(name, **values):
    """Return the settings that a model takes, from `values` or VALUES."""
    wanted = inspect.signature(MODELS[name].build).parameters
    return {key: value for key, value in (VALUES | values).items() if key in wanted}


def pretraining_phase(recipe, negatives=None, start=None, name=None):
    """Return a pre-training phase of a recipe: the last, or the phase with this name."""
    own = recipe.until(name) if name else recipe.pretraining
    return phases.phase_of(own, PhaseInputs(start, negatives=negatives or {}))


def captioning(recipe, start=None, tokens="ptb"):
    """Return the phase `train` of a recipe."""
    return phases.phase_of(recipe.until("train"), PhaseInputs(start, tokens))
