"""If two processes share a batch, their losses and gradients add up to those of one process."""

from unittest.mock import patch

import pytest
import torch

from models.common.trainable import Labels
from pipeline.compute.process_group import joined
from tests.models.test_conformance import EVERY, built, captions, images
from tests.spawned import spawn

pytestmark = pytest.mark.slow

SHARED = [  # model, variant, switches, phase
    *EVERY,
    ("scorer", "paper", {"contrast": "distance"}),
    ("clip4idc", "paper", {}, "adapt"),
    ("clip4idc", "released", {}, "adapt"),
    ("dirl", "paper", {"terms": "discrimination"}),
    ("dirl", "paper", {"center": True}),
    ("ccr", "paper", {"directions": "averaged"}),
]


def among(cases):
    return pytest.mark.parametrize("case", cases, ids=lambda case: "-".join(map(str, SHARED[case])))


EACH = among(range(len(SHARED)))


def hidden(tokens, share, mask):
    """Replace random masks by the same masks in each process."""
    chosen = (tokens > 3) & (tokens % 2 == 0)
    return tokens.masked_fill(chosen, mask), chosen


def learned(name, variant, switches=None, phase=None, pairs=slice(None), spoil=False):
    """Return losses and gradients of some of four pairs; `spoil` adds a loss that is no share."""
    model = built(name, variant, switches, phase)
    for place, values in model.named_parameters():
        if place.startswith("difference.routing.") and place.endswith(".values"):
            values.data += 1.0  # MEDIC's experts are alike, so that its loss L_dis is not 0
    before, after = images(model, 4)[:, pairs]
    kinds = torch.tensor([2, 5, 2, 4])[pairs]
    labels = Labels(torch.tensor([1, 0, 1, 1])[pairs], "mlm", kinds=kinds)
    with patch("models.idc_pcl.model.masked_words", hidden):
        losses = model.losses_of(
            model.encoding(before), model.encoding(after), captions(4)[pairs], labels=labels
        )
    if spoil:
        losses["cap"] = losses["cap"] + model.decoder.vocabulary.bias.square().sum()  # without its share
    sum(losses.values()).backward()
    grown = {place: p.grad for place, p in model.named_parameters() if p.grad is not None}
    return {term: loss.detach() for term, loss in losses.items()} | grown


def share(folder):
    with joined() as ranks:
        found = [learned(*case, pairs=ranks.part(4)) for case in SHARED]
        spoilt = learned("subtraction", "paper", pairs=ranks.part(4), spoil=True)
        torch.save([*found, spoilt], folder / f"{ranks.rank}.pt")
        ranks.wait()


@pytest.fixture(scope="module")
def shares(tmp_path_factory):
    """Return the results of both processes for each case, and for the spoilt one."""
    folder = tmp_path_factory.mktemp("shares")
    spawn(share, 2, folder)
    return list(zip(*(torch.load(folder / f"{rank}.pt") for rank in range(2)), strict=True))


def adding_up(own, whole, exact=True):
    """Check that the shares `own` add up to `whole`; not `exact`: the model computes its loss in float32."""
    tolerances = {"rtol": 1e-6, "atol": 1e-9} if exact else {"rtol": 1e-4, "atol": 1e-7}
    for key, value in whole.items():
        summed = sum(found[key] for found in own)
        torch.testing.assert_close(summed, value, **tolerances, msg=lambda said, key=key: f"{key}: {said}")


@EACH
def test_the_shares_of_two_processes_add_up(shares, case):
    whole = learned(*SHARED[case])
    terms = built(*SHARED[case]).terms
    assert all(value.abs().sum() > 0 for key, value in whole.items() if key in terms)
    adding_up(shares[case], whole, "adapt" not in SHARED[case])


def test_a_term_without_its_share_does_not_add_up(shares):
    with pytest.raises(AssertionError, match=r"^cap: "):
        adding_up(shares[-1], learned("subtraction", "paper", spoil=True))
