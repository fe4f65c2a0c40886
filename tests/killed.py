"""Trainings that are killed in this process: at a validation, or after the first state that they save."""

from contextlib import contextmanager
from unittest.mock import patch

import pytest

from pipeline.training import resuming


class KilledError(BaseException):
    pass


def validation(scores=None, killed_at=None, own=None):
    """What gives `scores` in turn, else what `own` gives, else 0; at that call it is a kill."""
    calls = []

    def validate(model):
        calls.append(model)
        if killed_at == len(calls):
            raise KilledError
        if scores:
            return scores[len(calls) - 1]
        return own(model) if own else 0.0

    return validate


@contextmanager
def at_the_first_state():
    """The training within it is killed as soon as it has saved one."""
    save = resuming.save

    def dying(*given):
        save(*given)
        raise KilledError

    with patch.object(resuming, "save", dying), pytest.raises(KilledError):
        yield
