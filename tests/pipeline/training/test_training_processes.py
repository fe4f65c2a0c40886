"""Two processes that share every batch: one's gradients and weights, the same bits in both."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import torch

from models import build
from models.clip4idc import model as clip4idc
from models.clip4idc.encoders import ClipSizes
from models.common import distributed_batch
from models.common.captioner import Sizes
from models.common.distributed_batch import add_gradients
from pipeline.compute import devices
from pipeline.compute.process_group import ALONE, Ranks, join
from pipeline.config import recipe_file
from pipeline.datasets.schema import images_of, of_split
from pipeline.features.store import FeatureStore
from pipeline.io.errors import InputError
from pipeline.training import loop
from pipeline.training.loop import Training, seed_all
from pipeline.training.sampling import Sampler
from tests.pipeline.training.test_loop import recipe, same
from tests.spawned import spawn

pytestmark = pytest.mark.slow

SIZES = Sizes(5, (2, 3), 11, 7, 8, 2, 2, 1, 4)
SCENES, PARTS = 4, 2
PIXELS = ClipSizes(3, (8, 8), 11, 6, 4, 8, 2, 1, 1, 8, 2, 1, 8, 8, 2, 1)
CASES = [(variant, dtype) for variant in ("paper", "released") for dtype in (torch.float32, torch.float64)]


def gradients(variant, dtype, ranks, local=False, add=True):
    """Of one step on this process's share of 4 scenes of 2 pairs; `local`: negatives of this share alone."""
    torch.manual_seed(0)
    model = build("scorer_cbr", SIZES, {"dropout": 0.0, "temperature": 0.5, "variant": variant}).to(dtype)
    features = torch.randn(2, PARTS, SCENES, 5, 2, 3, dtype=dtype)
    tokens = torch.randint(3, 11, (PARTS, SCENES, 8))
    for scene in range(SCENES):
        tokens[:, scene, 3 + scene :] = 0  # captions of different lengths: the mean is over all words
    share = ranks.part(SCENES)
    before, after = (model.encoding(grid[:, share].flatten(0, 1)) for grid in features)
    with patch.object(distributed_batch, "processes", lambda: 1 if local else ranks.world):
        losses = model.losses_of(before, after, tokens[:, share].flatten(0, 1), PARTS)
    weighted = losses["cap"] + 0.1 * losses["cv"] + 0.2 * losses["cbr"]
    (weighted / (ranks.world if local else 1)).backward()
    if add:
        add_gradients(model.parameters())
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def retrieval(variant, ranks, local=False):
    """Loss and gradients of the adaptation on this process's share of 4 pairs with their sentences."""
    torch.manual_seed(0)
    given = {"dropout": 0.0, "coef_lr": 1.0, "temperature": 0.07, "variant": variant}
    model = build("clip4idc", PIXELS, given | {"switches": {"frozen": "none"}}, "adapt").double()
    images = torch.randint(0, 256, (2, SCENES, 3, 8, 8)).double()
    tokens = torch.randint(4, 11, (SCENES, 6))
    tokens[range(SCENES), [2, 3, 4, 5]] = 3  # captions of different lengths
    share = ranks.part(SCENES)
    count = (lambda: 1) if local else (lambda: ranks.world)
    with patch.object(distributed_batch, "processes", count), patch.object(clip4idc, "processes", count):
        before, after = (model.encoding(each[share]) for each in images)
        loss = model.losses_of(before, after, tokens[share])["retrieval"] / (ranks.world if local else 1)
    loss.backward()
    add_gradients(model.parameters())
    found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return loss.item(), found


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


def unequal(data, state, ranks):
    """Weights where every process steps by its own gradients."""
    with patch.object(loop, "add_gradients", lambda parameters: None):
        return train(data, state, ranks)[1]


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
        "gradients": [gradients(*case, ranks) for case in CASES],
        "own gradients": gradients(*CASES[1], ranks, add=False),
        "local negatives": gradients(*CASES[1], ranks, local=True),
        "training": whole,
        "unequal": unequal(data, folder / "b" / "state", ranks),
        "seed": seeds(data, folder / "c" / "state", ranks),
        "dropout": train(data, folder / "d" / "state", ranks, dropout=0.1)[1],
        "resumed": resumed(data, folder / "e", ranks),
        "bfloat16": train(data, folder / "f" / "state", ranks, precision="bfloat16")[1],
        "broken": broken(data, folder / "g" / "state", ranks),
        "retrieval": [retrieval(variant, ranks) for variant in ("paper", "released")],
        "local retrieval": retrieval("paper", ranks, local=True),
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


def close(found, expected, tolerance):
    """Whether gradients are equal, as a part of the largest."""
    assert found.keys() == expected.keys()
    largest = max(x.abs().max() for x in expected.values())
    return all((found[name] - expected[name]).abs().max() <= tolerance * largest for name in expected)


@pytest.mark.parametrize("case", range(len(CASES)), ids=str)
def test_added_gradients_are_those_of_the_whole_batch(found, case):
    one, first, second = (each["gradients"][case] for each in found)
    tolerance = {torch.float32: 1e-6, torch.float64: 1e-10}[CASES[case][1]]
    assert close(first, one, tolerance)
    assert same(first, second)


def test_without_the_others_the_gradients_are_other_ones(found):
    one, first, _ = found
    assert not close(first["own gradients"], one["gradients"][1], 1e-2)
    assert not close(first["local negatives"], one["gradients"][1], 1e-4)
    assert close(one["local negatives"], one["gradients"][1], 1e-10)


@pytest.mark.parametrize("variant", [0, 1])
def test_a_pairs_negatives_are_the_sentences_of_all_processes(found, variant):
    """The loss is the sum of the shares; all gradients, the scale's too, are the batch's, but for rounding.

    Vectors are compared in 32-bit floats, whatever the model's are.
    """
    (whole, one), (first, mine), (second, others) = (each["retrieval"][variant] for each in found)
    assert first + second == pytest.approx(whole, rel=1e-6)
    assert close(mine, one, 1e-5)
    assert same(mine, others)
    assert mine["log_scale"].item() == pytest.approx(one["log_scale"].item(), rel=1e-5)
    assert mine["log_scale"].abs() > 1e-6


def test_with_the_own_sentences_alone_the_gradients_are_other_ones(found):
    one, first, _ = found
    assert not close(first["local retrieval"][1], one["retrieval"][0][1], 1e-2)
    assert close(one["local retrieval"][1], one["retrieval"][0][1], 1e-10)


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


def test_without_adding_up_their_weights_part(found):
    assert not same(found[1]["unequal"], found[2]["unequal"])
    assert same(found[0]["unequal"], found[0]["training"][1])  # alone nothing is added


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


def test_a_seed_alone_is_what_it_always_was():
    seed_all(3, 7)
    assert torch.initial_seed() == int(np.random.SeedSequence([3, 7]).generate_state(1, np.uint64)[0] >> 1)


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
