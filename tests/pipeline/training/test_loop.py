"""The training loop: resumes bit for bit, another seed differs, the best snapshot is kept, NaN is named."""

import math
from dataclasses import replace

import pytest
import torch

from models.common.captioner import Captioner, Sizes
from pipeline.compute import devices
from pipeline.config import recipe_file
from pipeline.config.recipe_file import Recipe
from pipeline.datasets.schema import images_of, of_split
from pipeline.features.memory_cache import Resident
from pipeline.io.errors import InputError
from pipeline.training.loop import Training, seed_all
from pipeline.training.sampling import Sampler, training_batches
from tests.killed import KilledError, validation

pytestmark = pytest.mark.slow

SIZES = {"width": 8, "heads": 2, "layers": 1, "decoder_layers": 1, "word_width": 4}
TRAIN = {
    "iterations": 12,
    "batch": 4,
    "references": 2,
    "learning_rate": 1e-2,
    "schedule": "constant",
    "validate_every": 4,
    "exchange": True,
    "precision": "float32",
    "compile": "off",
}


def recipe(**changes):
    return Recipe(
        dataset="tabletop",
        model="scorer_cbr",
        settings={"dropout": 0.1, "temperature": 0.5},
        sizes=SIZES,
        loss={"cv": 0.1, "cbr": 0.001},
        train=TRAIN | changes,
        features={},
        code={},
    )


def train(prepared, folder, seed=1, scores=None, killed_at=None, **changes):
    """Train; `scores` are what validation gives in turn; `killed_at` raises at that validation."""
    devices.repeatable()
    chosen = recipe(**changes)
    seed_all(seed, 0)
    model = recipe_file.build(
        chosen, chosen.sizes_for((6, 3, 3), len(prepared.vocabulary), prepared.vocabulary.longest)
    )
    training = Training(model, chosen, seed, folder / "state.pt", validation(scores, killed_at))
    sampler = Sampler(
        of_split(prepared.pairs, "train"), TRAIN["batch"], seed, TRAIN["exchange"], TRAIN["references"]
    )
    history = training.run(sampler, prepared.store, prepared.vocabulary)
    return history, model.state_dict()


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


def test_one_seed_one_result_another_seed_another(prepared, tmp_path):
    one, weights = train(prepared, tmp_path / "a")
    two, again = train(prepared, tmp_path / "b")
    other, others = train(prepared, tmp_path / "c", seed=2)
    assert same(weights, again)
    assert one.losses == two.losses
    assert not same(weights, others)
    assert one.losses != other.losses


@pytest.mark.parametrize("killed_at", [1, 2, 3])
@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_a_killed_run_ends_in_the_same_bits(prepared, tmp_path, killed_at, schedule):
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


def test_the_best_snapshot_is_kept_and_ties_keep_the_earlier(prepared, tmp_path):
    history, weights = train(prepared, tmp_path, scores=[1.0, 2.0, 2.0])
    assert (history.best_iteration, history.best_score) == (8, 2.0)
    assert not same(history.best, weights)
    assert [row["iteration"] for row in history.validation] == [4, 8, 12]
    assert [row["iteration"] for row in history.losses] == [4, 8, 10, 12]


def test_frozen_parameters_stay_and_the_model_is_constrained_after_each_step(prepared, tmp_path, monkeypatch):
    constrained = []
    monkeypatch.setattr(Captioner, "constrain", lambda self: constrained.append(1))
    build = recipe_file.build

    def half_frozen(*given):
        model = build(*given)
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


def test_a_loss_that_is_not_finite_is_named_with_its_iteration(prepared, tmp_path, monkeypatch):
    step = Training.step

    def broken(self, batch, iteration):
        terms = step(self, batch, iteration)
        if iteration == 5:
            terms[1] = math.nan
        return terms

    monkeypatch.setattr(Training, "step", broken)
    with pytest.raises(InputError, match=r"the loss 'cv' is nan at iteration 6; lower train\.learning_rate"):
        train(prepared, tmp_path)


def test_weights_that_the_last_step_spoilt_are_refused(prepared, tmp_path, monkeypatch):
    """No loss sees them, and a validation may give them a score all the same."""
    step = Training.step

    def spoilt(self, batch, iteration):
        terms = step(self, batch, iteration)
        if iteration == 11:
            with torch.no_grad():
                next(self.model.parameters())[0] = math.inf
        return terms

    monkeypatch.setattr(Training, "step", spoilt)
    said = r"^the weights '\S+' are not finite after iteration 12; lower train\.learning_rate \(now 0\.01\)$"
    for _ in range(2):  # it goes on from the validation before, and is refused again
        with pytest.raises(InputError, match=said):
            train(prepared, tmp_path)
    monkeypatch.setattr(Training, "step", step)
    assert train(prepared, tmp_path)[0].iteration == 12


def test_a_recipe_that_lacks_a_loss_terms_weight_is_refused(prepared, tmp_path, monkeypatch):
    """It was trained with weight 1."""
    whole = recipe()
    monkeypatch.setitem(globals(), "recipe", lambda **_: replace(whole, loss={"cv": 0.1}))
    with pytest.raises(InputError, match=r"has no weight of the loss term 'cbr' \(under `loss`\); run `dvc"):
        train(prepared, tmp_path)


def test_a_damaged_state_is_said_and_the_run_ends_in_the_same_bits(prepared, tmp_path):
    _, weights = train(prepared, tmp_path / "whole")
    with pytest.raises(KilledError):
        train(prepared, tmp_path / "cut", killed_at=3)
    state = tmp_path / "cut/state.pt"
    state.write_bytes(state.read_bytes()[:-1000])
    history, again = train(prepared, tmp_path / "cut")
    assert same(weights, again)
    assert [row["iteration"] for row in history.validation] == [4, 8, 12]


def test_the_loss_is_the_weighted_sum_of_terms_meaned_over_parts(prepared, tmp_path):
    """One step of plain gradient descent by hand: mean over parts, then weights, then the sum."""
    chosen = replace(
        recipe(), settings={"dropout": 0.0, "temperature": 0.5}
    )  # dropout draws once for both parts
    sampler = Sampler(of_split(prepared.pairs, "train"), 4, 1, True)
    (batch,) = training_batches(sampler, prepared.store, prepared.vocabulary, range(1))
    seed_all(1, 0)
    model = recipe_file.build(
        chosen, Sizes(6, (3, 3), len(prepared.vocabulary), prepared.vocabulary.longest, **SIZES)
    )
    training = Training(model, chosen, 1, tmp_path / "state.pt", lambda _: 0.0)
    seed_all(1, 0)
    found = training.step(batch, 0)
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.load_state_dict(fresh_weights(chosen, prepared))
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


def fresh_weights(chosen, prepared):
    seed_all(1, 0)
    sizes = Sizes(6, (3, 3), len(prepared.vocabulary), prepared.vocabulary.longest, **SIZES)
    return recipe_file.build(chosen, sizes).state_dict()
