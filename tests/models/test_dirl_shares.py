"""DIRL's losses of a batch that two processes share: the shares, and their gradients, add up to one's."""

import pytest
import torch

from pipeline.compute.process_group import join
from tests.models.test_dirl import make
from tests.random_models import randomise
from tests.spawned import spawn

pytestmark = pytest.mark.slow

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


def share(folder):
    ranks = join()
    torch.save([learned(case, ranks.part(4)) for case in CASES], folder / f"{ranks.rank}.pt")
    ranks.wait()
    ranks.leave()


@pytest.fixture(scope="module")
def shares(tmp_path_factory):
    """Of each case, what both processes found."""
    folder = tmp_path_factory.mktemp("shares")
    spawn(share, 2, folder)
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
