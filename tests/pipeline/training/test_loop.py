"""The training loop: seeds, resuming after a kill, the kept snapshot, numbers that are not finite."""

import math
from copy import deepcopy
from dataclasses import replace

import pytest
import torch

from models.common.captioner import Captioner, Sizes
from pipeline.config import recipe_file
from pipeline.config.recipe_file import Recipe
from pipeline.datasets.schema import images_of, of_split
from pipeline.features.memory_cache import Resident
from pipeline.io.errors import InputError
from pipeline.training.loop import Training, seed_all
from pipeline.training.sampling import training_batches
from tests import killed
from tests.killed import KilledError
from tests.samplers import sampler_of

pytestmark = pytest.mark.slow

SIZES = {"width": 8, "heads": 2, "layers": 1, "decoder_layers": 1, "word_width": 4}
TRAIN = {"iterations": 12, "batch": 4, "references": 2, "learning_rate": 1e-2, "schedule": "constant"}
TRAIN |= {"validate_every": 4, "exchange": True, "precision": "float32", "compile": "off"}


def recipe(**changes):
    settings, loss = {"dropout": 0.1, "temperature": 0.5}, {"cv": 0.1, "cbr": 0.001}
    return Recipe("tabletop", "scorer_cbr", settings, SIZES, loss, {"train": TRAIN | changes}, {}, {})


def train(prepared, folder, seed=1, scores=(), killed_at=None, **changes):
    history, model = killed.train(prepared, folder, recipe(**changes), None, seed, scores, killed_at)
    return history, model.state_dict()


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize(("killed_at", "schedule"), [(1, "constant"), (2, "cosine"), (3, "cosine")])
def test_a_killed_run_gives_the_same_bits(prepared, tmp_path, killed_at, schedule):
    scores, chosen = [1.0, 3.0, 2.0], {"schedule": schedule}
    whole, weights = train(prepared, tmp_path / "whole", scores=scores, **chosen)
    with pytest.raises(KilledError):
        train(prepared, tmp_path / "killed", scores=scores, killed_at=killed_at, **chosen)
    resumed, again = train(prepared, tmp_path / "killed", scores=scores[killed_at - 1 :], **chosen)
    assert same(weights, again)
    assert same(whole.best, resumed.best)
    assert (whole.losses, whole.validation) == (resumed.losses, resumed.validation)
    assert whole.best_iteration == resumed.best_iteration == 8


def test_features_held_in_memory_give_the_same_bits(prepared, tmp_path):
    _, weights = train(prepared, tmp_path / "a")
    names = images_of(of_split(prepared.pairs, "train"))
    held = replace(prepared, store=Resident(prepared.store, names, torch.device("cpu")))
    _, again = train(held, tmp_path / "b")
    assert same(weights, again)


def test_the_best_snapshot_is_kept_and_of_equal_ones_the_earlier(prepared, tmp_path):
    history, weights = train(prepared, tmp_path, scores=[1.0, 2.0, 2.0])
    assert (history.best_iteration, history.best_score) == (8, 2.0)
    assert not same(history.best, weights)
    assert [row["iteration"] for row in history.validation] == [4, 8, 12]
    assert [row["iteration"] for row in history.losses] == [4, 8, 10, 12]


def test_frozen_parameters_stay_and_each_step_constrains_the_model(prepared, tmp_path, monkeypatch):
    constrained = []
    monkeypatch.setattr(Captioner, "constrain", lambda self: constrained.append(1))
    build = recipe_file.build

    def half_frozen(*given, **named):
        model = build(*given, **named)
        model.regularisers["cbr"].requires_grad_(False)
        return model

    monkeypatch.setattr(recipe_file, "build", half_frozen)
    _, start = train(prepared, tmp_path / "a", iterations=1, learning_rate=1e-30)
    _, end = train(prepared, tmp_path / "b")
    frozen = [name for name in start if name.startswith("regularisers.cbr")]
    assert frozen
    assert all(torch.equal(start[name], end[name]) for name in frozen)
    assert not torch.equal(start["encoding.project.weight"], end["encoding.project.weight"])
    assert len(constrained) == 1 + 12


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_is_named(prepared, tmp_path, monkeypatch, value):
    step = Training.step

    def broken(self, batch, iteration):
        terms = step(self, batch, iteration)
        if iteration == 5:
            terms[1] = value
        return terms

    monkeypatch.setattr(Training, "step", broken)
    with pytest.raises(InputError, match=rf"'cv' is {value} at iteration 6; .*train\.learning_rate"):
        train(prepared, tmp_path)


def test_weights_of_the_last_step_that_are_not_finite_are_named(prepared, tmp_path, monkeypatch):
    step = Training.step

    def spoilt(self, batch, iteration):
        terms = step(self, batch, iteration)
        if iteration == 11:
            with torch.no_grad():
                next(self.model.parameters())[0] = math.inf
        return terms

    monkeypatch.setattr(Training, "step", spoilt)
    for _ in range(2):  # the second run resumes from the validation before
        with pytest.raises(InputError, match=r"not finite after iteration 12; .*train\.learning_rate"):
            train(prepared, tmp_path)
    monkeypatch.setattr(Training, "step", step)
    assert train(prepared, tmp_path)[0].iteration == 12


def test_a_recipe_without_the_weight_of_a_loss_is_refused(prepared, tmp_path, monkeypatch):
    whole = recipe()
    monkeypatch.setitem(globals(), "recipe", lambda **_: replace(whole, loss={"cv": 0.1}))
    with pytest.raises(InputError, match="'cbr'"):
        train(prepared, tmp_path)


def test_the_loss_is_the_weighted_sum_of_the_means_over_parts(prepared, tmp_path):
    """Gradients equal those of a sum that is computed by hand."""
    # no dropout, as it would draw once for both parts
    chosen = replace(recipe(), settings={"dropout": 0.0, "temperature": 0.5})
    sampler = sampler_of(of_split(prepared.pairs, "train"), 4, 1, True)
    (batch,) = training_batches(sampler, prepared.store, prepared.vocabulary, range(1))
    seed_all(1, 0)
    model = recipe_file.build(
        chosen, Sizes(6, (3, 3), len(prepared.vocabulary), prepared.vocabulary.longest, **SIZES)
    )
    weights = deepcopy(model.state_dict())
    training = Training(model, chosen, 1, tmp_path / "state.pt", lambda _: 0.0)
    found = training.step(batch, 0)
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.load_state_dict(weights)
    seed_all(1, 0)
    model.zero_grad()
    images = batch.images.float()
    parts = [slice(0, 4), slice(4, 8)]
    losses = [model.losses(images[batch.before[p]], images[batch.after[p]], batch.tokens[p]) for p in parts]
    means = {name: (losses[0][name] + losses[1][name]) / 2 for name in losses[0]}
    (means["cap"] + 0.1 * means["cv"] + 0.001 * means["cbr"]).backward()
    torch.testing.assert_close(found, torch.stack(list(means.values())).detach())
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(gradients[name], parameter.grad)
