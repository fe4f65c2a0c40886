"""DIRL's losses of a batch that two processes share: the shares, and their gradients, add up to one's."""

from multiprocessing import get_context

import pytest
import torch
from torch import distributed

from tests.models.test_dirl import make
from tests.switched import randomise

CASES = [  # model, variant, switches
    ("dirl_ccr", "paper", {}),
    ("dirl_ccr", "released", {}),
    ("dirl", "paper", {"terms": "discrimination"}),
    ("dirl", "paper", {"center": True}),
    ("ccr", "paper", {"directions": "averaged"}),
]


def batch():
    random = torch.Generator().manual_seed(1)
    before, after = torch.randn(2, 4, 5, 2, 3, generator=random, dtype=torch.float64)
    return before, after, torch.tensor([[2, 4, 5, 3, 0], [2, 6, 3, 0, 0], [2, 4, 7, 8, 3], [2, 5, 3, 0, 0]])


def learned(case, rows=slice(None)):
    """Terms and gradients of some rows of the batch, a flat dictionary."""
    name, variant, switches = case
    model = randomise(make(switches, name, variant=variant)).double()
    losses = model.losses(*(x[rows] for x in batch()))
    sum(losses.values()).backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    return {name: loss.detach() for name, loss in losses.items()} | gradients


def share(rank, folder):
    torch.set_num_threads(1)
    meeting = f"file://{folder / 'meeting'}"
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
    torch.save([learned(case, slice(2 * rank, 2 * rank + 2)) for case in CASES], folder / f"{rank}.pt")
    distributed.barrier()
    distributed.destroy_process_group()


@pytest.fixture(scope="module")
def shares(tmp_path_factory):
    """Of each case, what both processes found."""
    folder = tmp_path_factory.mktemp("shares")
    both = [get_context("spawn").Process(target=share, args=(rank, folder)) for rank in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(120)
    assert [process.exitcode for process in both] == [0, 0]
    return list(zip(*(torch.load(folder / f"{rank}.pt") for rank in range(2)), strict=True))


@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda case: "-".join(map(str, CASES[case])))
def test_shares_add_up(shares, case):
    whole = learned(CASES[case])
    for name, value in whole.items():
        summed = sum(each[name] for each in shares[case])
        torch.testing.assert_close(
            summed, value, rtol=1e-6, atol=1e-9, msg=lambda m, name=name: f"{name}: {m}"
        )


@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda case: "-".join(map(str, CASES[case])))
def test_halves_that_do_not_know_of_each_other_are_another_loss(case):
    whole = learned(CASES[case])
    halves = [learned(CASES[case], rows) for rows in (slice(2), slice(2, 4))]
    for term in {"dirl", "ccr"} & whole.keys():
        assert not torch.allclose((halves[0][term] + halves[1][term]) / 2, whole[term], rtol=1e-3)
