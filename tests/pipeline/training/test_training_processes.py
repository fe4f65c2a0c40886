"""Training with two processes that share every batch gives the weights of one, the same bits in both."""

from dataclasses import replace
from unittest.mock import patch

import pytest
import torch

from pipeline.compute import devices
from pipeline.compute.process_group import ALONE, Ranks, join
from pipeline.config import recipe_file
from pipeline.datasets.schema import images_of, of_split
from pipeline.features.store import FeatureStore
from pipeline.io.errors import InputError
from pipeline.training.loop import Training, seed_all
from pipeline.training.sampling import Sampler
from tests.pipeline.training.test_loop import recipe, same
from tests.spawned import spawn

pytestmark = pytest.mark.slow


class Watched:
    """A store that notes what it is asked for."""

    def __init__(self, store):
        self.store, self.asked = store, []

    def read(self, keys):
        self.asked.append(list(keys))
        return self.store.read(keys)


def train(data, state, ranks, dropout=0.0, **changes):
    """A tiny training; only the first process has a validation. Returns history, weights, what was read."""
    pairs, place, vocabulary = data
    chosen = {"iterations": 4, "learning_rate": 1e-3, "validate_every": 2, **changes}
    chosen = replace(recipe(**chosen), settings={"dropout": dropout, "temperature": 0.5})
    devices.repeatable()
    seed_all(1, 0)
    model = recipe_file.build(chosen, chosen.sizes_for((6, 3, 3), len(vocabulary), vocabulary.longest))
    run = Training(model, chosen, 1, state, None if ranks.rank else lambda _: 0.5, ranks)
    store = Watched(FeatureStore(place, {}))
    history = run.run(Sampler(of_split(pairs, "train"), 4, 1, True), store, vocabulary)
    return history.losses, model.state_dict(), store.asked


def seeds(data, state, ranks):
    """What the random numbers of the last iteration's dropout were drawn from."""
    train(data, state, ranks, dropout=0.1)
    return torch.initial_seed()


def resumed(data, folder, ranks):
    """Weights after 4 iterations, of which a first run made 2."""
    train(data, folder / "state", ranks, dropout=0.1, iterations=2)
    return train(data, folder / "state", ranks, dropout=0.1)[1]


def broken(data, state, ranks):
    """What is said where the last process alone has a loss that is not finite."""
    step = Training.step

    def nan(self, batch, iteration):
        terms = step(self, batch, iteration)
        return terms * torch.nan if iteration == 2 and ranks.rank == ranks.world - 1 else terms

    with patch.object(Training, "step", nan), pytest.raises(InputError) as caught:
        train(data, state, ranks)
    return str(caught.value)


def measure(data, folder, ranks):
    """All that one process and several processes are compared in."""
    whole = train(data, folder / "a" / "state", ranks)
    return {
        "start": train(data, folder / "0" / "state", ranks, iterations=1, learning_rate=1e-30)[1],
        "training": whole,
        "seed": seeds(data, folder / "c" / "state", ranks),
        "dropout": train(data, folder / "d" / "state", ranks, dropout=0.1)[1],
        "resumed": resumed(data, folder / "e", ranks),
        "bfloat16": train(data, folder / "f" / "state", ranks, precision="bfloat16")[1],
        "broken": broken(data, folder / "g" / "state", ranks),
    }


def work(data, folder):
    ranks = join()
    found = measure(data, folder, ranks)
    torch.save(found, folder / f"{ranks.rank}.pt")
    ranks.leave()


@pytest.fixture(scope="module")
def found(prepared, tmp_path_factory):
    """What one process finds, and each of two."""
    data = prepared.pairs, prepared.store.location.name, prepared.vocabulary
    folder = tmp_path_factory.mktemp("shared")
    spawn(work, 2, data, folder)
    two = [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(2)]
    return measure(data, tmp_path_factory.mktemp("alone"), ALONE), *two


def test_two_processes_train_the_weights_of_one(found):
    start = found[0]["start"]
    (losses, one, _), (shared, first, _), (_, second, _) = (each["training"] for each in found)
    assert same(first, second)
    apart = {name for name in one if (first[name] - one[name]).abs().max() > 1e-5}
    # what is added to all keys moves no softmax: such a gradient is rounding, which Adam makes large
    assert {name for name in apart if not name.endswith("attention.key.bias")} == set()
    assert not torch.allclose(one["decoder.vocabulary.weight"], start["decoder.vocabulary.weight"], atol=1e-3)
    for row, other in zip(losses, shared, strict=True):
        assert other == pytest.approx(row, rel=1e-5)


def test_each_reads_the_features_of_its_own_scenes(found, prepared):
    sampler = Sampler(of_split(prepared.pairs, "train"), 4, 1, True)
    for iteration in range(4):
        scenes, _ = sampler.draw(iteration)
        for each, share in zip(found, (slice(0, 4), slice(0, 2), slice(2, 4)), strict=True):
            own = [pair for part in zip(*scenes[share], strict=True) for pair in part]
            assert each["training"][2][iteration] == images_of(own)


def test_dropout_differs_between_processes_and_the_weights_do_not(found):
    one, first, second = found
    assert one["seed"] == first["seed"] != second["seed"]
    assert same(first["dropout"], second["dropout"])
    assert not same(first["dropout"], first["training"][1])


def test_a_resumed_run_ends_in_the_same_bits(found):
    for each in found:
        assert same(each["resumed"], each["dropout"])
    assert not same(found[0]["dropout"], found[1]["dropout"])


def test_bfloat16_gives_the_same_bits_in_both(found):
    one, first, second = (each["bfloat16"] for each in found)
    assert same(first, second)
    assert not same(first, found[1]["training"][1])
    assert all(torch.allclose(first[name], one[name], atol=0.02) for name in one)


def test_a_loss_that_is_not_finite_in_one_process_ends_all(found):
    said = {each["broken"] for each in found}
    assert len(said) == 1
    assert "is nan at iteration 3" in said.pop()


def test_a_part_of_a_batch():
    assert [range(8)[Ranks(rank, 4).part(8)] for rank in range(4)] == [
        range(first, first + 2) for first in (0, 2, 4, 6)
    ]
    assert range(8)[ALONE.part(8)] == range(8)
