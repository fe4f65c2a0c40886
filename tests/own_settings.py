"""Settings of any model, without naming it."""

import inspect

from models import MODELS, SIZES

GRID_MODELS = [name for name in MODELS if name not in SIZES]  # SCORER's, DIRL's and their baselines
VALUES = {"dropout": 0.0, "temperature": 0.5, "alpha": 0.003}


def settings_of(name, **values):
    """Those of the values (VALUES where not given) that the model takes."""
    wanted = inspect.signature(MODELS[name]).parameters
    return {key: value for key, value in (VALUES | values).items() if key in wanted}
