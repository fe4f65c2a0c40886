"""Two processes that share every batch train the same weights as one process."""

from dataclasses import replace
from unittest.mock import patch

import pytest
import torch

from pipeline.compute import devices
from pipeline.compute.process_group import ALONE, joined
from pipeline.config import recipe_file
from pipeline.datasets.schema import images_of, of_split
from pipeline.features.store import FeatureStore
from pipeline.io.errors import InputError
from pipeline.training.loop import Training, seed_all
from tests.pipeline.training.test_loop import recipe, same
from tests.samplers import sampler_of
from tests.spawned import spawn

pytestmark = pytest.mark.slow


class Watched:
    """A store that records which keys are read."""

    def __init__(self, store):
        self.store, self.asked = store, []

    def read(self, keys):
        self.asked.append(list(keys))
        return self.store.read(keys)


def train(data, folder, ranks, dropout=0.0, **changes):
    """Train a small model; return the losses, the weights and the keys that were read."""
    pairs, place, vocabulary = data
    chosen = {"iterations": 4, "learning_rate": 1e-3, "validate_every": 2, **changes}
    chosen = replace(recipe(**chosen), settings={"dropout": dropout, "temperature": 0.5})
    devices.repeatable()
    seed_all(1, 0)
    model = recipe_file.build(chosen, chosen.sizes_for((6, 3, 3), len(vocabulary), vocabulary.longest))
    run = Training(model, chosen, 1, folder / "state.pt", None if ranks.rank else lambda _: 0.5, ranks)
    store = Watched(FeatureStore(place, {}))
    history = run.run(sampler_of(of_split(pairs, "train"), 4, 1, True), store, vocabulary)
    return history.losses, model.state_dict(), store.asked


def broken(data, folder, ranks):
    """Return the error when only the last process has a loss that is not finite."""
    step = Training.step

    def nan(self, batch, iteration):
        terms = step(self, batch, iteration)
        return terms * torch.nan if iteration == 2 and ranks.rank == ranks.world - 1 else terms

    with patch.object(Training, "step", nan), pytest.raises(InputError) as caught:
        train(data, folder, ranks)
    return str(caught.value)


def measure(data, folder, ranks):
    found = {
        "training": train(data, folder / "a", ranks),
        "start": train(data, folder / "b", ranks, iterations=1, learning_rate=1e-30)[1],
        "bfloat16": train(data, folder / "c", ranks, precision="bfloat16")[1],
        "broken": broken(data, folder / "d", ranks),
        "dropout": train(data, folder / "e", ranks, dropout=0.1)[1],
        "seed": torch.initial_seed(),  # of the last iteration's dropout
    }
    train(data, folder / "f", ranks, dropout=0.1, iterations=2)
    return found | {"resumed": train(data, folder / "f", ranks, dropout=0.1)[1]}


def work(data, folder):
    with joined() as ranks:
        torch.save(measure(data, folder, ranks), folder / f"{ranks.rank}.pt")


@pytest.fixture(scope="module")
def found(prepared, tmp_path_factory):
    """Results of a single process, and of each of two processes."""
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
    # the bias of keys changes no softmax: its gradient is a rounding error, which Adam enlarges
    assert {name for name in apart if not name.endswith("attention.key.bias")} == set()
    assert not torch.allclose(one["decoder.vocabulary.weight"], start["decoder.vocabulary.weight"], atol=1e-3)
    for row, other in zip(losses, shared, strict=True):
        assert other == pytest.approx(row, rel=1e-5)


def test_a_process_reads_only_the_features_of_its_scenes(found, prepared):
    sampler = sampler_of(of_split(prepared.pairs, "train"), 4, 1, True)
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


def test_a_resumed_run_gives_the_same_bits(found):
    for each in found:
        assert same(each["resumed"], each["dropout"])
    assert not same(found[0]["dropout"], found[1]["dropout"])


def test_bfloat16_gives_the_same_bits_in_both_processes(found):
    one, first, second = (each["bfloat16"] for each in found)
    assert same(first, second)
    assert not same(first, found[1]["training"][1])
    assert all(torch.allclose(first[name], one[name], atol=0.02) for name in one)


def test_a_loss_that_is_not_finite_in_one_process_ends_all_processes(found):
    said = {each["broken"] for each in found}
    assert len(said) == 1
    assert "is nan at iteration 3" in said.pop()
