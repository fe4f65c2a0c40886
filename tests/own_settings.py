"""Settings of any model, without naming it."""

import inspect

from models import INPUTS, MODELS

GRID_MODELS = [name for name in MODELS if name not in INPUTS]  # those that read the backbone's features
VALUES = {"dropout": 0.0, "temperature": 0.5, "alpha": 0.003}


def settings_of(name, **values):
    """Those of the values (VALUES where not given) that the model takes."""
    wanted = inspect.signature(MODELS[name]).parameters
    return {key: value for key, value in (VALUES | values).items() if key in wanted}
