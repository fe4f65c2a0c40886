"""DUDA and the dynamic speaker against loops: maps, vectors, words, loss terms and gradients."""

import pytest
import torch

from tests.reference import dynamic, loops
from tests.reference.dynamic import CHANGED, TOKENS, images, make

CASES = pytest.mark.parametrize(
    ("variant", "pooled"), [("paper", "sum"), ("released", "sum"), ("paper", "mean")]
)


def detector(model, variant, pooled):
    """Return a function: row of a pair -> both maps, and the three vectors, by loops."""
    before, after = images()
    module = model.difference.map

    def detect(row):
        b, a = (dynamic.cells(image[row], variant) for image in (before, after))
        differences = [y - x for x, y in zip(b, a, strict=True)]
        maps = [dynamic.image_map(module, own, differences) for own in (b, a)]
        l_bef, l_aft = (dynamic.pooled(w, own, pooled) for w, own in zip(maps, (b, a), strict=True))
        return maps, (l_bef, l_aft - l_bef, l_aft)

    return detect


@CASES
def test_every_term_and_its_gradients_by_loops(variant, pooled):
    model = make("duda", variant, pooled=pooled)
    wanted = dynamic.by_loops(detector(model, variant, pooled), model)
    loops.same_gradients(dict(model.named_parameters()), dynamic.losses(model), wanted)


@CASES
@torch.no_grad()
def test_the_maps_are_of_the_before_and_the_after_image(variant, pooled):
    model = make("duda", variant, pooled=pooled)
    found, detect = model.encode(*images()).maps, detector(model, variant, pooled)
    wanted = [torch.stack([torch.stack([*one]) for one in detect(row)[0]]) for row in range(len(found))]
    assert torch.allclose(found.sigmoid(), torch.stack(wanted), atol=1e-6)


def test_several_captions_of_a_pair_by_loops():
    model, more = make("duda"), TOKENS.flip(0)
    tokens = torch.stack([TOKENS, more], 1).flatten(0, 1)
    wanted = dynamic.by_loops(detector(model, "paper", "sum"), model, tokens, references=2)
    loops.same_gradients(dict(model.named_parameters()), dynamic.losses(model, tokens=tokens), wanted)


def test_maps_and_entropy_are_of_changed_pairs():
    model = make("duda")
    found = dynamic.losses(model)
    everyone, nobody = dynamic.losses(model, changed=None), dynamic.losses(model, changed=0 * CHANGED)
    for term in ("maps", "entropy"):
        assert nobody[term] == 0
        assert not torch.isclose(found[term], everyone[term])
        # pairs with unknown labels count as changed
        assert torch.equal(dynamic.losses(model, changed=CHANGED - 1 - CHANGED)[term], everyone[term])
    assert torch.equal(nobody["cap"], found["cap"])


def test_a_word_without_a_weight_has_no_entropy_and_finite_gradients():
    model = make("duda")
    with torch.no_grad():
        model.decoder.weights.bias.copy_(torch.tensor([2000.0, 0.0, 0.0]))
    found = dynamic.losses(model)["entropy"]
    found.backward()
    assert found == 0
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_dropout_is_on_maps_words_and_what_is_read_out():
    """At a dropout rate of 1, only biases have an effect."""
    model = make("duda").train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            assert module.p == 0.5
            module.p = 1.0
    difference = model.encode(*images())
    assert torch.equal(difference.maps, model.difference.map.weigh.bias.expand(4, 2, 6))
    words = model.decoder(TOKENS, difference)
    assert torch.equal(words.logits, model.decoder.vocabulary.bias.expand_as(words.logits))
    assert words.weights.std(1).max() > 0  # the LSTM states are not dropped


@torch.no_grad()
def test_differing_initially_attends_to_the_cell_that_differs():
    model, before, after = dynamic.begun("duda", "differing")
    found = model.encode(before, after)
    weights = found.maps.sigmoid()[0]  # 2 x N
    assert weights[:, 7].min() > 0.9
    assert weights[:, [i for i in range(20) if i != 7]].max() < 0.01
    assert dynamic.begun("duda", "program")[0].encode(before, after).maps.sigmoid()[0].std() < 0.2
