"""Small trainings in this process, which may be killed in a validation or after the first saved state."""

from contextlib import contextmanager
from unittest.mock import patch

import pytest

from pipeline.compute import devices
from pipeline.datasets.schema import of_split
from pipeline.training import phases, resuming
from pipeline.training.loop import Training, seed_all


class KilledError(BaseException):
    pass


def train(data, folder, recipe, phase=None, seed=1, scores=(), killed_at=None, own=False):
    """Train a phase of a recipe (None: captioning); return the history and the model.

    data: pairs, store and vocabulary, as the fixture `prepared`
    scores: results of the validations (else 0); with `own`, the phase's own validation computes them
    killed_at: number of the validation in which the training is killed
    """
    devices.repeatable()
    phase = phase or phases.phase_of(recipe, phases.PhaseInputs(tokens="plain"))
    vocabulary, calls = phase.cut(data.vocabulary), []
    seed_all(seed, 0)
    model = phase.make(data.store.shape, vocabulary)
    scored = phase.validation(of_split(data.pairs, "val"), data.store, vocabulary) if own else None

    def validate(model):
        calls.append(model)
        if killed_at == len(calls):
            raise KilledError
        if scored:
            return scored(model)
        return scores[len(calls) - 1] if scores else 0.0

    objective = phase.objective and phase.objective(of_split(data.pairs, "train"), vocabulary)
    state = folder / "state.pt"
    training = Training(model, recipe, seed, state, validate, phase=phase, objective=objective)
    return training.run(phase.sampler(data.pairs, seed), data.store, vocabulary), model


@contextmanager
def at_the_first_state():
    """Kill the training in the `with` block after its first saved state."""
    save = resuming.save

    def dying(*given):
        save(*given)
        raise KilledError

    with patch.object(resuming, "save", dying), pytest.raises(KilledError):
        yield
