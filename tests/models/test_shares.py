"""The losses of a batch that two processes share: the shares, and their gradients, add up to one's.

A model that is added is asked here without being named.
"""

from unittest.mock import patch

import pytest
import torch

from models.common.trainable import Labels
from pipeline.compute.process_group import join
from tests.models.test_conformance import EVERY, built, captions, images
from tests.spawned import spawn

pytestmark = pytest.mark.slow

SHARED = [  # model, variant, switches
    *EVERY,
    ("dirl", "paper", {"terms": "discrimination"}),
    ("dirl", "paper", {"center": True}),
    ("ccr", "paper", {"directions": "averaged"}),
]


def among(cases):
    return pytest.mark.parametrize("case", cases, ids=lambda case: "-".join(map(str, SHARED[case])))


EACH = among(range(len(SHARED)))
OF_DIRL = among([n for n, (name, *_) in enumerate(SHARED) if name in ("dirl", "ccr", "dirl_ccr")])


def hidden(tokens, share, mask):
    """In place of masks that are drawn: the same ones in whichever process."""
    chosen = (tokens > 3) & (tokens % 2 == 0)
    return tokens.masked_fill(chosen, mask), chosen


def learned(name, variant, switches=None, pairs=slice(None), spoil=False):
    """Losses and gradients of some of four pairs."""
    model = built(name, variant, switches)
    before, after = images(model, 4)[:, pairs]
    labels = Labels(torch.tensor([1, 0, 1, 1])[pairs], "mlm")
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
    ranks = join()
    found = [learned(*case, pairs=ranks.part(4)) for case in SHARED]
    spoilt = learned("subtraction", "paper", pairs=ranks.part(4), spoil=True)
    torch.save([*found, spoilt], folder / f"{ranks.rank}.pt")
    ranks.wait()
    ranks.leave()


@pytest.fixture(scope="module")
def shares(tmp_path_factory):
    """Of each case, and of the spoilt one, what both processes found."""
    folder = tmp_path_factory.mktemp("shares")
    spawn(share, 2, folder)
    return list(zip(*(torch.load(folder / f"{rank}.pt") for rank in range(2)), strict=True))


def adding_up(own, whole):
    for key, value in whole.items():
        summed = sum(found[key] for found in own)
        torch.testing.assert_close(
            summed, value, rtol=1e-6, atol=1e-9, msg=lambda said, key=key: f"{key}: {said}"
        )


@EACH
def test_the_shares_of_two_processes_add_up(shares, case):
    whole = learned(*SHARED[case])
    terms = built(*SHARED[case]).terms
    assert all(value.abs().sum() > 0 for key, value in whole.items() if key in terms)
    adding_up(shares[case], whole)


@OF_DIRL
def test_halves_that_do_not_know_of_each_other_are_another_loss(case):
    whole = learned(*SHARED[case])
    halves = [learned(*SHARED[case], pairs=pairs) for pairs in (slice(2), slice(2, 4))]
    for term in {"dirl", "ccr"} & whole.keys():
        assert not torch.allclose((halves[0][term] + halves[1][term]) / 2, whole[term], rtol=1e-3)


def test_a_term_without_its_share_does_not_add_up(shares):
    with pytest.raises(AssertionError, match=r"^cap: "):
        adding_up(shares[-1], learned("subtraction", "paper", spoil=True))
