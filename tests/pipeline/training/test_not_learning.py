"""The warning of a training that does not learn."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch

from models.kernels.matching import Contrast
from pipeline.training import not_learning, phases
from pipeline.training.not_learning import SHARE, sign
from pipeline.training.validation import Validation
from tests.killed import train
from tests.pipeline.training.test_loop import recipe

CHANCE = {"cv": math.log(16)}


def rows(*values):
    return [{"iteration": 10 * (number + 1), "cv": value} for number, value in enumerate(values)]


@pytest.mark.parametrize(("distinct", "expected"), [(1, True), (2, False), (None, False)])
def test_one_caption_for_all_pairs_is_a_sign(distinct, expected):
    assert (sign(100, 200, rows(*[0.1] * 10), distinct, {}) is not None) == expected
    assert sign(math.ceil(200 * SHARE) - 1, 200, rows(0.1), distinct, {}) is None  # too early to tell


@pytest.mark.parametrize(("last", "expected"), [(math.log(16), True), (15.0, True), (2.7, False)])
def test_a_contrast_at_chance_is_a_sign_and_its_earlier_losses_are_none(last, expected):
    found = sign(100, 200, rows(*[0.1] * 8, last, last), 5, CHANCE)
    assert (found is not None and "'cv'" in found) == expected
    assert sign(100, 200, rows(*[15.0] * 8, 0.1, 0.1), 5, CHANCE) is None
    assert sign(60, 200, rows(*[15.0] * 6), 5, CHANCE) is None


def test_chance_is_the_loss_of_equal_similarities():
    contrast = Contrast(0.5, False)
    same = torch.ones(7, 7)
    loss = contrast(same, same).item()

    class Term(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.contrast = contrast

    assert not_learning.chances({"cv": Term(), "other": torch.nn.Identity()}) == pytest.approx({"cv": loss})


def test_a_training_warns_once(prepared, tmp_path, capsys):
    """With a rate of almost 0 the model keeps its first weights, which write one caption for every pair."""
    still = recipe(iterations=6, validate_every=1, learning_rate=1e-30)
    phase = replace(phases.phase_of(still), validation=partial(Validation, tokenize=list))
    train(prepared, tmp_path, still, phase, own=True)
    said = capsys.readouterr().err
    assert said.count("warning") == 1
    assert "6 iterations" in said


def test_a_healthy_training_does_not_warn(prepared, tmp_path, capsys):
    """Scores of a healthy run: its contrast falls, and its captions differ."""
    healthy = recipe(iterations=30, validate_every=30)
    phase = replace(phases.phase_of(healthy), log_every=1)
    history, _ = train(prepared, tmp_path, healthy, phase)
    assert history.losses[-1]["cv"] < history.losses[0]["cv"]
    assert "warning" not in capsys.readouterr().err
